"""What all data sets have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgrad.prng import Random
from convgrad.training.loader import Samples

_SPLIT_STREAM = 1  # stream 0 of a seed is for weights


class Labelled(NamedTuple):
    """train and validation: (images, labels), images float32 (n, H, W, C) in [-1, 1], labels int32 (n,)."""

    train: Samples
    validation: Samples
    n_classes: int


def scaled(pixels: NDArray[Any], largest: int) -> NDArray[np.float32]:
    """Pixels 0 to `largest` as float32 in [-1, 1]."""
    return pixels.astype(np.float32) * np.float32(2 / largest) - np.float32(1)


def split(images: NDArray[np.float32], labels: NDArray[Any], seed: int) -> Labelled:
    """Draw 20 % of each class by `seed`, at least one image, for validation."""
    random = Random(seed, stream=_SPLIT_STREAM)
    classes = np.unique(labels)
    kept, drawn = zip(*(_draw(np.flatnonzero(labels == label), random) for label in classes), strict=True)
    train, validation = np.sort(np.concatenate(kept)), np.sort(np.concatenate(drawn))
    labels = labels.astype(np.int32)
    return Labelled((images[train], labels[train]), (images[validation], labels[validation]), len(classes))


def _draw(rows: NDArray[np.int64], random: Random) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count = max(1, round(len(rows) / 5))
    shuffled = rows[random.permutation(len(rows))]
    return shuffled[count:], shuffled[:count]
