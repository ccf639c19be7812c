"""What a unit with debug=True logs of its arrays."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

_log = logging.getLogger("convgrad.units")


def log_statistics(unit: str, name: str, values: NDArray[Any]) -> None:
    """Log minimum, maximum and mean of the numbers among `values`, and how many are NaN."""
    numbers = values[~np.isnan(values)]
    counts = f"{values.size - numbers.size} NaN of {values.size}"
    if not numbers.size:
        _log.info("%s: %s: %s", unit, name, counts)
        return
    with np.errstate(all="ignore"):  # Inf is a value here
        low, high, mean = numbers.min(), numbers.max(), numbers.mean(dtype=np.float64)
    _log.info("%s: %s: min %.6g, max %.6g, mean %.6g, %s", unit, name, low, high, mean, counts)
