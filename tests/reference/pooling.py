"""Max, max-abs and average pooling as loops over their definition, in float64.

The window of output (oy, ox) covers rows oy * sliding_y - top + ky * dilation_y, columns likewise; its cells
are those inside the image. A geometry with a window that holds no cell is refused.

Sizes: floor drops a last step that is not filled. Ceil adds a window for it, unless that window would start
beyond the image and its left (top) padding.
Divisor of the average: the cells, or with count_include_pad the places inside the padded image.
Winner of max and max-abs: the first largest in raster order; a NaN beats numbers, the first NaN first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.reference.conv import Array, Pair, Quad, f64


@dataclass(frozen=True)
class Axis:
    """One direction of the window: how far it reaches and where its cells lie."""

    size: int
    kernel: int
    step: int
    before: int
    after: int
    dilation: int
    ceil: bool

    def count(self) -> int:
        """Number of windows."""
        room = self.size + self.before + self.after - (self.kernel - 1) * self.dilation - 1
        if room < 0:
            raise ValueError(f"{self}: the kernel is larger than the padded image")
        count = room // self.step + 1
        if self.ceil and room % self.step and count * self.step < self.size + self.before:
            count += 1
        return count

    def places(self, o: int) -> list[int]:
        """Places of window `o`, inside the image or not."""
        return [o * self.step - self.before + k * self.dilation for k in range(self.kernel)]

    def cells(self, o: int) -> list[int]:
        """Places of window `o` inside the image."""
        found = [i for i in self.places(o) if 0 <= i < self.size]
        if not found:
            raise ValueError(f"window {o} of {self} holds no cell of the image")
        return found

    def padded(self, o: int) -> int:
        """How many places of window `o` lie inside the padded image."""
        return len([i for i in self.places(o) if -self.before <= i < self.size + self.after])


def axes(
    size: Pair, kernel: Pair, sliding: Pair | None, padding: Quad, dilation: Pair, ceil: bool
) -> tuple[Axis, Axis]:
    """The vertical and the horizontal axis of a pooling over an image of `size` = (H, W)."""
    sliding = sliding or kernel
    left, top, right, bottom = padding
    vertical = Axis(size[0], kernel[1], sliding[1], top, bottom, dilation[1], ceil)
    return vertical, Axis(size[1], kernel[0], sliding[0], left, right, dilation[0], ceil)


def pool_output_size(
    size: Pair,
    kernel: Pair,
    *,
    sliding: Pair | None = None,
    padding: Quad = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    ceil: bool = True,
) -> Pair:
    """(OH, OW); a geometry in which some window holds no cell raises ValueError."""
    vertical, horizontal = axes(size, kernel, sliding, padding, dilation, ceil)
    for axis in (vertical, horizontal):
        for o in range(axis.count()):
            axis.cells(o)
    return vertical.count(), horizontal.count()


def _windows(vertical: Axis, horizontal: Axis) -> Iterator[tuple[int, int, list[Pair], int]]:
    """For every output: its place, its cells in raster order, and the places inside the padded image."""
    for oy in range(vertical.count()):
        for ox in range(horizontal.count()):
            cells = [(iy, ix) for iy in vertical.cells(oy) for ix in horizontal.cells(ox)]
            yield oy, ox, cells, vertical.padded(oy) * horizontal.padded(ox)


def winner(values: list[float]) -> int:
    """Index of the first NaN, or else of the first largest value."""
    best = 0
    for i, value in enumerate(values):
        if math.isnan(value):
            return i
        if value > values[best]:
            best = i
    return best


def pool_forward(
    x: npt.ArrayLike,
    kind: str,
    kernel: Pair,
    *,
    sliding: Pair | None = None,
    padding: Quad = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    ceil: bool = True,
    count_include_pad: bool = False,
) -> tuple[Array, npt.NDArray[np.int64] | None]:
    """output (N, OH, OW, C), and for max and maxabs the winners' flat indices into the whole of x."""
    x = f64(x)
    batch, height, width, channels = x.shape
    vertical, horizontal = axes((height, width), kernel, sliding, padding, dilation, ceil)
    output = np.full((batch, vertical.count(), horizontal.count(), channels), np.nan)
    offset = np.full(output.shape, -1, dtype=np.int64)
    for oy, ox, cells, padded in _windows(vertical, horizontal):
        for n, c in np.ndindex(batch, channels):
            values = [float(x[n, iy, ix, c]) for iy, ix in cells]
            if kind == "average":
                output[n, oy, ox, c] = sum(values) / (padded if count_include_pad else len(cells))
            else:
                best = winner([abs(v) for v in values] if kind == "maxabs" else values)
                output[n, oy, ox, c] = values[best]
                offset[n, oy, ox, c] = ((n * height + cells[best][0]) * width + cells[best][1]) * channels + c
    return output, None if kind == "average" else offset


def pool_backward(
    err_output: npt.ArrayLike,
    input_shape: tuple[int, int, int, int],
    kind: str,
    kernel: Pair,
    *,
    offset: npt.NDArray[np.int64] | None = None,
    sliding: Pair | None = None,
    padding: Quad = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    ceil: bool = True,
    count_include_pad: bool = False,
) -> Array:
    """err_input (N, H, W, C): errors go to the winners, or in equal parts to the cells of an average."""
    d = f64(err_output)
    err_input = np.zeros(input_shape)
    if kind != "average":
        assert offset is not None
        for index in np.ndindex(d.shape):
            err_input[np.unravel_index(offset[index], input_shape)] += d[index]
        return err_input
    size = (input_shape[1], input_shape[2])
    for oy, ox, cells, padded in _windows(*axes(size, kernel, sliding, padding, dilation, ceil)):
        area = padded if count_include_pad else len(cells)
        for iy, ix in cells:
            err_input[:, iy, ix] += d[:, oy, ox] / area
    return err_input
