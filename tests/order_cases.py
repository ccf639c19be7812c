"""Layers whose sums are cut in all ways of fixed numerics, small enough for the loops of reference.order."""

from __future__ import annotations

import numpy as np

from tests.cases import ConvCase, generator, random_conv_cases

CASES = [case for case in random_conv_cases(16, seed=53) if case.batch]
SEGMENTS = (
    ConvCase("384 channels", 1, (2, 3), 384, 5, (2, 1)),
    ConvCase("300 kernels", 1, (3, 2), 5, 300, (1, 2), (0, 1, 0, 0)),
    ConvCase("three taps of 65 channels", 2, (3, 4), 65, 3, (3, 2), (1, 1, 2, 0), (2, 1), (1, 2)),
    ConvCase("two taps of 100 kernels", 2, (4, 3), 6, 200, (2, 3), (1, 2, 0, 1), (1, 2), groups=2),
)
LEAVES = (
    ConvCase("bands", 2, (20, 27), 3, 2, (2, 1), (1, 0, 0, 0)),
    ConvCase("long rows", 1, (3, 300), 2, 3, (1, 2), (0, 1, 0, 0), dilation=(1, 2)),
    ConvCase("images of a leaf", 37, (4, 5), 3, 4, (2, 3), (1, 0, 1, 2), sliding=(1, 2)),
    ConvCase("two chunks", 2, (35, 60), 2, 3, (1, 1)),
)
ALL = [*CASES, *SEGMENTS, *LEAVES]


def drawn(case):
    """x, weights, bias and err_output of the case."""
    random = generator(case.seed)
    return [random.standard_normal(shape).astype(np.float32) for shape in case.shapes]
