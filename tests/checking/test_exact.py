"""Rounding in fractions, judged by the rounding of this machine's floating-point unit and by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from convgrad.checking.exact import Rounding, floats, fractions


def two(exponent):
    return Fraction(2) ** exponent


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounds_products_and_sums_as_the_machine_does(rng, dtype):
    """Numbers of all sizes, subnormal ones among them, that neither overflow nor get lost."""
    integer, top = (np.uint32, 2**31) if dtype == np.float32 else (np.uint64, 2**63)
    a = rng.integers(0, top, 3000, dtype=integer).view(dtype)
    b = rng.normal(size=3000).astype(dtype)
    with np.errstate(all="ignore"):
        c = (-a * rng.choice([0.9, 1.0, 2.0**-20], 3000)).astype(dtype)
        product, total = a * b, a + c
    good = np.isfinite(product) & np.isfinite(a)
    a, b, c, product, total = (array[good] for array in (a, b, c, product, total))
    rounding = np.frompyfunc(Rounding(dtype), 1, 1)
    assert good.sum() > 2000
    assert (np.abs(product[product != 0]) < np.finfo(dtype).smallest_normal).any()
    assert (floats(rounding(fractions(a) * fractions(b)), dtype) == product).all()
    assert (floats(rounding(fractions(a) + fractions(c)), dtype) == total).all()


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        (two(24) + 1, two(24)),  # ties go to even
        (two(24) + 3, two(24) + 4),
        (two(24) + 1 + two(-60), two(24) + 2),
        (1 - two(-60), Fraction(1)),
        (1 - two(-25), Fraction(1)),
        (1 - two(-24), 1 - two(-24)),
        (two(-150), Fraction(0)),
        (3 * two(-150), 2 * two(-149)),
        (-5 * two(-149), -5 * two(-149)),
    ],
)
def test_rounds_by_hand(exact, rounded):
    assert Rounding(np.float32)(exact) == rounded
    assert Rounding(np.float32)(-exact) == -rounded


def test_a_chain_rounds_once_for_each_term():
    a, c = 1 + two(-12), -(1 + two(-11))  # a * a = 1 + 2**-11 + 2**-24
    rounding = Rounding(np.float32)
    assert rounding.chain([(c, Fraction(1)), (a, a)]) == two(-24)
    assert rounding.sum([c, rounding(a * a)]) == 0


def test_a_tree_adds_neighbours():
    rounding, big = Rounding(np.float32), two(24)
    assert rounding.tree([big, Fraction(0), Fraction(1), Fraction(1), Fraction(2)]) == big + 4
    assert rounding.sum([big, Fraction(0), Fraction(1), Fraction(1), Fraction(2)]) == big + 2
    assert rounding.tree([Fraction(3)]) == 3
