"""Faults of Veles' own units that ours must not have, one test each where no other file has it.

Others: B4 (a bias's own numbers) and B10 (the momentum buffer) in test_step, B5 (three axes) and B12
(messages) in test_formats, B6 (batch_size) in test_batch_size, B9 (debug without bias) in test_state.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.testing import assert_close
from convgrad.units.conv import Conv, GradientDescentConv
from tests.golden.steps import ACCUMULATED, MOMENTUM
from tests.reference import activation as judge
from tests.reference.conv import conv_forward
from tests.units.twins import ACTIVATIONS, CONVS, DENSES, conv_twins, dense_twins, host, nan, ran, ready


def one_cell(backend, golden, kind, transposed=False):
    """A backward unit, convolutional or fully connected, whose raw weight gradient is that of the golden."""
    kernels, taps = golden.weights.shape
    numbers = {"weights_decay": 0.0, "learning_rate": 0.1} | golden.keywords
    backward = {"weights_transposed": transposed, "include_bias": False} | numbers
    errors = np.eye(kernels)
    if kind == "conv":
        gd = GradientDescentConv(n_kernels=kernels, kx=1, ky=1, **backward)
        x, errors = golden.gradient.reshape(kernels, 1, 1, taps), errors.reshape(kernels, 1, 1, kernels)
    else:
        gd, x = DENSES["linear"][1](**backward), golden.gradient
    weights = golden.weights.T.copy() if transposed else golden.weights.copy()
    return ready(gd, backend, input=x, weights=weights, err_output=errors)


@pytest.mark.parametrize("kind", ["conv", "all2all"])
def test_b1_momentum_works_and_leaves_the_raw_gradient(backend, kind):
    gd = one_cell(backend, MOMENTUM, kind)
    for _ in MOMENTUM.learning_rates:
        gd.run()
        np.testing.assert_array_equal(host(gd.gradient_weights), MOMENTUM.gradient)
    assert_close(host(gd.weights), MOMENTUM.new_weights, rtol=0, atol=1e-14)
    assert_close(host(gd.gradient_weights_with_moment), MOMENTUM.velocity, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["conv", "all2all"])
def test_b2_accumulation_works(backend, kind):
    gd = one_cell(backend, ACCUMULATED[0], kind)
    for golden in ACCUMULATED:
        gd.run()
        assert_close(host(gd.accumulated_gradient_weights), golden.accumulated, rtol=0, atol=1e-14)
        assert_close(host(gd.weights), golden.new_weights, rtol=0, atol=1e-14)


@pytest.mark.parametrize("twins", [conv_twins, dense_twins])
def test_b3_transposed_weights_are_the_transpose(backend, rng, twins):
    """Veles read the bytes of the transpose as rows: [[0,3],[1,4],[2,5]] as [[0,3,1],[4,2,5]]."""
    if twins is conv_twins:
        x, weights = rng.standard_normal((2, 4, 5, 2)), rng.standard_normal((3, 2, 3, 2))
        errors = rng.standard_normal((2, 3, 3, 3))
    else:
        x, weights, errors = (rng.standard_normal(shape) for shape in ((2, 5), (3, 5), (2, 3)))
    numbers = {"factor_ortho": 0.2, "weights_decay": 0.1, "l1_vs_l2": 0.25, "gradient_moment": 0.5}
    found = []
    for transposed in (False, True):
        forward, gd = twins(backend, x, weights, weights_transposed=transposed, backward=numbers)
        ran(gd, backend, err_output=errors)
        gd.run()
        arrays = [host(a) for a in (forward.weights, gd.gradient_weights, gd.gradient_weights_with_moment)]
        arrays = [a.T for a in arrays] if transposed else arrays
        found.append([host(forward.output), host(gd.err_input), *arrays])
    for rows, columns in zip(*found, strict=True):
        assert_close(columns, rows, length=24)


def test_b8_gradients_of_the_weights_may_be_left_out(backend):
    _, gd = conv_twins(
        *(backend, np.ones((1, 3, 4, 1)), np.ones((2, 2, 3, 1)), np.ones(2)),
        backward={"need_gradient_weights": False, "gradient_moment": 0.9},
    )
    ran(gd, backend, err_output=np.ones((1, 2, 2, 2)))
    np.testing.assert_array_equal(host(gd.weights), 1)
    np.testing.assert_array_equal(host(gd.bias), 1)
    assert host(gd.err_input).any()


def test_b13_options_of_the_forward_unit_reach_the_backward_unit():
    forward = Conv(n_kernels=2, kx=3, ky=2, weights_transposed=True, include_bias=False)
    gd = GradientDescentConv().link_forward(forward)
    assert (gd.weights_transposed, gd.include_bias) == (True, False)


def test_b14_a_window_in_the_padding_of_both_axes(backend):
    """Its output is the bias alone, also when run again."""
    x, weights, bias = np.full((1, 2, 3, 1), 5.0), np.ones((2, 2, 2, 1)), np.array([3.0, -4.0])
    forward, gd = conv_twins(backend, x, weights, bias, padding=(3, 4, 2, 2), sliding=(2, 3))
    first = host(forward.output)
    forward.output.map_write()
    forward.output.mem[...] = np.nan
    forward.run()
    np.testing.assert_array_equal(host(forward.output), first)
    np.testing.assert_array_equal(first, conv_forward(x, weights, bias, padding=(3, 4, 2, 2), sliding=(2, 3)))
    np.testing.assert_array_equal(first[0, 0, 0], bias)
    gd.err_input = nan(x.shape)
    ran(gd, backend, err_output=np.ones(first.shape))
    assert np.isfinite(host(gd.err_input)).all()


@pytest.mark.parametrize("pairs", [CONVS, DENSES], ids=["conv", "all2all"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_b14_activations_without_bias(backend, rng, activation, pairs):
    if pairs is CONVS:
        x, weights = rng.standard_normal((2, 4, 5, 1)), rng.standard_normal((3, 2, 3, 1))
        forward, _ = conv_twins(backend, x, weights, activation=activation)
        sums = conv_forward(x, weights)
    else:
        x, weights = rng.standard_normal((2, 4)), rng.standard_normal((3, 4))
        forward, _ = dense_twins(backend, x, weights, activation=activation)
        sums = x @ weights.T
    assert_close(host(forward.output), judge.activate(activation, sums), length=6)
    assert forward.bias.mem is None


def test_b14_sigmoid_and_softplus_do_not_overflow(backend):
    x = np.array([-1e4, -800.0, -89.0, 0.0, 89.0, 800.0, 1e4]).reshape(7, 1, 1, 1)
    for activation in ("sigmoid", "relu", "tanh"):
        with warnings.catch_warnings(action="error"):
            forward, gd = conv_twins(backend, x, np.ones((1, 1, 1, 1)), activation=activation)
            ran(gd, backend, err_output=np.ones(x.shape))
        assert_close(host(forward.output), judge.activate(activation, x))
        assert np.isfinite(host(gd.err_input)).all()


def test_b14_assigned_weights_are_checked(backend):
    for transposed, wrong in ((False, (6, 2)), (True, (2, 6)), (False, (2, 7)), (False, (12,))):
        conv = Conv(n_kernels=2, kx=3, ky=2, weights_transposed=transposed)
        with pytest.raises(BadFormatError, match="weights must have shape"):
            ready(conv, backend, input=np.ones((1, 3, 4, 1)), weights=np.ones(wrong))


@pytest.mark.parametrize("twins", [conv_twins, dense_twins])
def test_b16_strict_relu_selects_from_the_sums(backend, twins):
    x = np.array([[-2.0], [3.0]])
    x, weights = (
        (x.reshape(2, 1, 1, 1), np.ones((1, 1, 1, 1))) if twins is conv_twins else (x, np.ones((1, 1)))
    )
    forward, _ = twins(backend, x, weights, activation="strict_relu")
    np.testing.assert_array_equal(host(forward.output).ravel(), [0, 3])


def test_the_gradient_of_softplus_keeps_its_digits(backend):
    """1 - exp(-y), as Veles has it, is 44 % off in float32 at s = -17."""
    x = np.full((1, 1, 1, 1), -17.0, np.float32)
    _, gd = conv_twins(backend, x, np.ones((1, 1, 1, 1), np.float32), activation="relu")
    ran(gd, backend, err_output=np.ones((1, 1, 1, 1), np.float32))
    assert_close(host(gd.err_input).ravel(), [4.1399375473943306e-08], rtol=1e-6)
