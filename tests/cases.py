"""Layers for sweeps: geometries drawn by a seed, lopsided in every respect, with small integer data.

With integers in [-3, 3] every sum of these sizes is exact in float32, so any order of summation must give the
same numbers as the loops of `tests.reference`. Kinds of geometry, batches and groupings take turns, so that a
few dozen cases hold them all whatever the seed (all combinations within 96).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.geometry_draws import draw_window
from tests.reference.conv import Pair, Quad, output_size
from tests.reference.pooling import pool_output_size

Random = np.random.Generator
Array = npt.NDArray[Any]

BATCHES = (2, 1, 5, 0)
GROUPINGS = ("one", "two", "depthwise")


def generator(seed: int) -> Random:
    """The source of all randomness here."""
    return np.random.Generator(np.random.Philox(seed))


def integers(random: Random, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Array:
    """Integers in [-3, 3] as an array of `dtype`."""
    return random.integers(-3, 4, shape).astype(dtype)


def _label(*parts: object) -> str:
    """A test id: pairs as 3x4, everything parted by dashes."""
    return "-".join("x".join(map(str, p)) if isinstance(p, tuple) else str(p) for p in parts)


class ConvShapes(NamedTuple):
    """Shapes of the arrays of one convolution."""

    x: tuple[int, ...]
    weights: tuple[int, ...]
    bias: tuple[int, ...]
    err_output: tuple[int, ...]


class ConvData(NamedTuple):
    """The arrays of one convolution."""

    x: Array
    weights: Array
    bias: Array
    err_output: Array


@dataclass(frozen=True)
class ConvCase:
    """A convolution over `batch` images of `size` = (H, W); kernel, sliding and dilation are (x, y)."""

    kind: str
    batch: int
    size: Pair
    channels: int
    n_kernels: int
    kernel: Pair
    padding: Quad = (0, 0, 0, 0)
    sliding: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 1
    seed: int = 0

    def __str__(self) -> str:
        layer = (f"n{self.batch}", self.size, f"c{self.channels}", f"k{self.n_kernels}", self.kernel)
        return _label(self.kind, *layer, self.padding, self.sliding, self.dilation, f"g{self.groups}")

    @property
    def window(self) -> dict[str, Any]:
        """The keywords of the geometry."""
        return {key: getattr(self, key) for key in ("padding", "sliding", "dilation", "groups")}

    @property
    def output_size(self) -> Pair:
        """(OH, OW)."""
        return output_size(self.size, self.kernel, self.padding, self.sliding, self.dilation)

    @property
    def shapes(self) -> ConvShapes:
        """Shapes of x, weights, bias and err_output."""
        return ConvShapes(
            (self.batch, *self.size, self.channels),
            (self.n_kernels, self.kernel[1], self.kernel[0], self.channels // self.groups),
            (self.n_kernels,),
            (self.batch, *self.output_size, self.n_kernels),
        )

    def data(self, dtype: npt.DTypeLike = np.float64) -> ConvData:
        """The case's own integers, the same in every dtype."""
        random = generator(self.seed)
        return ConvData(*(integers(random, shape, dtype) for shape in self.shapes))


@dataclass(frozen=True)
class PoolCase:
    """A pooling over `batch` images of `size` = (H, W), of whichever kind the test asks for."""

    kind: str
    batch: int
    size: Pair
    channels: int
    kernel: Pair
    sliding: Pair | None = None
    padding: Quad = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    ceil: bool = True
    count_include_pad: bool = False
    seed: int = 0

    def __str__(self) -> str:
        layer = (f"n{self.batch}", self.size, f"c{self.channels}", self.kernel, self.padding, self.sliding)
        return _label(
            self.kind, *layer, self.dilation, f"ceil{self.ceil:d}", f"pad{self.count_include_pad:d}"
        )

    @property
    def window(self) -> dict[str, Any]:
        """The keywords of the geometry."""
        keys = ("sliding", "padding", "dilation", "ceil", "count_include_pad")
        return {key: getattr(self, key) for key in keys}

    @property
    def output_size(self) -> Pair:
        """(OH, OW)."""
        window = self.window
        del window["count_include_pad"]
        return pool_output_size(self.size, self.kernel, **window)

    def data(self, dtype: npt.DTypeLike = np.float64) -> tuple[Array, Array]:
        """x and err_output, the case's own integers; among so few values there are many ties."""
        random = generator(self.seed)
        x = integers(random, (self.batch, *self.size, self.channels), dtype)
        return x, integers(random, (self.batch, *self.output_size, self.channels), dtype)


CONV_KINDS = (
    *("plain", "shared_factor", "wide_padding", "long_step"),
    *("leftover", "bare", "pointwise_stride", "pointwise_padded"),
)
POOL_KINDS = ("own_step", "overlapping", "plain", "dilated", "long_step", "leftover")


def _channels(grouping: str, random: Random) -> tuple[int, int, int]:
    """Channels, kernels, groups; but for depthwise layers no group has as many channels as kernels."""
    c, k = (int(n) for n in random.permutation([1, 2, 3])[:2])
    if grouping == "depthwise":
        return c + 1, (c + 1) * k, c + 1
    groups = 2 if grouping == "two" else 1
    return c * groups, k * groups, groups


def random_conv_cases(n: int, seed: int) -> Iterator[ConvCase]:
    """`n` convolutions, the same for the same seed."""
    random = generator(seed)
    for i in range(n):
        kind, turn = CONV_KINDS[i % len(CONV_KINDS)], i + i // len(CONV_KINDS)
        size, kernel, sliding, dilation, padding = draw_window(kind, random)
        channels, kernels, groups = _channels(GROUPINGS[turn % len(GROUPINGS)], random)
        layer = (channels, kernels, kernel, padding, sliding, dilation, groups)
        yield ConvCase(kind, BATCHES[turn % len(BATCHES)], size, *layer, seed=seed + i)


def _pool_case(kind: str, batch: int, seed: int, random: Random) -> PoolCase:
    size, kernel, steps, dilation, padding = draw_window(kind, random)
    sliding = None if kind == "own_step" else steps
    channels, ceil, count_include_pad = (int(n) for n in random.integers((1, 0, 0), (4, 3, 2)))
    layer = (channels, kernel, sliding, padding, dilation, bool(ceil), bool(count_include_pad))
    return PoolCase(kind, batch, size, *layer, seed=seed)


def _legal(case: PoolCase) -> bool:
    try:
        return bool(case.output_size)
    except ValueError:  # some window would hold no cell
        return False


def random_pool_cases(n: int, seed: int) -> Iterator[PoolCase]:
    """`n` legal poolings, the same for the same seed."""
    random = generator(seed)
    for i in range(n):
        turn = i + i // len(POOL_KINDS)
        kind, batch = POOL_KINDS[i % len(POOL_KINDS)], BATCHES[turn % len(BATCHES)]
        yield next(filter(_legal, (_pool_case(kind, batch, seed + i, random) for _ in count())))
