"""Known answers through the units: Veles' published cases, cases from its formulas, public bug reports."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.testing import assert_close
from tests.golden import reports_conv, reports_pooling, veles_conv, veles_pooling, veles_steps
from tests.golden.base import ConvGolden, PoolGolden
from tests.units.twins import CONVS, DTYPES, POOLS, conv_twins, host, nan, ran, ready

PLAIN_REPORTS = [
    golden
    for golden in vars(reports_conv).values()
    if isinstance(golden, ConvGolden)
    and (golden.groups, golden.dilation) == (1, (1, 1))
    # fast numerics may multiply padding by a weight; that Inf and NaN do not show there is a promise of fixed
    and np.isfinite(golden.weights).all()
]
PLAIN_POOLS = [
    golden
    for golden in (*veles_pooling.POOLS, *vars(reports_pooling).values())
    if isinstance(golden, PoolGolden)
    and (golden.padding, golden.dilation, golden.ceil) == ((0, 0, 0, 0), (1, 1), True)
]
STEPS = {step.name: step for step in veles_steps.STEPS}


def window(golden):
    return {"padding": golden.padding, "sliding": golden.sliding}


def backward_of(golden, backend):
    """The backward unit alone, with all its arrays assigned, as in a user's own loop."""
    n_kernels, ky, kx, _ = golden.weights.shape
    keywords = {"n_kernels": n_kernels, "kx": kx, "ky": ky, "include_bias": golden.bias is not None}
    gd = CONVS[golden.activation][1](**keywords, **window(golden))
    gd.err_input = nan(golden.x.shape, golden.x.dtype)
    arrays = {"input": golden.x, "weights": golden.flat_weights.copy(), "err_output": golden.err_output}
    return ran(gd, backend, bias=golden.bias, output=golden.output_for_factor, **arrays)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("golden", [g for g in veles_conv.CONVS if g.output is not None], ids=str)
def test_conv_forward(backend, golden, dtype):
    data = golden.cast(dtype)
    forward, _ = conv_twins(
        backend, data.x, data.weights, data.bias, activation=golden.activation, **window(golden)
    )
    assert_close(host(forward.output), golden.output, rtol=0, atol=golden.allowed(dtype, forward=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("golden", [*veles_conv.CONVS, *PLAIN_REPORTS], ids=str)
def test_conv_backward(backend, golden, dtype):
    gd = backward_of(golden.cast(dtype), backend)
    if golden.err_input is not None:
        assert_close(host(gd.err_input), golden.err_input, rtol=0, atol=golden.allowed(dtype))
    if golden.gradient_weights is not None:
        expected = golden.gradient_weights.reshape(golden.flat_weights.shape)
        assert_close(host(gd.gradient_weights), expected, rtol=0, atol=golden.allowed(dtype))
    if golden.gradient_bias is not None and golden.bias is not None:
        assert_close(host(gd.gradient_bias), golden.gradient_bias, rtol=0, atol=golden.allowed(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ["a", "b"])
def test_conv_step_with_default_numbers(backend, case, dtype):
    golden = getattr(veles_conv, f"CASE_{case.upper()}")
    gd = backward_of(golden.cast(dtype), backend)
    for name in ("weights", "bias"):
        step = STEPS[f"case_{case}_{name}"]
        assert_close(host(getattr(gd, name)), step.new_weights, rtol=0, atol=step.tolerance[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_case_d_with_three_axes(backend, dtype):
    data = veles_conv.CASE_D.cast(dtype)
    gd = CONVS["relu"][1](n_kernels=2, kx=3, ky=3)
    gd.output, gd.err_output = data.output_for_factor, data.err_output.reshape(1, 9, 2)
    ran(gd, backend, input=data.x.reshape(1, 5, 5), weights=data.flat_weights.copy(), bias=data.bias)
    step = STEPS["case_d_bias"]
    assert_close(host(gd.bias), step.new_weights, rtol=0, atol=step.tolerance[dtype])
    expected = veles_conv.CASE_D.gradient_weights.reshape(2, 9)
    assert_close(host(gd.gradient_weights), expected, rtol=0, atol=veles_conv.CASE_D.allowed(dtype))
    assert gd.err_input.shape == (1, 5, 5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("golden", PLAIN_POOLS, ids=str)
def test_pooling(backend, golden, dtype):
    data = golden.cast(dtype)
    forward_class, backward_class = POOLS[golden.kind]
    keywords = dict(zip(("kx", "ky"), golden.kernel, strict=True), sliding=golden.sliding)
    forward = ran(forward_class(**keywords), backend, input=data.x)
    np.testing.assert_array_equal(host(forward.output), data.output)
    if golden.offset is not None:
        np.testing.assert_array_equal(host(forward.input_offset), golden.offset)
    if golden.err_input is not None:
        gd = ran(backward_class().link_forward(forward), backend, err_output=data.err_output)
        np.testing.assert_array_equal(host(gd.err_input), data.err_input)


@pytest.mark.parametrize("dtype", DTYPES)
def test_max_gradient_from_given_places(backend, dtype):
    gd = POOLS["max"][1](kx=2, ky=2)
    gd.input, gd.input_offset = nan(veles_pooling.GD_INPUT_SHAPE, dtype), veles_pooling.GD_OFFSET
    gd.err_input = np.full(veles_pooling.GD_INPUT_SHAPE, 1e30, dtype)
    ready(gd, backend, err_output=veles_pooling.GD_ERR_OUTPUT.astype(dtype)).run()
    np.testing.assert_array_equal(host(gd.err_input), veles_pooling.GD_ERR_INPUT.astype(dtype))


def test_every_kind_of_report_is_here():
    assert len(PLAIN_REPORTS) >= 8
    assert {golden.kind for golden in PLAIN_POOLS} == set(POOLS)
