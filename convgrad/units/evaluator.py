"""How far outputs are from what they should be, and the errors that training starts from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError
from convgrad.geometry.checks import common_dtype, shape_of
from convgrad.memory import Array
from convgrad.numerics.losses import cross_entropy, square_error
from convgrad.units.base import Unit, unit
from convgrad.units.images import check_samples
from convgrad.units.layers import checked_batch
from convgrad.units.links import ArrayAttribute


@unit
class Evaluator(Unit):
    """Base of the evaluators: `err_output` like `output`, and `loss`, of the last run.

    Rows past batch_size are not read, their err_output is zero.
    """

    # Rows of output that count; None = all.
    batch_size: int | None = None
    # Divide errors and loss by batch_size.
    mean: bool = True

    output = ArrayAttribute()
    err_output = ArrayAttribute(result=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loss = 0.0

    def _demands(self) -> tuple[str, ...]:
        return ("output",)

    def _allocate(self, backend: Any) -> None:
        self._ready(backend, "err_output", self.output.shape, self.output.dtype)

    def _compute(self) -> None:
        self.output.map_read()
        self.err_output.map_invalidate()
        batch = checked_batch(self.batch_size, len(self.output))
        batch = len(self.output) if batch is None else batch
        errors = self.err_output.matrix
        errors[batch:] = 0
        with np.errstate(all="ignore"):  # Inf and NaN are values here
            self._evaluate(self.output.matrix[:batch], errors[:batch], max(1, batch) if self.mean else 1)

    def _evaluate(self, outputs: NDArray[Any], errors: NDArray[Any], divisor: int) -> None:
        """Compare `outputs` (rows, values) that count; write `errors`."""
        raise NotImplementedError


@unit
class EvaluatorSoftmax(Evaluator):
    """Cross-entropy of the outputs (N, classes) of a softmax with `labels` (N,), integers; below 0 = none.

    err_output = (output - onehot) / batch_size, the gradient with respect to the sums before the softmax.
    After a run, for its batch alone: `loss`; `n_err`, how many labelled samples have another class as
    `max_idx` (where not linked, the first largest output); `confusion_matrix` (classes, classes), a row
    for each class found, a column for each label; `max_err_output_sum`, the largest sum of magnitudes in a
    row of err_output.
    """

    # False: confusion_matrix stays empty.
    compute_confusion_matrix: bool = True

    labels = ArrayAttribute()
    max_idx = ArrayAttribute()
    confusion_matrix = ArrayAttribute(result=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.n_err = 0
        self.max_err_output_sum = 0.0

    def _demands(self) -> tuple[str, ...]:
        return (*super()._demands(), "labels")

    def _setup(self) -> None:
        common_dtype({"output": self.output})
        for name in ("labels", "max_idx"):
            array = getattr(self, name)
            if array.host is not None:
                shape_of(name, array, (len(self.output),), "(N,)")
                _check_integers(name, array.dtype)

    def _allocate(self, backend: Any) -> None:
        super()._allocate(backend)
        if self.compute_confusion_matrix:
            self._ready(backend, "confusion_matrix", (self.output.sample_size,) * 2, np.int64)

    def _evaluate(self, outputs: NDArray[Any], errors: NDArray[Any], divisor: int) -> None:
        labels = self._classes("labels", *outputs.shape)
        found = self._found(outputs)
        self.loss = cross_entropy(outputs, labels, divisor, err_output=errors)
        labelled = labels >= 0
        self.n_err = int(np.count_nonzero(found[labelled] != labels[labelled]))
        self.max_err_output_sum = float(np.abs(errors).sum(axis=1).max(initial=0))
        if self.compute_confusion_matrix:
            self.confusion_matrix.map_invalidate()
            matrix = self.confusion_matrix.matrix
            matrix[...] = 0
            np.add.at(matrix, (found[labelled], labels[labelled]), 1)

    def _classes(self, name: str, rows: int, classes: int) -> NDArray[np.int64]:
        array: Array = getattr(self, name)
        array.map_read()
        numbers = array.plain[:rows]
        if numbers.size and numbers.max() >= classes:
            raise BadFormatError(
                f"{name} must be below {classes}, the number of classes; got {numbers.max()}"
            )
        return numbers.astype(np.int64)

    def _found(self, outputs: NDArray[Any]) -> NDArray[Any]:
        if self.max_idx.host is None:
            return np.asarray(outputs.argmax(axis=1))
        found = self._classes("max_idx", *outputs.shape)
        if found.min(initial=0) < 0:
            raise BadFormatError(f"max_idx must be at least 0, got {found.min()}")
        return found


@unit
class EvaluatorMSE(Evaluator):
    """Square error of outputs (N, ...) against `target` of the same size.

    err_output = (output - target) / batch_size, the gradient of `loss`. After a run, for its batch alone:
    `loss`, half the sum of squares, over batch_size; `mse` (N,), each sample's mean square error or its
    root; `metrics`, their sum, maximum and minimum.
    """

    # Take the root of each sample's mean square error.
    root: bool = True

    target = ArrayAttribute()
    mse = ArrayAttribute(result=True)
    metrics = ArrayAttribute(result=True)

    def _demands(self) -> tuple[str, ...]:
        return (*super()._demands(), "target")

    def _setup(self) -> None:
        common_dtype({"output": self.output, "target": self.target})
        check_samples("target", self.target, len(self.output), self.output.sample_size)

    def _allocate(self, backend: Any) -> None:
        super()._allocate(backend)
        self._ready(backend, "mse", (len(self.output),), np.float64)
        self._ready(backend, "metrics", (3,), np.float64)

    def _evaluate(self, outputs: NDArray[Any], errors: NDArray[Any], divisor: int) -> None:
        self.target.map_read()
        squares = square_error(outputs, self.target.matrix[: len(outputs)], divisor, err_output=errors)
        self.loss = float(squares.sum() / 2 / divisor)
        self.mse.map_invalidate()
        self.metrics.map_invalidate()
        mse = self.mse.plain
        mse[len(squares) :] = 0
        mse[: len(squares)] = squares / outputs.shape[1]
        if self.root:
            np.sqrt(mse, out=mse)
        counted = mse[: len(squares)]
        self.metrics.plain[...] = (counted.sum(), counted.max(initial=0), counted.min(initial=np.inf))


def _check_integers(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "iu":
        raise BadFormatError(f"{name} must be integers, got {dtype}")
