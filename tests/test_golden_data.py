"""Every known answer of `tests.golden` worked out again by the loops of `tests.reference`."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.golden import (
    reports_activation,
    reports_conv,
    reports_pooling,
    shapes,
    steps,
    veles_conv,
    veles_pooling,
    veles_steps,
)
from tests.golden.base import Array, ConvGolden, PoolGolden, StepGolden, known
from tests.reference import activation, conv, pooling
from tests.reference.update import Updated, update

CONVS = (*veles_conv.CONVS, *reports_conv.CONVS)
POOLS = (*veles_pooling.POOLS, *reports_pooling.POOLS)


def agrees(result: Array, answer: Array | None, allowed: float) -> None:
    """A known answer is met within `allowed`; one that is not known is not missed."""
    if answer is not None:
        assert result.shape == answer.shape
        assert_allclose(result, answer, rtol=0, atol=allowed)


@pytest.mark.parametrize("golden", CONVS, ids=str)
def test_conv(golden: ConvGolden) -> None:
    g, allowed = golden, golden.allowed("float64")
    y = activation.activate(g.activation, conv.conv_forward(g.x, g.weights, g.bias, **g.window))
    agrees(y, g.output, g.allowed("float64", forward=True))
    d = activation.scale(g.activation, g.err_output, y if g.output_given is None else g.output_given)
    agrees(conv.conv_input_gradient(d, g.weights, g.x.shape[1:3], **g.window), g.err_input, allowed)
    agrees(conv.conv_weight_gradient(g.x, d, g.kernel, **g.window), g.gradient_weights, allowed)
    agrees(conv.bias_gradient(d), g.gradient_bias, allowed)


@pytest.mark.parametrize("golden", CONVS, ids=str)
def test_every_conv_knows_some_answer(golden: ConvGolden) -> None:
    answers = (golden.output, golden.err_input, golden.gradient_weights, golden.gradient_bias)
    assert any(answer is not None for answer in answers)


def test_columns_of_case_b() -> None:
    """The unpacked image times the weights is the forward pass, times err_output the weight gradient."""
    case, columns = veles_conv.CASE_B, veles_conv.CASE_B_COLUMNS
    output = columns @ case.flat_weights.T + known(case.bias)
    assert_allclose(output, known(case.output).reshape(12, 2), atol=1e-12)
    gradient = case.err_output.reshape(12, 2).T @ columns
    assert_array_equal(gradient, known(case.gradient_weights).reshape(2, 9))


def test_beta_goldens() -> None:
    g = reports_conv.ONTO_PRIOR
    assert_array_equal(reports_conv.ERR_INPUT_ONTO_X, known(g.err_input) + g.x)
    assert_array_equal(reports_conv.GRADIENT_ONTO_WEIGHTS, known(g.gradient_weights) + g.weights)


@pytest.mark.parametrize("golden", POOLS, ids=str)
def test_pool(golden: PoolGolden) -> None:
    g = golden
    output, offset = pooling.pool_forward(g.x, g.kind, g.kernel, **g.window)
    assert_array_equal(output, g.output, strict=True)
    assert_array_equal(np.signbit(output), np.signbit(g.output))
    assert (offset is None) == (g.offset is None)
    if offset is not None:
        assert_array_equal(offset, g.offset, strict=True)
    if g.err_output is not None:
        err_input = pooling.pool_backward(
            g.err_output, g.x.shape, g.kind, g.kernel, offset=offset, **g.window
        )
        assert_array_equal(err_input, g.err_input, strict=True)


def test_max_gradient_of_veles() -> None:
    v = veles_pooling
    err_input = pooling.pool_backward(v.GD_ERR_OUTPUT, v.GD_INPUT_SHAPE, "max", (2, 2), offset=v.GD_OFFSET)
    assert_array_equal(err_input, v.GD_ERR_INPUT)
    assert np.count_nonzero(err_input) == 36
    winners = np.zeros(v.GD_INPUT_SHAPE)  # an input whose maxima lie at these offsets
    winners.flat[v.GD_OFFSET.ravel()] = 1
    assert_array_equal(pooling.pool_forward(winners, "max", (2, 2))[1], v.GD_OFFSET)


@pytest.mark.parametrize("golden", [*veles_steps.STEPS, *steps.STEPS], ids=str)
def test_step(golden: StepGolden) -> None:
    state = Updated(golden.weights, np.zeros(golden.weights.shape), np.zeros(golden.weights.shape))
    for rate in golden.learning_rates:
        buffers = (state.velocity, state.accumulated)
        state = update(state.weights, golden.gradient, *buffers, learning_rate=rate, **golden.keywords)
    allowed = golden.tolerance["float64"]
    agrees(state.weights, golden.new_weights, allowed)
    agrees(state.velocity, golden.velocity, allowed)
    agrees(state.accumulated, golden.accumulated, allowed)


@pytest.mark.parametrize(("s", "value", "slope"), reports_activation.SOFTPLUS)
def test_softplus(s: float, value: float, slope: float) -> None:
    assert np.float32(s) == s
    assert_allclose(activation.activate("relu", s), value, rtol=1e-15)
    assert_allclose(activation.factor("relu", value), slope, rtol=1e-15)
    assert_allclose(activation.activate("sigmoid", s), slope, rtol=1e-15)


@pytest.mark.parametrize(("s", "value"), reports_activation.TANH)
def test_tanh(s: float, value: float) -> None:
    assert np.float32(s) == s
    assert_allclose(activation.activate("tanh", s), value, rtol=1e-15)


@pytest.mark.parametrize("name", activation.NAMES)
def test_limits(name: str) -> None:
    low, high = reports_activation.LIMITS[name]
    assert_array_equal(activation.activate(name, [-math.inf, math.inf, math.nan]), [low, high, math.nan])


@pytest.mark.parametrize(("name", "y", "factor"), reports_activation.FACTORS)
def test_factor(name: str, y: float, factor: float) -> None:
    assert_allclose(activation.factor(name, y), factor, rtol=0, atol=1e-10)
    assert activation.factor(name, y) > 0 or factor == 0


@pytest.mark.parametrize("shape", shapes.TOO_LARGE, ids=str)
def test_too_large(shape: shapes.Shape) -> None:
    with pytest.raises(ValueError, match="larger"):
        conv.output_size(shape.size, shape.kernel, **shape.window)


@pytest.mark.parametrize("shape", shapes.EMPTY_WINDOW, ids=str)
def test_empty_window(shape: shapes.Shape) -> None:
    with pytest.raises(ValueError, match="no cell"):
        pooling.pool_output_size(shape.size, shape.kernel, **shape.window)


@pytest.mark.parametrize("case", shapes.REACHABLE, ids=str)
def test_reachable(case: shapes.Reachable) -> None:
    def rows(height: int) -> int:
        window = {"sliding": (1, case.sliding), "dilation": (1, case.dilation)}
        padding = (0, case.top, 0, case.bottom)
        return conv.output_size((height, 1), (1, case.kernel), padding, **window)[0]

    least = max(1, (case.kernel - 1) * case.dilation + 1 - case.top - case.bottom)
    assert [height for height in range(least, 40) if rows(height) == case.rows] == list(case.heights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cast_gives_fresh_arrays(dtype: str) -> None:
    case = veles_conv.CASE_B.cast(dtype)
    assert case.x.dtype == case.output.dtype == np.dtype(dtype)  # type: ignore[union-attr]
    case.x[0] = 9
    assert veles_conv.CASE_B.x[0, 0, 0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        veles_conv.CASE_B.x[0] = 9
    assert veles_pooling.MAX_ABS.cast(dtype).offset is veles_pooling.MAX_ABS.offset
