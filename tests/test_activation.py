"""The activations and their factors, against the oracle and numbers known to many digits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convgrad import functional
from convgrad.backends.numpy import activation
from convgrad.interfaces import ACTIVATIONS
from convgrad.testing import assert_close
from tests.golden.reports_activation import FACTORS, LIMITS, SOFTPLUS, TANH
from tests.reference import activation as oracle

DTYPES = (np.float32, np.float64)
EXTREME = (-math.inf, -1e4, -104, -88, -1e-40, -0.0, 0.0, 1e-40, 88, 89, 1e4, math.inf, math.nan)


def forward(kind, s):
    """In a new array, and in place: both must give the same bytes."""
    out, in_place = np.full_like(s, np.nan), s.copy()
    activation.forward(kind, s, out)
    activation.forward(kind, in_place, in_place)
    assert out.tobytes() == in_place.tobytes()
    return out


def scale(kind, err_output, output):
    out = np.full_like(output, np.nan)
    activation.scale(kind, err_output, output, out)
    return out


def ulps(actual, expected):
    """Differences in units of the spacing of floats at the expected value."""
    return np.abs(actual.astype(np.float64) - expected) / np.spacing(np.abs(expected).astype(actual.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_values_and_factors_agree_with_the_oracle(kind, dtype, rng):
    s = rng.uniform(-20, 20, (7, 11)).astype(dtype)
    y = forward(kind, s)
    assert y.dtype == dtype
    assert_close(y, oracle.activate(kind, s), rtol=8 * np.finfo(dtype).eps, atol=0)
    err = rng.standard_normal(y.shape).astype(dtype)
    scaled = scale(kind, err, y)
    assert scaled.dtype == dtype
    # 1 - y and the factor of tanh lose digits at saturation, as the formulas have it.
    assert_close(
        scaled, oracle.scale(kind, err, y), rtol=8 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps
    )


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_factors_are_the_derivatives(kind, rng):
    s = rng.uniform(-4, 4, 50)
    slope = (oracle.activate(kind, s + 1e-6) - oracle.activate(kind, s - 1e-6)) / 2e-6
    assert_close(scale(kind, np.ones(50), forward(kind, s)), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softplus_has_no_overflow_no_cancellation_and_no_switch(dtype):
    s, y, factor = (np.array(column) for column in zip(*SOFTPLUS, strict=True))
    found = forward("relu", s.astype(dtype))
    assert ulps(found, y).max() < 4
    assert (np.diff(found) >= 0).all()
    assert ulps(scale("relu", np.ones_like(found), y.astype(dtype)), factor).max() < 4


def test_softplus_rises_across_every_float_around_fifteen():
    s = np.nextafter(np.float32(15), np.float32(0)) + np.arange(-200, 200) * np.spacing(np.float32(15))
    y = forward("relu", s.astype(np.float32))
    assert (np.diff(y) >= 0).all()
    assert y[-1] > y[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tanh_of_known_points(dtype):
    s, y = (np.array(column) for column in zip(*TANH, strict=True))
    assert ulps(forward("tanh", s.astype(dtype)), y).max() < 6


@pytest.mark.parametrize("dtype", DTYPES)
def test_sigmoid_keeps_its_relative_precision_in_both_tails(dtype):
    s = np.array([-104, -88, -50, -17, -1, 0, 1, 17, 50, 88], dtype)
    y = oracle.activate("sigmoid", s)
    assert ulps(forward("sigmoid", s), y).max() < 4


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_values_raise_no_flag(kind, dtype):
    s = np.array(EXTREME, dtype)
    with np.errstate(all="raise"):
        y = forward(kind, s)
        scaled = scale(kind, np.ones_like(y), y)
    low, high = LIMITS[kind]
    assert (y[0], y[-2]) == (dtype(low), dtype(high))
    assert np.isnan(y[-1])
    assert not np.isnan(y[:-1]).any()
    if kind != "linear":
        assert np.isnan(scaled[-1])


@pytest.mark.parametrize(("kind", "output", "factor"), FACTORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_known_factors(kind, output, factor, dtype):
    y = np.array([output], dtype)
    expected = np.array([factor])
    assert_close(
        scale(kind, np.ones_like(y), y),
        expected,
        rtol=4 * np.finfo(dtype).eps,
        atol=3e-7 if dtype == np.float32 else 1e-10,
    )


def test_strict_relu_selects():
    y = np.array([-1, -0.0, 0.0, 1e-45, 2, math.nan], np.float32)
    np.testing.assert_array_equal(
        scale("strict_relu", np.full(6, math.inf, np.float32), y), [0, 0, 0, math.inf, math.inf, math.nan]
    )
    dead = scale("strict_relu", np.full(6, math.nan, np.float32), y)
    assert dead[:3].tobytes() == np.zeros(3, np.float32).tobytes()
    assert forward("strict_relu", y)[:3].tobytes() == np.zeros(3, np.float32).tobytes()


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_arrays_of_any_strides(kind, rng):
    s = rng.standard_normal((4, 6, 8)).astype(np.float32)
    y, err = forward(kind, s), rng.standard_normal(s.shape).astype(np.float32)
    views = (lambda a: a[::-1, ::2], lambda a: a.T, lambda a: a[1:, :, 3])
    for view in views:
        out = view(np.full_like(s, np.nan))
        activation.forward(kind, view(s), out)
        assert_close(out, view(y), rtol=4e-7)
        activation.scale(kind, view(err), view(y), out)
        assert_close(out, view(scale(kind, err, y)), rtol=4e-7)


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_apply_them(backend, kind, dtype, rng):
    """A 1x1 kernel of 1 gives the activation itself, and its gradient for an error of ones the factor."""
    s, one = rng.uniform(-6, 6, (2, 3, 4, 1)).astype(dtype), np.ones((1, 1, 1, 1), dtype)
    y = functional.conv_forward(s, one, activation=kind, backend=backend)
    assert_close(y, oracle.activate(kind, s), rtol=8 * np.finfo(dtype).eps, atol=0)
    err = rng.standard_normal(y.shape).astype(dtype)
    gradients = functional.conv_backward(s, one, err, output=y, activation=kind, backend=backend)
    d = oracle.scale(kind, err, y)
    assert_close(gradients.err_input, d, length=4)
    assert_close(gradients.bias, d.sum(axis=(0, 1, 2)), length=24, atol=1e-5)
    assert_close(gradients.weights, (d * s).sum().reshape(1, 1, 1, 1), length=24, atol=1e-4)
