"""Softmax over the last axis.

Subtract the row's maximum, exp, sum ascending from the first term, divide. An array's own dtype throughout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def softmax(sums: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out = exp(sums) / (sum of exp(sums) over the row), both (rows, classes); `out` may be `sums` itself.

    A row with NaN or +Inf becomes NaN throughout.
    """
    with np.errstate(all="ignore"):  # Inf and NaN are values here
        np.subtract(sums, sums.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        totals = np.add.accumulate(out, axis=1)[:, -1:]  # np.sum would add in an order of its own
        np.divide(out, totals, out=out)
