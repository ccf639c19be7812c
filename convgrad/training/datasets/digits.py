"""The 8x8 grey images of handwritten digits that come with scikit-learn."""

from __future__ import annotations

from convgrad.errors import DataUnavailable
from convgrad.training.datasets.labelled import Labelled, scaled, split


def digits(seed: int) -> Labelled:
    """1797 images (8, 8, 1) in ten classes, 20 % of each class for validation."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise DataUnavailable('digits come with scikit-learn: pip install "convgrad[data]"') from None
    found = load_digits()
    return split(scaled(found.images[..., None], 16), found.target, seed)
