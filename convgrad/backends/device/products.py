"""Launches of correlations: weights are packed, then multiplied, in the tiles of the device's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convgrad.backends.device.correlation import SEGMENT, Correlation
from convgrad.backends.device.driver import CPU, Profile, Triple, scalars
from convgrad.backends.device.plan import Argument, Kernel, Launch
from convgrad.interfaces import ACTIVATIONS

Dtype = np.dtype[Any]
CACHE = 512 << 10  # bytes of packed weights that a core keeps at hand
CPU_TILES = 4  # of cells in a work-group of CPU shape: TILES of kernels/cpu/correlate.cl
MUCH_OUTSIDE = 0.1  # of the taps of all cells
CPU_PIECE = 64  # inputs that a work-group of kernels/cpu/pack.cl packs: its PIECE
GPU_TILE = 64  # cells and outputs of a work-group of GPU shape


@dataclass(frozen=True)
class Tile:
    """What a work-group computes: `width` outputs of `cells` cells; `lanes` is 1 but in CPU shape."""

    kernel: Kernel
    cells: int
    width: int
    items: Triple
    lanes: int = 1


@dataclass(frozen=True)
class Finish:
    """What becomes of each sum: alpha * activation(sum + bias) + beta * old; bias is a role or None."""

    bias: str | None = None
    activation: str = "linear"
    alpha: float = 1.0
    beta: float = 0.0


@dataclass(frozen=True)
class Weights:
    """How a layer's weights (kernel, tap, channel) lie: strides in elements, and from group to group."""

    kernel: int
    tap: int
    channel: int
    group: int

    @classmethod
    def of(cls, n_kernels: int, taps: int, channels: int, groups: int, *, transposed: bool) -> Weights:
        """`channels` of one group; transposed: stored as (taps * channels, n_kernels)."""
        kernels = n_kernels // groups
        if transposed:
            return cls(1, channels * n_kernels, n_kernels, kernels)
        return cls(taps * channels, channels, 1, kernels * taps * channels)


def tile_of(profile: Profile, dtype: Dtype, outputs: int) -> Tile:
    """The tile that suits this many outputs."""
    double = f"DOUBLE={int(dtype.itemsize == 8)}"
    if profile.shape != CPU:
        return Tile(Kernel("correlate.cl", "correlate", (double,)), GPU_TILE, GPU_TILE, (16, 16, 1))
    lanes = max(2, profile.vector * 4 // dtype.itemsize)
    rows, vectors = _registers(profile.vector, lanes, outputs)
    defines = (double, f"LANES={lanes}", f"VECTORS={vectors}", f"ROWS={rows}")
    return Tile(
        Kernel("cpu/correlate.cl", "correlate", defines), CPU_TILES * rows, lanes * vectors, (1, 1, 1), lanes
    )


def _registers(vector: int, lanes: int, outputs: int) -> tuple[int, int]:
    """Rows and vectors of sums that a CPU's registers hold, with little past the last output."""
    if outputs <= lanes:
        return 8, 1
    if vector < 16:  # 16 registers
        return 4, 2
    return (8, 2) if -(-outputs // lanes) % 4 in (1, 2) else (6, 4)  # 32 registers


def packed_elements(correlation: Correlation, tile: Tile) -> int:
    """Elements of the packed weights, without the zeros at their end."""
    blocks = -(-correlation.outputs // tile.width)
    return correlation.groups * blocks * correlation.taps * correlation.inputs * tile.width


def packed_bytes(correlation: Correlation, tile: Tile, dtype: Dtype) -> int:
    """Scratch memory for packed weights."""
    return (packed_elements(correlation, tile) + SEGMENT) * dtype.itemsize


def pack(
    correlation: Correlation, tile: Tile, dtype: Dtype, weights: Weights, source: str, target: str
) -> Launch:
    """Write the weights of role `source` as the correlation reads them."""
    y, x = correlation.y, correlation.x
    width = correlation.window[1]
    output, entry = weights.kernel, weights.channel
    if correlation.descending:  # from kernels to channels
        output, entry = entry, output
    blocks = -(-correlation.outputs // tile.width)
    arguments: tuple[Argument, ...] = (
        source,
        target,
        np.int64(packed_elements(correlation, tile)),
        np.int64(weights.group),
        *scalars(output, entry, weights.tap),
        *scalars(y.first * width + x.first, y.skip * width, x.skip, y.taps, x.taps),
        *scalars(correlation.inputs, correlation.outputs, tile.width),
    )
    double, blocks = f"DOUBLE={int(dtype.itemsize == 8)}", blocks * correlation.groups
    if tile.lanes == 1:
        kernel, items = Kernel("pack.cl", "pack_weights", (double,)), 64
        pieces = -(-correlation.taps * correlation.inputs // items)
    else:
        kernel, items = Kernel("cpu/pack.cl", "pack_weights", (double, f"LANES={tile.lanes}")), 1
        pieces = correlation.taps * -(-correlation.inputs // CPU_PIECE)
    return Launch(kernel, (pieces * blocks, 1, 1), (items, 1, 1), arguments)


def correlate(
    correlation: Correlation, tile: Tile, dtype: Dtype, finish: Finish, source: str, packed: str, target: str
) -> Launch:
    """Multiply; `source`, `packed` and `target` are roles."""
    c, y, x = correlation, correlation.y, correlation.x
    arguments: tuple[Argument, ...] = (
        *(source, packed, finish.bias or packed, target, np.int64(packed_elements(c, tile))),
        *(np.int64(c.source.start), np.int64(c.source.image), np.int64(c.source.row)),
        *scalars(c.source.column, y.size, x.size, c.inputs),
        *scalars(y.taps, x.taps, y.step, x.step, y.start, x.start, y.tap, x.tap),
        *scalars(*c.nominal, *c.segment),
        *scalars(c.images, y.cells, x.cells),
        *(np.int64(c.target.start), np.int64(c.target.image), np.int64(c.target.row)),
        *scalars(c.target.column, c.outputs),
        *scalars(finish.bias is not None, ACTIVATIONS.index(finish.activation)),
        *(dtype.type(finish.alpha), dtype.type(finish.beta)),
    )
    blocks = -(-c.outputs // tile.width)
    groups = -(-c.cells // tile.cells) * blocks * c.groups, 1, 1
    if tile.lanes == 1:
        return Launch(tile.kernel, groups, tile.items, arguments)
    # Neighbouring groups share what stays in the cache: all of the weights, or a block of them.
    blocks_first = blocks * c.taps * c.inputs * tile.width * dtype.itemsize <= CACHE
    # Cells at one position of several images pass over the same taps.
    images_first = c.outside >= MUCH_OUTSIDE and c.images * CPU_TILES >= tile.cells
    return Launch(tile.kernel, groups, tile.items, (*arguments, *scalars(blocks_first, images_first)))
