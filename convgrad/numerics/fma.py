"""a * b + c of float32, rounded once, which NumPy has no function for.

A product of two float32 is exact in float64. Its sum with a third rounds there, and again to float32: that
is wrong only where the first rounding ends halfway between two float32, or where the result is subnormal
and there are fewer bits. These few are computed again with the first rounding to odd (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums", 2008): of the two neighbours of an inexact sum that whose
last bit is 1, so that the second rounding goes where the exact value would have gone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]

_BELOW = np.int64(2**29 - 1)  # the bits of a float64 that a float32 has not
_HALF = np.int64(2**28)  # these bits halfway between two float32
_LEAST_NORMAL = 2.0**-126


def fma(a: Any, b: Any, c: Any) -> Singles:
    """a * b + c, float32 arrays that broadcast, rounded once. What is not finite is as IEEE 754 has it."""
    with np.errstate(all="ignore"):
        product = np.multiply(a, b, dtype=np.float64)
        rest = np.broadcast_to(np.asarray(c, np.float64), np.broadcast_shapes(product.shape, np.shape(c)))
        total = np.asarray(product + rest)
        return rounded(total, np.broadcast_to(product, total.shape), rest)


def rounded(total: Doubles, product: Doubles, rest: Doubles) -> Singles:
    """`total` = product + rest, as float64 rounds it, as float32 would round the exact sum."""
    with np.errstate(all="ignore"):
        single = total.astype(np.float32)
        doubtful = (total.view(np.int64) & _BELOW) == _HALF
        doubtful |= (np.abs(total) < _LEAST_NORMAL) & (total != 0)
        if doubtful.any():
            parts = total[doubtful], product[doubtful], rest[doubtful]
            single[doubtful] = _to_odd(*parts).astype(np.float32)
        return single


def _to_odd(total: Doubles, product: Doubles, rest: Doubles) -> Doubles:
    part = total - product
    lost = (product - (total - part)) + (rest - part)  # exactly what rounding took (Knuth's TwoSum)
    moves = np.isfinite(total) & (lost != 0) & (total.view(np.int64) % 2 == 0)
    return np.where(moves, np.nextafter(total, np.copysign(np.inf, lost)), total)
