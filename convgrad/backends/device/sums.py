"""Launches of sums over images and positions: gradients of weights and of biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convgrad.backends.device.correlation import Reach, Strides
from convgrad.backends.device.driver import CPU, Profile, Triple, scalars
from convgrad.backends.device.leaves import Chunks
from convgrad.backends.device.plan import Argument, Kernel, Launch
from convgrad.backends.device.products import GPU_TILE, Weights

Dtype = np.dtype[Any]


@dataclass(frozen=True)
class Tile:
    """What a work-group of the weights' gradient computes: `parts` times `kernels` by `channels`."""

    kernel: Kernel
    kernels: int
    channels: int
    parts: int
    items: Triple


def lanes_of(profile: Profile, dtype: Dtype) -> int:
    """Elements of a vector."""
    return max(2, profile.vector * 4 // dtype.itemsize)


def tile_of(profile: Profile, dtype: Dtype, width: int) -> Tile:
    """The tile for rows of `width` channels; in CPU shape these must fill a vector."""
    double = f"DOUBLE={int(dtype.itemsize == 8)}"
    if profile.shape != CPU:
        return Tile(Kernel("weights.cl", "weight_gradient", (double,)), GPU_TILE, GPU_TILE, 1, (16, 16, 1))
    lanes = lanes_of(profile, dtype)
    vectors = 1 if width < 2 * lanes else 2
    rows = 8 if profile.vector >= 16 else 4
    tiles, parts = 8, 5
    defines = (
        double,
        f"LANES={lanes}",
        f"VECTORS={vectors}",
        f"ROWS={rows}",
        f"TILES={tiles}",
        f"PARTS={parts}",
    )
    kernel = Kernel("cpu/weights.cl", "weight_gradient", defines)
    return Tile(kernel, tiles * rows, vectors * lanes, parts, (1, 1, 1))


@dataclass(frozen=True)
class Source:
    """Where x lies for the weights' gradient, and the window that moves over it."""

    place: Strides
    y: Reach
    x: Reach
    width: int  # channels of one group, with what only fills up vectors
    inputs: int  # those of them that count


def weight_gradient(
    source: Source,
    errors: Strides,
    weights: Weights,
    outputs: int,
    groups: int,
    chunks: Chunks,
    part: tuple[int, int],
    tile: Tile,
    node: int,
    roles: tuple[str, str, str],
) -> Launch:
    """The nodes, of `node` elements, of chunks part[0] to part[1]; roles of x, errors and nodes."""
    leaves, y, x = chunks.leaves, source.y, source.x
    arguments: tuple[Argument, ...] = (
        *roles,
        *(np.int64(source.place.start), np.int64(source.place.image), np.int64(source.place.row)),
        *scalars(source.place.column, y.size, x.size, source.width, source.inputs),
        *scalars(y.taps, x.taps, y.step, x.step, y.start, x.start, y.tap, x.tap),
        *(np.int64(errors.start), np.int64(errors.image), np.int64(errors.row)),
        *scalars(errors.column, leaves.images, leaves.rows, leaves.columns, outputs),
        *scalars(leaves.leaf_images, leaves.leaf_rows, chunks.units, chunks.bands, part[0]),
        *(np.int64(node), np.int64(weights.group)),
        *scalars(weights.kernel, weights.tap, weights.channel),
    )
    parts = y.taps * x.taps * -(-source.inputs // tile.channels)
    stripes = -(-outputs // tile.kernels) * -(-parts // tile.parts)
    size = stripes * groups, part[1] - part[0], 1
    return Launch(tile.kernel, size, tile.items, arguments)


def bias_gradient(
    errors: Strides,
    outputs: int,
    chunks: Chunks,
    part: tuple[int, int],
    profile: Profile,
    dtype: Dtype,
    roles: tuple[str, str],
) -> Launch:
    """The nodes of `outputs` elements of the chunks from part[0] to part[1]; roles of errors and nodes."""
    leaves = chunks.leaves
    arguments: tuple[Argument, ...] = (
        *roles,
        *(np.int64(errors.start), np.int64(errors.image), np.int64(errors.row)),
        *scalars(errors.column, leaves.images, leaves.rows, leaves.columns, outputs),
        *scalars(leaves.leaf_images, leaves.leaf_rows, chunks.units, chunks.bands, part[0]),
    )
    return _reduction("bias_gradient", profile, dtype, outputs, part[1] - part[0], arguments)


def tree(chunks: Chunks, size: int, profile: Profile, dtype: Dtype, roles: tuple[str, str]) -> Launch:
    """Sum up all nodes, of `size` elements each; roles of nodes and result."""
    arguments: tuple[Argument, ...] = (*roles, *scalars(chunks.groups, chunks.parts), np.int64(size))
    return _reduction("tree", profile, dtype, size, 1, arguments)


def _reduction(
    name: str, profile: Profile, dtype: Dtype, size: int, nodes: int, arguments: tuple[Argument, ...]
) -> Launch:
    defines: tuple[str, ...] = (f"DOUBLE={int(dtype.itemsize == 8)}",)
    width, items = 64, 64
    if profile.shape == CPU:
        width, items = lanes_of(profile, dtype), 1
        defines += (f"LANES={width}",)
    return Launch(Kernel("reduce.cl", name, defines), (-(-size // width), nodes, 1), (items, 1, 1), arguments)
