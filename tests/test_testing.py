"""The checks that people get from convgrad.testing must themselves find faults."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convgrad.backends.numpy import NumpyBackend
from convgrad.errors import BadFormatError
from convgrad.testing import assert_close, check_vjp, distinct_values


def test_closeness_depends_on_the_dtype_and_the_length_of_the_sums():
    expected = np.array([100.0, 1.0])
    for dtype, near, far in ((np.float32, 1e-6, 1e-3), (np.float64, 1e-15, 1e-11)):
        assert_close((expected * (1 + near)).astype(dtype), expected)
        with pytest.raises(AssertionError, match=r"2 of 2 values are off; the worst at \(0,\)"):
            assert_close((expected * (1 + far)).astype(dtype), expected)
        assert_close((expected * (1 + far)).astype(dtype), expected, length=10**8)


@pytest.mark.parametrize("pair", [(math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan), (math.inf, 1.0),
                                  (1.0, math.inf), (math.inf, -math.inf)])  # fmt: skip
def test_nan_and_wrong_infinities_fail(pair):
    actual, expected = (np.array([2.0, value]) for value in pair)
    with pytest.raises(AssertionError, match=r"1 of 2 values are off; the worst at \(1,\)"):
        assert_close(actual, expected, rtol=1e9, atol=1e9)


def test_equal_infinities_and_no_elements_pass():
    assert_close(np.array([math.inf, -math.inf]), np.array([math.inf, -math.inf]))
    assert_close(np.empty((0, 3)), np.empty((0, 3)))


def test_shapes_are_not_broadcast():
    with pytest.raises(AssertionError, match=r"shape \(3, 1\), expected \(1, 3\)"):
        assert_close(np.zeros((3, 1)), np.zeros((1, 3)))


def test_given_tolerances_are_used_alone():
    assert_close(np.array([1.5, 100.5]), np.array([1.0, 100.0]), rtol=0, atol=0.5)
    with pytest.raises(AssertionError, match="the worst at"):
        assert_close(np.array([1.5, 100.5]), np.array([1.0, 100.0]), rtol=0, atol=0.4)
    with pytest.raises(AssertionError, match=r"allowed difference 0\.01"):
        assert_close(np.array([1.5, 100.5]), np.array([1.0, 100.0]), rtol=0.01, atol=0)


def test_device_arrays_are_brought_to_the_host():
    assert_close(NumpyBackend().array(np.ones((2, 3))), np.ones((2, 3)))


@pytest.mark.parametrize("full", [False, True])
def test_a_wrong_gradient_is_found(full, rng):
    a, b, d = rng.standard_normal((3, 4, 5))

    def product(a, b):
        return a * b

    check_vjp(product, (a, b), d, (d * b, d * a), full=full)
    check_vjp(product, (a, b), d, (d * b, None), full=full)
    wrong = d * a
    wrong[3, 4] += 0.1
    for gradients in ((d * b, wrong), (d * b, d * a * math.nan), (-d * b, d * a)):
        with pytest.raises(AssertionError, match=r"gradient [01]: .* where differences give"):
            check_vjp(product, (a, b), d, gradients, full=full)
    with pytest.raises(AssertionError, match=r"gradient 1 has shape \(5, 4\), its array \(4, 5\)"):
        check_vjp(product, (a, b), d, (d * b, (d * a).T), full=full)


def test_differences_of_float32_are_refused():
    a = np.ones(3, np.float32)
    with pytest.raises(BadFormatError, match=r"arrays\[0\] must be float64, got float32"):
        check_vjp(lambda a: a, [a], a, [a])


def test_distinct_values():
    values = distinct_values((3, 4, 5), seed=1)
    assert values.shape == (3, 4, 5)
    assert sorted(np.abs(values).ravel()) == list(range(1, 61))
    assert (values < 0).any()
    assert (values > 0).any()
    np.testing.assert_array_equal(values, distinct_values((3, 4, 5), seed=1))
    assert (values != distinct_values((3, 4, 5), seed=2)).any()
    assert distinct_values((0, 2)).shape == (0, 2)
