"""Serving of samples in minibatches."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError
from convgrad.geometry.checks import whole
from convgrad.prng import Random

TEST, VALIDATION, TRAIN = "test", "validation", "train"
CLASSES = (TEST, VALIDATION, TRAIN)  # in the order in which an epoch serves them

Samples = tuple[NDArray[Any], NDArray[Any]]

_SHUFFLE_STREAM = 2**32  # plus the epoch; lower streams of a seed are for weights and splits of data sets


class Minibatch(NamedTuple):
    """Samples that go through the net together.

    class_name: "test", "validation" or "train"; only train is learned from.
    data (B, ...): the first `size` rows are samples, the rest is padding.
    targets: int32 labels (B,), -1 in the padding; or floating-point targets (B, ...).
    size: the number of samples, 1 to B.
    """

    class_name: str
    data: NDArray[Any]
    targets: NDArray[Any]
    size: int


class Loader(Protocol):
    """What a workflow wants of a loader; any object with these two will do."""

    @property
    def classes(self) -> Mapping[str, int]:
        """Number of samples of each class that is served, such as {"validation": 360, "train": 1437}."""

    def minibatches(self, epoch: int) -> Iterable[Minibatch]:
        """The minibatches of epoch 0, 1, ..., class after class, train last; the same whenever asked again.

        All of them have the shapes and dtypes of the first.
        """


class ArrayLoader:
    """Serves arrays: test, then validation, then train in an order that is new in each epoch.

    train, validation, test: pairs (data, targets) of equal length; data (n, ...), targets integer labels (n,)
    or floating-point (n, ...). The order of train depends on `seed` and epoch alone. A short last minibatch
    is padded with zeros, labels with -1.
    """

    def __init__(
        self,
        train: Samples,
        validation: Samples | None = None,
        test: Samples | None = None,
        *,
        minibatch_size: int = 100,
        seed: int = 1,
    ) -> None:
        self.minibatch_size = whole("minibatch_size", minibatch_size, 1)
        Random(seed)  # refuses what is no seed
        self.seed = seed
        if train is None:
            raise BadFormatError("train must be a pair (data, targets), got None")
        given = {TEST: test, VALIDATION: validation, TRAIN: train}
        self._samples = {name: _checked(name, pair) for name, pair in given.items() if pair is not None}
        for name, pair in self._samples.items():
            _require_same_kind(name, pair, self._samples[TRAIN])
        self.classes = {name: len(data) for name, (data, _) in self._samples.items() if len(data)}
        if TRAIN not in self.classes:
            raise BadFormatError("train must hold at least one sample, got none")

    def minibatches(self, epoch: int) -> Iterator[Minibatch]:
        """The minibatches of this epoch, in arrays of their own."""
        for name, count in self.classes.items():
            order = self._order(name, epoch)
            for start in range(0, count, self.minibatch_size):
                yield self._minibatch(name, order[start : start + self.minibatch_size])

    def _order(self, name: str, epoch: int) -> NDArray[np.int64]:
        if name != TRAIN:
            return np.arange(self.classes[name])
        return Random(self.seed, stream=_SHUFFLE_STREAM + epoch).permutation(self.classes[name])

    def _minibatch(self, name: str, rows: NDArray[np.int64]) -> Minibatch:
        data, targets = self._samples[name]
        padding = -1 if targets.dtype == np.int32 else 0
        return Minibatch(name, self._padded(data[rows], 0), self._padded(targets[rows], padding), len(rows))

    def _padded(self, rows: NDArray[Any], padding: int) -> NDArray[Any]:
        if len(rows) == self.minibatch_size:
            return rows
        full = np.full((self.minibatch_size, *rows.shape[1:]), padding, rows.dtype)
        full[: len(rows)] = rows
        return full


def _checked(name: str, pair: Samples) -> Samples:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise BadFormatError(f"{name} must be a pair (data, targets), got {reprlib.repr(pair)}")
    data, targets = (np.asarray(array) for array in pair)
    if data.ndim < 2 or data.dtype not in (np.float32, np.float64):
        raise BadFormatError(f"{name}: data must be floats of shape (n, ...), got {data.dtype} {data.shape}")
    if targets.shape[:1] != data.shape[:1]:
        raise BadFormatError(f"{name}: targets must have {len(data)} rows as data has, got {targets.shape}")
    if targets.dtype.kind == "f":
        return data, targets.astype(data.dtype, copy=False)
    return data, _labels(name, targets)


def _labels(name: str, labels: NDArray[Any]) -> NDArray[np.int32]:
    if labels.dtype.kind not in "iu":
        raise BadFormatError(f"{name}: targets must be integer labels or floats, got {labels.dtype}")
    if labels.ndim != 1:
        raise BadFormatError(f"{name}: labels must be of shape (n,), got {labels.shape}")
    kept = labels.astype(np.int32, copy=False)
    if (kept != labels).any():
        raise BadFormatError(f"{name}: labels must fit into int32, got {labels[kept != labels][0]}")
    return kept


def _require_same_kind(name: str, pair: Samples, train: Samples) -> None:
    for what, mine, trained in zip(("data", "targets"), pair, train, strict=True):
        if (mine.shape[1:], mine.dtype) != (trained.shape[1:], trained.dtype):
            raise BadFormatError(
                f"{name}: {what} must be like those of train, {trained.dtype} (n, {trained.shape[1:]}), "
                f"got {mine.dtype} (n, {mine.shape[1:]})"
            )
