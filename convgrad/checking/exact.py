"""What IEEE arithmetic must give, worked out in fractions, without any floating-point unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Exact = Any  # an ndarray of Fractions
ZERO = Fraction(0)


class Rounding:
    """Round to nearest, ties to even, subnormals kept, for results that do not overflow."""

    def __init__(self, dtype: DTypeLike) -> None:
        info = np.finfo(np.dtype(dtype).type)
        self._digits, self._lowest = info.nmant, int(info.minexp) - info.nmant

    def __call__(self, value: Fraction) -> Fraction:
        """The number of the dtype nearest to `value`."""
        # Just below a power of two frexp may give the exponent of that power, to which `value` rounds anyway.
        exponent = max(math.frexp(value)[1] - 1 - self._digits, self._lowest)
        unit = Fraction(2) ** exponent
        return round(value / unit) * unit

    def chain(self, pairs: Iterable[tuple[Fraction, Fraction]]) -> Fraction:
        """s = fma(a, b, s) over the pairs, from 0."""
        total = ZERO
        for a, b in pairs:
            total = self(a * b + total)
        return total

    def sum(self, values: Iterable[Fraction]) -> Fraction:
        """s = s + value over the values, from 0."""
        total = ZERO
        for value in values:
            total = self(total + value)
        return total

    def tree(self, values: Sequence[Fraction]) -> Fraction:
        """Neighbours 2i and 2i + 1 are added until one is left; an odd last one passes through."""
        while len(values) > 1:
            pairs = [self(sum(values[i : i + 2], ZERO)) for i in range(0, len(values), 2)]
            values = pairs
        return values[0]


def fractions(array: NDArray[Any]) -> Exact:
    """The same numbers as Fractions."""
    exact = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        exact[index] = Fraction(float(array[index]))
    return exact


def floats(values: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Fractions that the dtype holds, as an array of it."""
    return np.array(values, dtype=float).astype(dtype)
