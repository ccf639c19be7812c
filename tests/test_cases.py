"""The generators of sweeps: the same for a seed, holding what they promise, and legal."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from tests.cases import (
    BATCHES,
    CONV_KINDS,
    GROUPINGS,
    POOL_KINDS,
    ConvCase,
    PoolCase,
    random_conv_cases,
    random_pool_cases,
)
from tests.golden.shapes import NOTORIOUS

SEEDS = (0, 1, 77)


def per_axis(case: ConvCase | PoolCase) -> list[tuple[int, int, int, int, int]]:
    """Size, kernel, sliding, dilation and padding on both sides together, along y and along x."""
    left, top, right, bottom = case.padding
    sliding = case.sliding or case.kernel
    return [
        (case.size[0], case.kernel[1], sliding[1], case.dilation[1], top + bottom),
        (case.size[1], case.kernel[0], sliding[0], case.dilation[0], left + right),
    ]


def leftover(case: ConvCase | PoolCase) -> bool:
    """Whether the last step is not filled in some direction."""
    return any((size + pads - (k - 1) * d - 1) % s for size, k, s, d, pads in per_axis(case))


def grouping(case: ConvCase) -> str:
    """How the kernels are grouped, as the generator calls it; two channels in two groups count as "two"."""
    return {1: "one", 2: "two"}.get(case.groups, "depthwise")


CONV_PROMISES: dict[str, Callable[[ConvCase], bool]] = {
    "leftover": leftover,
    "shared factor": lambda c: any(math.gcd(s, d) > 1 for _, _, s, d, _ in per_axis(c)),
    "padding beyond the kernel": lambda c: min(c.padding) >= max(c.kernel),
    "sliding beyond the kernel": lambda c: all(s > k for _, k, s, _, _ in per_axis(c)),
    "no padding": lambda c: not any(c.padding),
    "four different paddings": lambda c: len(set(c.padding)) == 4,
    "1x1 stride 2": lambda c: c.kernel == (1, 1) and c.sliding == (2, 2),
    "1x1 padded": lambda c: c.kernel == (1, 1) and min(c.padding) > 0,
    "more kernels than channels": lambda c: c.n_kernels > c.channels and grouping(c) == "two",
    "more channels than kernels": lambda c: c.n_kernels < c.channels and grouping(c) == "two",
    "depthwise": lambda c: 2 < c.groups == c.channels,
}
POOL_PROMISES: dict[str, Callable[[PoolCase], bool]] = {
    "leftover, cut": lambda c: leftover(c) and c.ceil,
    "leftover, dropped": lambda c: leftover(c) and not c.ceil,
    "own step": lambda c: c.sliding is None,
    "overlapping": lambda c: all(s < k for _, k, s, _, _ in per_axis(c)),
    "dilated": lambda c: c.dilation[0] != c.dilation[1],
    "padded, counted": lambda c: any(c.padding) and c.count_include_pad,
    "padded, not counted": lambda c: any(c.padding) and not c.count_include_pad,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("promise", CONV_PROMISES)
def test_few_conv_cases_hold_every_promise(promise: str, seed: int) -> None:
    assert any(CONV_PROMISES[promise](case) for case in random_conv_cases(48, seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("promise", POOL_PROMISES)
def test_few_pool_cases_hold_every_promise(promise: str, seed: int) -> None:
    assert any(POOL_PROMISES[promise](case) for case in random_pool_cases(48, seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_all_combinations_within_96(seed: int) -> None:
    convs = {(c.kind, c.batch) for c in random_conv_cases(96, seed)}
    assert convs == set(product(CONV_KINDS, BATCHES))
    assert {(c.kind, c.batch) for c in random_pool_cases(96, seed)} == set(product(POOL_KINDS, BATCHES))
    assert {grouping(c) for c in random_conv_cases(len(GROUPINGS), seed)} <= set(GROUPINGS)


@pytest.mark.parametrize("seed", SEEDS)
def test_same_seed_same_cases_and_data(seed: int) -> None:
    cases = list(random_conv_cases(20, seed))
    assert cases == list(random_conv_cases(20, seed))
    assert cases != list(random_conv_cases(20, seed + 1))
    assert list(random_pool_cases(20, seed)) == list(random_pool_cases(20, seed))
    for one, other in zip(cases[3].data("float32"), cases[3].data("float64"), strict=True):
        assert one.dtype == np.float32
        assert np.array_equal(one, other)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_case_is_lopsided(seed: int) -> None:
    cases: list[ConvCase | PoolCase] = [*random_conv_cases(48, seed), *random_pool_cases(48, seed)]
    for case in cases:
        assert case.size[0] != case.size[1]
        assert case.kernel == (1, 1) or case.kernel[0] != case.kernel[1]
        left, top, right, bottom = case.padding
        assert (left, right) != (top, bottom) or not any(case.padding)


@pytest.mark.parametrize("case", [*random_conv_cases(48, 3), *NOTORIOUS], ids=str)
def test_data_fits_the_shapes(case: ConvCase) -> None:
    data = case.data()
    assert tuple(array.shape for array in data) == case.shapes
    assert all(np.abs(array).max(initial=0) <= 3 for array in data)
    assert data.bias.any() or case.n_kernels < 4
