"""fma of arrays, elementary functions made of it, and softmax."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from convgrad.kernel_source import kernel_text
from convgrad.numerics import elementary
from convgrad.numerics.fma import fma
from convgrad.numerics.softmax import softmax
from tests.backends.test_device_elementary import EXACT, ULP, ulps
from tests.elementary_inputs import inputs
from tests.reference import order
from tests.test_order import EDGES, LARGE, TINY, equal_but_for_zeros, exact_fma, near_ties

INF, NAN = np.inf, np.nan
NAMES = tuple(ULP)
ULP_32 = 2.0**-23  # of 1


def columns(triples):
    return np.array(triples, np.float32).T


def near_subnormal_ties(rng, count):
    """As near_ties, between two subnormal float32."""
    small = rng.integers(1, 200, count) * ULP_32
    a, b = (1 + small) * 2.0**-75, (1 - small) * rng.choice([1, -1], count) * 2.0**-75
    c = rng.integers(2**21, 2**23, count) * rng.choice([1, -1], count) * float(TINY)
    return list(zip(a, b, c, strict=True))


def cancelling(rng, count):
    """Triples whose exact sums are what the rounding of the product takes."""
    a, b = (1 + rng.random((2, count))).astype(np.float32)
    return list(zip(a, b, -(a * b), strict=True))


def about_overflow():
    near = [float(LARGE), 2.0**127, 2.0**103, 2.0**102]
    signed = [sign * value for value in near for sign in (1, -1)]
    return list(product([1.0, 1 - 2.0**-24, 1 + ULP_32, 2.0], signed, [*signed, 2.0**80, -(2.0**80)]))


def draws(rng):
    bits = rng.integers(0, 2**32, (4000, 3), dtype=np.uint32).view(np.float32)
    finite = [tuple(triple) for triple in bits if np.isfinite(triple).all()]
    hard = near_ties(rng, 4000) + near_subnormal_ties(rng, 4000) + cancelling(rng, 2000)
    signed = [sign * value for value in EDGES for sign in (1, -1)]
    return columns([*finite, *hard, *about_overflow(), *product(signed, repeat=3)])


def test_fma_rounds_the_exact_sum_once(rng):
    a, b, c = draws(rng)
    for *triple, result in zip(a, b, c, fma(a, b, c), strict=True):
        assert equal_but_for_zeros(result, exact_fma(*triple)), triple


def test_some_of_these_need_more_than_float64(rng):
    a, b, c = draws(rng)
    with np.errstate(over="ignore"):
        twice = (a.astype(np.float64) * b + c).astype(np.float32)
    differ = twice != fma(a, b, c)
    assert (differ & (abs(twice) < 2.0**-126)).any()
    assert (differ & (abs(twice) >= 2.0**-126)).any()


def test_fma_has_the_bits_of_the_judge(rng):
    bits = rng.integers(0, 2**32, (3, 200000), dtype=np.uint32).view(np.float32)
    special = columns(list(product([0.0, -0.0, 1.0, -1.0, TINY, -TINY, INF, -INF, NAN], repeat=3)))
    a, b, c = np.concatenate([bits, draws(rng), special], axis=1)
    result, judged = fma(a, b, c), order.fma(a, b, c)
    numbers = ~np.isnan(judged)
    np.testing.assert_array_equal(np.isnan(result), ~numbers)
    assert result[numbers].tobytes() == judged[numbers].tobytes()


@pytest.mark.parametrize(
    ("triple", "result"),
    [
        ((0.0, 1.0, -0.0), 0.0),
        ((-0.0, 1.0, -0.0), -0.0),
        ((1.0, -1.0, 1.0), 0.0),
        ((TINY, -TINY, 0.0), -0.0),
        ((TINY, 0.5, 0.0), 0.0),
        ((TINY, 0.5, TINY), 2 * TINY),
        ((2.0**-75, 2.0**-75, TINY), 2 * TINY),
        ((1.0, LARGE, 2.0**102), LARGE),
        ((1.0, LARGE, 2.0**103), INF),
        ((LARGE, 2.0, -LARGE), LARGE),
        ((INF, 1.0, 1.0), INF),
        ((LARGE, LARGE, -INF), -INF),
        ((INF, 0.0, 1.0), NAN),
        ((INF, 1.0, -INF), NAN),
        ((NAN, 0.0, 0.0), NAN),
        ((0.0, 0.0, NAN), NAN),
    ],
)
def test_known_fma(triple, result):
    np.testing.assert_array_equal(fma(*np.float32(triple)), np.float32(result), strict=True)
    assert np.signbit(fma(*np.float32(triple))) == np.signbit(np.float32(result)) or np.isnan(result)


def test_fma_broadcasts():
    row, column = np.float32([1, 2, 3]), np.float32([[1], [2]])
    for a, b, c in ((row, column, np.float32(1)), (np.float32(2), np.float32(3), row), (column, row, column)):
        np.testing.assert_array_equal(fma(a, b, c), a * b + c, strict=True)
    assert fma(row[:0], np.float32(1), column).shape == (2, 0)
    assert fma(np.float32(1), np.float32(1), np.float32(1)).dtype == np.float32


def function_of(name):
    return getattr(elementary, name)


@pytest.mark.parametrize("name", NAMES)
def test_within_the_promised_distance_of_the_exact_value(name):
    x = inputs()
    found = function_of(name)(x)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    distance = np.nan_to_num(ulps(found[numbers], exact[numbers]), nan=INF)
    worst = np.argmax(distance)
    assert distance[worst] <= ULP[name], (x[numbers][worst], found[numbers][worst], distance[worst])


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("exp", [1, 1, INF, 0, 1]),
        ("expm1", [0.0, -0.0, INF, -1, TINY]),
        ("tanh", [0.0, -0.0, 1, -1, TINY]),
        ("sigmoid", [0.5, 0.5, 1, 0, 0.5]),
        ("softplus", [np.log(2), np.log(2), INF, 0, np.log(2)]),
    ],
)
def test_zeros_keep_their_sign_and_infinities_their_limit(name, known):
    found = function_of(name)(np.float32([0.0, -0.0, INF, -INF, TINY, NAN]))
    assert found[:-1].tobytes() == np.float32(known).tobytes()
    assert np.isnan(found[-1])


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_layouts(name, rng):
    """Values do not depend on what stands beside them; a new array each time."""
    function = function_of(name)
    x = rng.uniform(-20, 20, (7, 5, 1000)).astype(np.float32)
    y = function(x)
    given = x.copy()
    for part in (np.s_[:, ::2, ::-3], np.s_[3], np.s_[:0], np.s_[2, 3, 4]):
        found = function(x[part])
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, np.asarray(y[part]), strict=True)
    np.testing.assert_array_equal(function(x.T), y.T, strict=True)
    np.testing.assert_array_equal(function(np.asarray(x[0, 0, 0])), np.asarray(y[0, 0, 0]), strict=True)
    np.testing.assert_array_equal(x, given)
    assert not np.shares_memory(x, y)


def hexadecimals(text):
    return {abs(float.fromhex(number)) for number in re.findall(r"0x1\.?[0-9a-f]*p[+-]?\d+", text)}


def coefficients():
    values = [value for name, value in vars(elementary).items() if name.isupper()]
    return {abs(float(value)) for entry in values for value in np.atleast_1d(entry)}


def test_coefficients_are_those_of_the_kernels():
    assert hexadecimals(kernel_text("lib/elementary.h")) <= coefficients()


def test_softmax_with_the_exp_of_every_machine(rng):
    sums = rng.uniform(-30, 30, (9, 13)).astype(np.float32)
    sums[1, 2], sums[2, 3], sums[3, 4] = NAN, INF, -INF
    out, plain = np.empty_like(sums), np.empty_like(sums)
    softmax(sums, out=out, exp=elementary.exp)
    with np.errstate(invalid="ignore"):
        powers = elementary.exp(sums - sums.max(axis=1, keepdims=True))
    totals = np.float32([0] * 9)
    for column in powers.T:
        totals = totals + column
    np.testing.assert_array_equal(out, powers / totals[:, None], strict=True)
    np.testing.assert_array_equal(np.isnan(out).all(axis=1), [i in {1, 2} for i in range(9)])
    softmax(sums, out=plain)
    np.testing.assert_allclose(out, plain, rtol=1e-6)
    softmax(sums, out=sums, exp=elementary.exp)
    assert sums.tobytes() == out.tobytes()
