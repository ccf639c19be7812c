"""The provider "im2col", as in Veles: products with columns, which hold side by side what each window sees.

The forward pass unpacks x into columns and multiplies these, in the order of docs/numerics.md. The adjoint
multiplies into columns and packs them: each cell sums what the windows over it hold for it. That is one
product for all classes of cells, but err_input by im2col is fast only: its order is not the contract's. The
gradient of the weights is summed over columns of x, in the contract's order.

Columns are made for a block of images at a time or, where one image takes too much memory, for a band of
its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convgrad.backends.device import correlation, elementwise, products
from convgrad.backends.device.correlation import Correlation, Reach, Strides
from convgrad.backends.device.driver import scalars
from convgrad.backends.device.images import Device, Images, unpack
from convgrad.backends.device.plan import Argument, Launch
from convgrad.backends.device.products import Finish, Tile, Weights
from convgrad.backends.device.summing import WeightSums
from convgrad.geometry import Axis, ConvGeometry
from convgrad.interfaces import ACTIVATIONS

COLUMNS, PACKED = "im2col", "packed0"  # roles of scratch memory
MOST_POSITIONS = 2**31 - 1  # whose columns are made at once: kernels count them in int
MOST_STRETCHES = 2**15  # of a row of cells: CUDA's limit for groups along y is 2**16


@dataclass(frozen=True)
class Block:
    """What is computed at once: rows `rows` of the results for `images`, by the columns of rows `windows`."""

    images: range
    rows: range
    windows: range


@dataclass(frozen=True)
class ColumnProducts:
    """As correlating.Products, through columns, for at most `images` images.

    room: bytes of columns; kept to where they hold what one row of results needs. unpack_size: images of a
    block at most.
    """

    device: Device
    geometry: ConvGeometry
    weights: Weights
    straight: bool
    images: int
    room: int
    unpack_size: int | None

    def scratch(self) -> tuple[tuple[str, int], ...]:
        """Packed weights, and the columns of the largest block."""
        packed = products.packed_bytes(self._whole, self._tile, self.device.dtype)
        rows = max(len(b.images) * len(b.windows) for b in self.blocks(range(self.images)))
        return (PACKED, packed), (COLUMNS, rows * self._row_bytes)

    def prepare(self) -> Iterator[Launch]:
        """Pack the weights."""
        yield products.pack(self._whole, self._tile, self.device.dtype, self.weights, "weights", PACKED)

    def launches(self, source: Images, target: str, finish: Finish) -> Iterator[Launch]:
        """Compute these images."""
        for block in self.blocks(source.images):
            here = Images(source.role, block.images, source.first)
            if self.straight:
                yield from self._unpacked(block, here, target, finish)
            else:
                yield from self._packed(block, here, target, finish)

    def blocks(self, images: range) -> Iterator[Block]:
        """These images in order."""
        g = self.geometry
        most = max(1, min(self.room // self._row_bytes, MOST_POSITIONS // g.x.output))  # rows of windows
        if g.y.output > most:
            bands = _straight_bands if self.straight else _adjoint_bands
            for image in images:
                yield from (Block(range(image, image + 1), *band) for band in bands(g.y, most))
            return
        step = most // g.y.output
        step = step if self.unpack_size is None else min(step, self.unpack_size)
        rows = range(g.y.output if self.straight else g.height)
        for first in range(images.start, images.stop, step):
            yield Block(range(first, min(first + step, images.stop)), rows, range(g.y.output))

    @property
    def _row_bytes(self) -> int:
        """Columns of one row of windows."""
        g = self.geometry
        return g.x.output * g.groups * g.taps * self.device.dtype.itemsize

    @property
    def _tile(self) -> Tile:
        return products.tile_of(self.device.profile, self.device.dtype, self._whole.outputs)

    @property
    def _whole(self) -> Correlation:
        """What is multiplied, for no position yet."""
        return self._product(0, 0, 0)

    def _product(self, positions: int, source: int, target: int) -> Correlation:
        """From columns to results or, for the adjoint, from err_output to columns; where each starts."""
        g, taps = self.geometry, self.geometry.ky * self.geometry.kx
        x = Reach(positions, positions, 1, 0, 1, 1, 0, 1)
        if (
            self.straight
        ):  # the taps of a window lie one after the other, each with the channels of all groups
            y = Reach(1, taps, 1, 0, taps, 1, 0, 1)
            places = Strides(source, 0, g.channels, taps * g.channels), Strides(target, 0, 0, g.n_kernels)
            return Correlation(
                1, y, x, *places, g.group_channels, g.group_kernels, g.groups, (taps, 1), False
            )
        y = Reach(1, 1, 1, 0, 1, 1, 0, 1)
        places = Strides(source, 0, 0, g.n_kernels), Strides(target, 0, 0, g.groups * g.taps)
        return Correlation(1, y, x, *places, g.group_kernels, g.taps, g.groups, (1, 1), True)

    def _unpacked(self, block: Block, source: Images, target: str, finish: Finish) -> Iterator[Launch]:
        g = self.geometry
        part = correlation.rows(correlation.forward(g, len(block.images)), block.rows)
        place = source.place(part.source)
        size = part.images, g.channels, 1, g.ky * g.kx * g.channels
        yield unpack(self.device, (source.role, COLUMNS), place, part.y, part.x, *size)
        start = Images(target, block.images).place(part.target).start
        whole = self._product(part.cells, 0, start)
        yield products.correlate(whole, self._tile, self.device.dtype, finish, COLUMNS, PACKED, target)

    def _packed(self, block: Block, source: Images, target: str, finish: Finish) -> Iterator[Launch]:
        g = self.geometry
        strides = Strides.of(*g.output_shape)
        start = source.place(strides).start + block.windows.start * strides.row
        positions = len(block.images) * len(block.windows) * g.x.output
        if positions:
            whole = self._product(positions, start, 0)
            yield products.correlate(
                whole, self._tile, self.device.dtype, Finish(), source.role, PACKED, COLUMNS
            )
        yield pack_columns(self.device, g, block, target, finish)


def _straight_bands(axis: Axis, most: int) -> Iterator[tuple[range, range]]:
    """Rows of results, each of its own windows, in bands of `most`."""
    for first in range(0, axis.output, most):
        rows = range(first, min(first + most, axis.output))
        yield rows, rows


def _adjoint_bands(axis: Axis, most: int) -> Iterator[tuple[range, range]]:
    """Rows of cells, in bands of one row or under at most `most` windows, and the windows over them."""
    height = max(1, most * axis.stride - axis.extent + 1)
    for first in range(0, axis.size, height):
        last = min(first + height, axis.size) - 1
        start = max(0, (first + axis.before - axis.extent) // axis.stride + 1)
        stop = min(axis.output, (last + axis.before) // axis.stride + 1)
        yield range(first, last + 1), range(start, max(start, stop))


def pack_columns(device: Device, geometry: ConvGeometry, block: Block, target: str, finish: Finish) -> Launch:
    """Sum up what the columns hold for each cell of the block."""
    g, profile, dtype = geometry, device.profile, device.dtype
    out = Images(target, block.images).place(Strides.of(*g.input_shape))
    lanes = elementwise.lanes(profile, g.group_channels)
    elements = g.width * g.groups * -(-g.group_channels // lanes)
    each = max(elementwise.items(profile), elementwise.stretch(profile) // (lanes * g.ky * g.kx))
    each = max(each, -(-elements // MOST_STRETCHES))
    taps_apart = (min(axis.dilation, axis.padded) for axis in (g.y, g.x))  # a single tap's may be any number
    arguments: tuple[Argument, ...] = (
        *(COLUMNS, finish.bias or COLUMNS, target),
        *(np.int64(out.start + block.rows.start * out.row), np.int64(out.image), np.int64(out.row)),
        *scalars(out.column, len(block.rows), g.width, g.group_channels, g.groups),
        *scalars(g.ky, g.kx, g.y.stride, g.x.stride, g.y.before, g.x.before, *taps_apart),
        *scalars(block.rows.start, block.windows.start, len(block.windows), g.x.output, each),
        *scalars(finish.bias is not None, ACTIVATIONS.index(finish.activation)),
        *(dtype.type(finish.alpha), dtype.type(finish.beta)),
    )
    kernel = elementwise.kernel("columns.cl", "pack_columns", dtype, profile, f"LANES={lanes}")
    groups = len(block.images) * len(block.rows), -(-elements // each), 1
    return Launch(kernel, groups, (elementwise.items(profile), 1, 1), arguments)


@dataclass(frozen=True)
class ColumnSums(WeightSums):
    """As WeightSums, over columns of x where those of one leaf fit into half the budget.

    unpack_size: images whose columns are made at once, or one chunk.
    """

    unpack_size: int | None = None

    @property
    def unpacks(self) -> bool:
        """Whether they fit."""
        leaves = self.leaves
        leaf_bytes = self.column_bytes * leaves.leaf_images // leaves.bands
        return super().unpacks or leaf_bytes <= self.budget // 2

    def _blocks(self, chunks: range) -> Iterator[tuple[int, int]]:
        whole = self.chunks
        limit = len(chunks) if self.unpack_size is None else self.unpack_size * whole.parts // whole.images
        for first, last in super()._blocks(chunks):
            yield from whole.blocks(max(1, limit), range(first, last))
