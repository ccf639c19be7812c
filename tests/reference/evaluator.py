"""Softmax with cross-entropy and the mean square error, row by row in float64.

Only the first `batch_size` rows are samples: the errors of later rows are exactly zero. `mean` divides the
errors and the loss by batch_size. A label below zero means "no label": no error, no loss.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tests.reference.conv import Array, f64


def softmax(s: npt.ArrayLike) -> Array:
    """exp(s) / sum of exp(s) over the last axis."""
    s = f64(s)
    y = np.empty(s.shape)
    for row in np.ndindex(s.shape[:-1]):
        powers = [math.exp(value - max(s[row])) for value in s[row]]
        y[row] = [power / math.fsum(powers) for power in powers]
    return y


def cross_entropy(
    y: npt.ArrayLike, labels: npt.ArrayLike, batch_size: int | None = None, mean: bool = True
) -> tuple[Array, float]:
    """err_output (N, classes) with respect to the sums before the softmax, and the loss."""
    y, labels = f64(y), np.asarray(labels)
    batch_size = len(y) if batch_size is None else batch_size
    divisor = batch_size if mean else 1
    err, loss = np.zeros(y.shape), 0.0
    for n in range(batch_size):
        if labels[n] >= 0:
            loss -= math.log(y[n, labels[n]]) / divisor
            for k in range(y.shape[1]):
                err[n, k] = (y[n, k] - (k == labels[n])) / divisor
    return err, loss


def wrong(y: npt.ArrayLike, labels: npt.ArrayLike, batch_size: int | None = None) -> int:
    """How many labelled samples have their (first) largest output elsewhere than at the label."""
    y, labels = f64(y), np.asarray(labels)
    batch_size = len(y) if batch_size is None else batch_size
    rows = [list(row) for row in y[:batch_size]]
    return sum(labels[n] >= 0 and row.index(max(row)) != labels[n] for n, row in enumerate(rows))


def mean_square(
    y: npt.ArrayLike, target: npt.ArrayLike, batch_size: int | None = None, mean: bool = True
) -> tuple[Array, float]:
    """err_output like y and the loss: half the sum of squares, divided by the number of samples if `mean`."""
    y, target = f64(y), f64(target)
    batch_size = len(y) if batch_size is None else batch_size
    divisor = batch_size if mean else 1
    err, loss = np.zeros(y.shape), 0.0
    for index in np.ndindex((batch_size, *y.shape[1:])):
        difference = float(y[index] - target[index])
        err[index] = difference / divisor
        loss += difference**2 / 2 / divisor
    return err, loss
