"""Softmax over the last axis.

Subtract the row's maximum, exp, sum ascending from the first term, divide. An array's own dtype throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]


def softmax(sums: Floats, *, out: Floats, exp: Callable[[Floats], Floats] = np.exp) -> None:
    """out = exp(sums) / (sum of exp(sums) over the row), both (rows, classes); `out` may be `sums` itself.

    exp: of an array, into a new one; elementary.exp is the same on every machine.
    A row with NaN or +Inf becomes NaN throughout.
    """
    with np.errstate(all="ignore"):  # Inf and NaN are values here
        np.subtract(sums, sums.max(axis=1, keepdims=True), out=out)
        np.copyto(out, exp(out))
        totals = np.add.accumulate(out, axis=1)[:, -1:]  # np.sum would add in an order of its own
        np.divide(out, totals, out=out)
