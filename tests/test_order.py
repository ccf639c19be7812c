"""The judge of the order of fixed numerics: its fma against fractions, its order by sums that show it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.cases import random_conv_cases
from tests.reference import conv, order

TINY, LARGE = np.float32(2.0**-149), np.float32(2.0**128 - 2.0**104)
EDGES = (
    0.0,
    1.0,
    1 + 2.0**-23,
    1 - 2.0**-24,
    2.0**-126,
    2.0**-126 - 2.0**-149,
    TINY,
    LARGE,
    2.0**24,
    2.0**-75,
    3.0,
)


def rounded(exact):
    """A Fraction as the nearest float32, to even when halfway."""
    if exact == 0:
        return np.float32(0)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    quantum = Fraction(2) ** max(exponent - 23, -149)
    result = round(exact / quantum) * quantum
    if abs(result) >= 2**128:
        return np.float32(np.inf if result > 0 else -np.inf)
    return np.float32(float(result))


def exact_fma(a, b, c):
    return rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def equal_but_for_zeros(left, right):
    """Same bits; a zero has no sign here, fractions have no -0.0."""
    return (left == right) and (left == 0 or np.float32(left).tobytes() == np.float32(right).tobytes())


def near_ties(rng, count):
    """Triples whose exact sums lie next to halfway between two float32, nearer than float64 tells."""
    small = rng.integers(1, 300, count) * 2.0**-23
    c = (2**23 + rng.integers(1, 2**23, count)) * 2.0 ** rng.integers(-40, 40, count)
    half = np.spacing(c.astype(np.float32)).astype(np.float64) / 2
    a, b = (1 + small) * half * rng.choice([1, -1], count), 1 - small
    return list(zip(*np.array((a, b, c), np.float32), strict=True))


def test_rounded_knows_ties_subnormals_and_overflow():
    assert rounded(Fraction(2**24 + 1)) == 2**24
    assert rounded(Fraction(2**24 + 3)) == 2**24 + 4
    assert rounded(Fraction(1, 2**150)) == 0
    assert rounded(Fraction(3, 2**150)) == np.float32(2.0**-148)
    assert rounded(Fraction(2**128 - 2**103)) == np.inf
    assert rounded(Fraction(1, 3)) == np.float32(1 / 3)


def test_fma_of_edges_rounds_once():
    signed = [sign * np.float32(value) for value in EDGES for sign in (1, -1)]
    for a in signed:
        for b in signed:
            results = order.fma(a, b, np.array(signed, np.float32))
            for c, result in zip(signed, results, strict=True):
                assert equal_but_for_zeros(result, exact_fma(a, b, c)), (a, b, c)


def test_fma_of_random_bits_and_near_ties_rounds_once(rng):
    bits = rng.integers(0, 2**32, (3, 4000), dtype=np.uint32).view(np.float32)
    triples = [triple for triple in bits.T if np.isfinite(triple).all()] + near_ties(rng, 4000)
    a, b, c = np.array(triples, np.float32).T
    for *triple, result in zip(a, b, c, order.fma(a, b, c), strict=True):
        assert equal_but_for_zeros(result, exact_fma(*triple)), triple


def test_a_float64_sum_would_not_do():
    """Among the near ties are some that go wrong if rounded twice: else they would show nothing."""
    a, b, c = np.array(near_ties(np.random.default_rng(1), 4000), np.float32).T
    twice = (a.astype(np.float64) * b + c).astype(np.float32)
    assert (twice != order.fma(a, b, c)).any()


@pytest.mark.parametrize(
    ("a", "b", "c", "result"),
    [(0.0, 1.0, -0.0, 0.0), (-0.0, 1.0, -0.0, -0.0), (1.0, -1.0, 1.0, 0.0), (TINY, -TINY, 0.0, -0.0)],
)
def test_fma_has_signs_of_zero(a, b, c, result):
    assert order.fma(*np.float32((a, b, c))).tobytes() == np.float32(result).tobytes()


def test_fma_of_infinities_and_nan():
    inf, one = np.float32(np.inf), np.float32(1)
    assert order.fma(inf, one, one) == inf
    assert order.fma(one, one, -inf) == -inf
    assert np.isnan(order.fma([inf, inf, np.nan, 1], [0, 1, 1, 1], [1, -inf, 1, np.nan])).all()


def test_leaves_of_small_images_hold_several_of_large_ones_rows():
    assert order.leaves(5, 9, 14) == [[(range(n, min(n + 2, 5)), range(9))] for n in (0, 2, 4)]
    assert order.leaves(33, 1, 1)[1:] == [[(range(16, 32), range(1))], [(range(32, 33), range(1))]]
    assert order.leaves(2, 5, 100)[1] == [
        (range(1, 2), range(row, row + rows)) for row, rows in ((0, 2), (2, 2), (4, 1))
    ]
    assert [rows for _, rows in order.leaves(1, 2, 300)[0]] == [range(1), range(1, 2)]


def test_the_tree_adds_neighbours():
    one, big = np.float32(1), np.float32(2**24)
    assert order.tree([one, big, one, -big], np.float32(0)) == 1  # other pairs give 2, a chain gives 0
    assert order.tree([one, big, one, -big, one], np.float32(0)) == 2
    assert order.tree([], np.float32(0)) == 0


BIG = 2**24  # and 1 is BIG: what a chain adds to it is lost, what a segment has added up is not


@pytest.mark.parametrize(("channels", "tap_sums"), [(384, (256, 128, 256, 128)), (300, (256, 44, 256, 44))])
def test_channels_are_cut_at_256_in_each_tap(channels, tap_sums):
    x, w = np.ones((1, 1, 2, channels), np.float32), np.ones((1, 1, 2, channels), np.float32)
    x[0, 0, 0, 0] = BIG
    assert order.conv_forward(x, w).item() == BIG + sum(tap_sums[1:])
    assert order.conv_input_gradient(x[:, :, :1], w.reshape(channels, 1, 1, 2), (1, 1))[0, 0, 0, 0] == (
        BIG + tap_sums[1]
    )


def test_taps_are_cut_where_whole_ones_fill_256_and_missing_ones_count():
    """100 channels: segments of 2 taps of the 5; the first, tap 0, lies outside the image."""
    x, w = np.ones((1, 1, 4, 100), np.float32), np.ones((1, 1, 5, 100), np.float32)
    x[0, 0, 0, 0] = BIG
    assert order.conv_forward(x, w, padding=(1, 0, 0, 0)).item() == BIG + 200 + 100
    # The other way taps descend: cell 1 meets 4 (which no output has there), 3 with output 0, 2, 1, 0.
    d, turned = np.ones((1, 1, 4, 100), np.float32), np.ones((100, 1, 5, 1), np.float32)
    d[0, 0, 0, 0] = BIG
    result = order.conv_input_gradient(d, turned, (1, 6), padding=(2, 0, 0, 0))
    assert result[0, 0, 1, 0] == BIG + 200 + 100


@pytest.mark.parametrize("case", list(random_conv_cases(24, seed=31)), ids=str)
def test_whole_numbers_are_as_in_the_loops_in_float64(case):
    """Which terms there are: their order cannot show here."""
    x, w, b, d = case.data(np.float32)
    assert np.array_equal(
        order.conv_forward(x, w, b, **case.window), conv.conv_forward(x, w, b, **case.window)
    )
    err_input = order.conv_input_gradient(d, w, case.size, **case.window)
    assert np.array_equal(err_input, conv.conv_input_gradient(d, w, case.size, **case.window))
    weights = order.conv_weight_gradient(x, d, case.kernel, **case.window)
    assert np.array_equal(weights, conv.conv_weight_gradient(x, d, case.kernel, **case.window))
    assert np.array_equal(order.bias_gradient(d), conv.bias_gradient(d))
