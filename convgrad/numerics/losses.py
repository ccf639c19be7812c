"""Losses of a batch and their gradients.

Gradients keep the dtype of the outputs; losses are summed in float64, for people to read. What is not finite
goes its way as IEEE 754 has it: an output of 0 has the loss Inf. To silence NumPy's warnings of that is the
caller's part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def cross_entropy(
    outputs: NDArray[Any], labels: NDArray[Any], divisor: int, *, err_output: NDArray[Any]
) -> float:
    """-(sum over rows of log(outputs[row, label])) / divisor, for `outputs` (rows, classes) of a softmax.

    `err_output` becomes its gradient with respect to the sums before the softmax: (outputs - onehot) /
    divisor. A row with a label below 0 has no loss, and a gradient of zero.
    """
    rows = np.flatnonzero(labels >= 0)
    places = rows, labels[rows]
    np.copyto(err_output, outputs)
    err_output[places] -= 1
    err_output /= divisor
    err_output[labels < 0] = 0
    return float(-np.log(outputs[places], dtype=np.float64).sum() / divisor)


def square_error(
    outputs: NDArray[Any], targets: NDArray[Any], divisor: int, *, err_output: NDArray[Any]
) -> Any:
    """Sum of (outputs - targets)**2 in each row (float64); both (rows, values).

    `err_output` becomes the gradient of half the sum of all, over `divisor`: (outputs - targets) / divisor.
    """
    np.subtract(outputs, targets, out=err_output)
    squares = np.square(err_output, dtype=np.float64).sum(axis=1)
    err_output /= divisor
    return squares
