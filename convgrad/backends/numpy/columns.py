"""im2col and col2im of a block of images, in either of two memory orders.

The column matrix of a block is (groups, P, taps): one row for each of the P window positions of the
block, one column for each weight of a kernel. In memory either each row is one run ("rows": right for
many channels) or each column is ("planes": right for a few channels, where a run within a row would be
too short to copy well). BLAS takes both as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from convgrad.backends.numpy.products import Floats, Scratch, grouped
from convgrad.geometry import Axis, ConvGeometry

FEW_CHANNELS = 8  # up to here columns in planes are copied faster than columns in rows
MANY_CHANNELS = 128  # from here on products take so long that packing does not count


class Block(NamedTuple):
    """Views of the scratch memory of a block of n images.

    `taps`, for each tap: the cells that it reads (n, rows, OW, groups, channels / groups), and its columns.
    """

    cells: Floats  # (n, rows and columns with their padding, channels)
    windows: Floats  # all windows over the cells, as the next, but nothing copied
    columns: Floats  # (groups, n, rows, OW, ky, kx, channels / groups)
    matrix: Floats  # the columns as (groups, P, taps)
    taps: list[tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True)
class Columns:
    """Unpacking of images (n, H, W, channels) under windows along `y` and `x`."""

    y: Axis
    x: Axis
    channels: int
    groups: int
    planar: bool

    @property
    def taps(self) -> int:
        """Columns of the matrix: ky * kx * channels / groups."""
        return self.y.kernel * self.x.kernel * (self.channels // self.groups)

    def size(self, images: int, rows: int) -> int:
        """Elements of scratch for `rows` output rows of each of `images` images."""
        return self.columns_size(images, rows) + self._padded_size(images, rows)

    def columns_size(self, images: int, rows: int) -> int:
        """Elements of their column matrix."""
        return self.groups * images * rows * self.x.output * self.taps

    def _padded_size(self, images: int, rows: int) -> int:
        """Elements of the cells, with padding, that their windows cover."""
        return images * math.prod(self._cells(rows)) * self.channels

    def _cells(self, rows: int) -> tuple[int, int]:
        """Rows and columns of cells that `rows` output rows cover."""
        return (rows - 1) * self.y.stride + self.y.extent, (self.x.output - 1) * self.x.stride + self.x.extent

    def source_rows(self, band: range) -> slice:
        """The rows of the images that output rows `band` read, from theirs to those of the next band.

        The rows of all bands together are all rows of the images.
        """
        first = 0 if band.start == 0 else self._row(band.start)
        if band.stop == self.y.output:
            return slice(first, self.y.size)
        return slice(first, max(self._row(band.stop), self._row(band.stop - 1, self.y.extent), first))

    def most_source_rows(self, rows: int) -> int:
        """The largest number of `source_rows` of a band of `rows` output rows."""
        read = (rows - 1) * self.y.stride + max(self.y.extent, self.y.stride)
        unread = max(0, -self.y.before) + max(0, -self.y.after) + self.y.stride
        return min(self.y.size, read + unread)

    def owned_rows(self, band: range) -> int:
        """How many of `source_rows` come before those of the next band."""
        rows = self.source_rows(band)
        end: int = rows.stop if band.stop == self.y.output else self._row(band.stop)
        return end - int(rows.start)

    def _row(self, output: int, offset: int = 0) -> int:
        return min(max(output * self.y.stride - self.y.before + offset, 0), self.y.size)

    def unpack(self, images: Floats, band: range, scratch: Scratch, first_row: int = 0) -> Floats:
        """The column matrix of output rows `band` of all `images`, in scratch memory.

        `images` hold the rows from `first_row` on.
        """
        block = self._block(scratch, len(images), len(band))
        block.cells[...] = 0
        inside, source = self._inside(images, band, first_row)
        block.cells[inside] = images[source]
        np.copyto(block.columns, block.windows)
        return block.matrix

    def pack(self, target: Floats, band: range, scratch: Scratch, alpha: float) -> None:
        """Add `alpha` times the column matrix in scratch memory to the cells of `target` that it came from.

        Tap by tap, so that within one addition every cell has one owner.
        """
        block = self._block(scratch, len(target), len(band))
        block.cells[...] = 0
        for reached, column in block.taps:
            np.add(reached, column, out=reached)
        if alpha != 1:
            block.cells[...] *= alpha
        inside, source = self._inside(target, band)
        target[source] += block.cells[inside]

    def matrix(self, scratch: Scratch, images: int, rows: int) -> Floats:
        """The scratch memory of the columns as (groups, P, taps)."""
        return self._block(scratch, images, rows).matrix

    def _block(self, scratch: Scratch, images: int, rows: int) -> Block:
        return scratch.views(images, rows, self._make_block)

    def _make_block(self, scratch: Scratch, images: int, rows: int) -> Block:
        cells = self._padded(scratch.take("padded", self._padded_size(images, rows)), images, rows)
        flat = scratch.take("columns", self.columns_size(images, rows))
        columns = self._columns(flat, images, rows)
        return Block(
            cells,
            self._windows(cells, rows),
            columns,
            self._matrix(flat, images, rows),
            [self._tap(cells, columns, ky, kx) for ky in range(self.y.kernel) for kx in range(self.x.kernel)],
        )

    def _padded(self, flat: Floats, images: int, rows: int) -> Floats:
        cells = self._cells(rows)
        if self.planar:
            return flat.reshape(self.channels, images, *cells).transpose(1, 2, 3, 0)
        return flat.reshape(images, *cells, self.channels)

    def _columns(self, flat: Floats, images: int, rows: int) -> Floats:
        window = (self.y.kernel, self.x.kernel, self.channels // self.groups)
        places = (images, rows, self.x.output)
        if self.planar:
            return flat.reshape(self.groups, *window, *places).transpose(0, 4, 5, 6, 1, 2, 3)
        return flat.reshape(self.groups, *places, *window)

    def _matrix(self, flat: Floats, images: int, rows: int) -> Floats:
        positions = images * rows * self.x.output
        if self.planar:
            return flat.reshape(self.groups, self.taps, positions).transpose(0, 2, 1)
        return flat.reshape(self.groups, positions, self.taps)

    def _windows(self, cells: Floats, rows: int) -> Floats:
        n, down, right, step = cells.strides
        per_group = self.channels // self.groups
        shape = (self.groups, len(cells), rows, self.x.output, self.y.kernel, self.x.kernel, per_group)
        places = (n, down * self.y.stride, right * self.x.stride)
        window = (down * self.y.dilation, right * self.x.dilation, step)
        return as_strided(cells, shape, (step * per_group, *places, *window), writeable=False)

    def _tap(self, cells: Floats, columns: Floats, ky: int, kx: int) -> tuple[Floats, Floats]:
        column = columns[..., ky, kx, :].transpose(1, 2, 3, 0, 4)
        _, rows, width, groups, _ = column.shape
        reached = cells[:, _tap(self.y, ky, rows), _tap(self.x, kx, width)]
        return reached.reshape(*reached.shape[:3], groups, -1), column

    def _inside(self, images: Floats, band: range, first_row: int = 0) -> tuple[Any, Any]:
        """Where the covered cells and the images overlap: the index into the cells, and into the images."""
        height, width = self._cells(len(band))
        top = band.start * self.y.stride - self.y.before - first_row
        rows = _overlap(top, height, images.shape[1])
        columns = _overlap(-self.x.before, width, images.shape[2])
        return (slice(None), rows[0], columns[0]), (slice(None), rows[1], columns[1])


@dataclass(frozen=True, slots=True)
class Pixels:
    """The columns of a 1x1 convolution without steps and padding: the image as it lies in memory."""

    y: Axis
    x: Axis
    channels: int
    groups: int

    @property
    def taps(self) -> int:
        """Columns of the matrix."""
        return self.channels // self.groups

    def size(self, images: int, rows: int) -> int:
        """Elements of scratch (used where the image is not contiguous)."""
        return images * rows * self.x.output * self.channels

    def source_rows(self, band: range) -> slice:
        """As Columns.source_rows."""
        return slice(band.start, band.stop)

    def most_source_rows(self, rows: int) -> int:
        """As Columns.most_source_rows."""
        return rows

    def owned_rows(self, band: range) -> int:
        """As Columns.owned_rows."""
        return len(band)

    def unpack(self, images: Floats, band: range, scratch: Scratch, first_row: int = 0) -> Floats:
        """The column matrix (groups, P, taps) of rows `band` of all `images`, as Columns.unpack."""
        rows = images[:, band.start - first_row : band.stop - first_row]
        return grouped(scratch.contiguous("columns", rows), self.groups)


def columns_of_x(geometry: ConvGeometry) -> Columns | Pixels:
    """The columns of a convolution's input."""
    if geometry.pointwise:
        return Pixels(geometry.y, geometry.x, geometry.channels, geometry.groups)
    return columns_to_pack(geometry)


def columns_to_pack(geometry: ConvGeometry) -> Columns:
    """The columns of a convolution's input as a copy, which can be packed back."""
    planar = geometry.group_channels <= FEW_CHANNELS
    return Columns(geometry.y, geometry.x, geometry.channels, geometry.groups, planar)


def columns_of_errors(geometry: ConvGeometry) -> Columns | Pixels:
    """The columns of a convolution's err_output under the adjoint's windows (strides of 1 only)."""
    y, x = geometry.y.adjoint, geometry.x.adjoint
    if geometry.pointwise:
        return Pixels(y, x, geometry.n_kernels, geometry.groups)
    return Columns(y, x, geometry.n_kernels, geometry.groups, geometry.group_kernels <= FEW_CHANNELS)


def gathers(geometry: ConvGeometry, room: int) -> bool:
    """Whether the columns of err_output are the shorter way to the gradients.

    They are made once, where the columns of x are made, multiplied and packed; but the turned kernels and
    their gradient must fit into `room` elements.
    """
    if geometry.pointwise:
        return True
    few = geometry.group_kernels <= min(MANY_CHANNELS, 2 * geometry.group_channels)
    return geometry.sliding == (1, 1) and few and 2 * geometry.n_kernels * geometry.taps <= room


def _tap(axis: Axis, tap: int, outputs: int) -> slice:
    """The covered cells that `tap` of `outputs` consecutive windows reads."""
    first = tap * axis.dilation
    return slice(first, first + (outputs - 1) * axis.stride + 1, axis.stride)


def _overlap(first: int, count: int, size: int) -> tuple[slice, slice]:
    """Cells first..first+count of an image of `size`: those inside, counted from `first` and from 0."""
    start, stop = max(first, 0), min(first + count, size)
    stop = max(start, stop)
    return slice(start - first, stop - first), slice(start, stop)
