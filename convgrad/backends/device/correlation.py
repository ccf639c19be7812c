"""Correlations: the one product behind forward passes and input gradients, as launches.

A correlation gives each cell of a grid (images, rows, columns), and each of its outputs, the sum of
`source[cell + tap, input] * weights[output, tap, input]`. The forward pass of a convolution is one. Its input
gradient is one for each class of cells that err_output reaches by the same taps: with steps of one cell there
is a single class, else one for each remainder of row and column by the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import NamedTuple

from convgrad.geometry import ConvGeometry
from convgrad.geometry.axis import Axis

SEGMENT = 256  # terms of a chain, at most


class Strides(NamedTuple):
    """Where the elements of an array (images, rows, columns, channels side by side) lie, in elements."""

    start: int
    image: int
    row: int
    column: int

    @classmethod
    def of(cls, rows: int, columns: int, channels: int) -> Strides:
        """Of a C-contiguous array (N, rows, columns, channels)."""
        return cls(0, rows * columns * channels, columns * channels, channels)


class Reach(NamedTuple):
    """Along one axis: `cells` cells; tap t of cell j reads `j * step + start + t * tap` of `size`.

    Tap t is the window's tap `first + t * skip`.
    """

    cells: int
    size: int
    step: int
    start: int
    taps: int
    tap: int
    first: int
    skip: int

    @property
    def seen(self) -> int:
        """Taps that lie inside, of all cells together."""
        origins = [self.start + tap * self.tap for tap in range(self.taps)]
        first = [max(0, -(origin // self.step)) for origin in origins]
        ends = [min(self.cells, (self.size - 1 - origin) // self.step + 1) for origin in origins]
        return sum(max(0, end - begin) for begin, end in zip(first, ends, strict=True))


@dataclass(frozen=True)
class Correlation:
    """One launch. Taps count in nominal order over the whole window: this decides where segments end."""

    images: int
    y: Reach
    x: Reach
    source: Strides
    target: Strides
    inputs: int  # of one group
    outputs: int  # of one group
    groups: int
    window: tuple[int, int]  # taps (y, x) of the whole window
    descending: bool  # whether nominal order is that of descending taps

    @property
    def taps(self) -> int:
        """Taps that are read."""
        return self.y.taps * self.x.taps

    @property
    def cells(self) -> int:
        """Cells over all images."""
        return self.images * self.y.cells * self.x.cells

    @property
    def outside(self) -> float:
        """The share of the taps of all cells that lies outside of the image."""
        everything = self.y.cells * self.x.cells * self.taps
        return 1 - self.y.seen * self.x.seen / everything if everything else 0.0

    @property
    def nominal(self) -> tuple[int, int, int]:
        """The place of tap (0, 0) in nominal order, and how far from it the taps below and beside it are."""
        (height, width), y, x = self.window, self.y, self.x
        if self.descending:
            return (height - 1 - y.first) * width + width - 1 - x.first, -y.skip * width, -x.skip
        return y.first * width + x.first, y.skip * width, x.skip

    @property
    def segment(self) -> tuple[int, int]:
        """(taps, inputs) of a segment."""
        return (SEGMENT // self.inputs, self.inputs) if self.inputs < SEGMENT else (1, SEGMENT)


def forward(geometry: ConvGeometry, images: int) -> Correlation:
    """x (N, H, W, C) -> (N, OH, OW, n_kernels)."""
    return Correlation(
        images=images,
        y=_window(geometry.y),
        x=_window(geometry.x),
        source=Strides.of(*geometry.input_shape),
        target=Strides.of(*geometry.output_shape),
        inputs=geometry.group_channels,
        outputs=geometry.group_kernels,
        groups=geometry.groups,
        window=(geometry.ky, geometry.kx),
        descending=False,
    )


def _window(axis: Axis) -> Reach:
    return Reach(axis.output, axis.size, axis.stride, -axis.before, axis.kernel, axis.dilation, 0, 1)


def adjoint(geometry: ConvGeometry, images: int) -> Iterator[Correlation]:
    """(N, OH, OW, n_kernels) -> (N, H, W, C), one for each class of cells; together they write every cell."""
    whole = Strides.of(*geometry.input_shape)
    for row, y in _classes(geometry.y):
        for column, x in _classes(geometry.x):
            yield Correlation(
                images=images,
                y=y,
                x=x,
                source=Strides.of(*geometry.output_shape),
                target=Strides(
                    row * whole.row + column * whole.column,
                    whole.image,
                    whole.row * geometry.y.stride,
                    whole.column * geometry.x.stride,
                ),
                inputs=geometry.group_kernels,
                outputs=geometry.group_channels,
                groups=geometry.groups,
                window=(geometry.ky, geometry.kx),
                descending=True,
            )


def _classes(axis: Axis) -> Iterator[tuple[int, Reach]]:
    """The first cell of each class, and its taps, the last first: so the outputs come in ascending order."""
    common = gcd(axis.stride, axis.dilation)
    skip = axis.stride // common
    for cell in range(min(axis.stride, axis.size)):
        cells = len(range(cell, axis.size, axis.stride))
        place = cell + axis.before
        taps = [tap for tap in range(axis.kernel) if (place - tap * axis.dilation) % axis.stride == 0]
        last = taps[-1] if taps else 0
        start = (place - last * axis.dilation) // axis.stride
        yield cell, Reach(cells, axis.output, 1, start, len(taps), axis.dilation // common, last, -skip)


def rows(correlation: Correlation, cells: range) -> Correlation:
    """The part of it that computes these rows of cells."""
    y, target = correlation.y, correlation.target
    return replace(
        correlation,
        y=y._replace(cells=len(cells), start=y.start + cells.start * y.step),
        target=target._replace(start=target.start + cells.start * target.row),
    )
