"""float32 to try elementary functions on."""

from __future__ import annotations

import numpy as np

from tests.backends.test_device_elementary import edges

LN2 = 0.6931471805599453


def inputs():
    """A float from each run of 4096 bit patterns, and all places where something changes."""
    rng = np.random.default_rng(2026)
    bits = (np.arange(2**20) << 12) + rng.integers(0, 2**12, 2**20)
    return np.concatenate([places(), bits.astype(np.uint32).view(np.float32)])


def places():
    """Edges of the formulas, powers of two, multiples of ln2 / 2; with neighbours, of both signs."""
    powers = np.ldexp(1.0, np.arange(-149, 128)).astype(np.float32)
    steps = (np.arange(155) * (LN2 / 2)).astype(np.float32)
    return np.concatenate([edges(), *(neighbours(values) for values in (powers, steps))])


def neighbours(values):
    """Positive float32, two floats to each side of them; all with both signs."""
    bits = values.view(np.int32)
    around = np.concatenate([np.maximum(bits + shift, 0) for shift in range(-2, 3)])
    positive = around.astype(np.int32).view(np.float32)
    return np.concatenate([positive, -positive])
