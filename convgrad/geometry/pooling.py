"""Shapes of pooling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError
from convgrad.geometry.axis import Axis
from convgrad.geometry.checks import (
    Shaped,
    addressable,
    flag,
    four_paddings,
    pair,
    shape_of,
    whole,
    whole_numbers,
)

POOL_KINDS = ("max", "maxabs", "average")


@dataclass(frozen=True)
class PoolGeometry:
    """Every size of a pooling but the batch: x (N, H, W, C) -> y (N, OH, OW, C).

    padding = (left, top, right, bottom); sliding (None = the kernel) and dilation = (x, y). The window
    of output (oy, ox) covers rows `oy * sliding_y - top + ky * dilation_y`, columns likewise; its cells
    are those inside the image. A geometry with a window that has none is refused.
    """

    height: int
    width: int
    channels: int
    kx: int
    ky: int
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    sliding: tuple[int, int] | None = None
    dilation: tuple[int, int] = (1, 1)
    ceil: bool = True
    count_include_pad: bool = False

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels", "kx", "ky"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1))
        sliding = (self.kx, self.ky) if self.sliding is None else self.sliding
        object.__setattr__(self, "padding", four_paddings(self.padding))
        object.__setattr__(self, "sliding", pair("sliding", sliding))
        object.__setattr__(self, "dilation", pair("dilation", self.dilation))
        for name in ("ceil", "count_include_pad"):
            object.__setattr__(self, name, flag(name, getattr(self, name)))
        addressable("the padded input", (self.y.padded, self.x.padded, self.channels))
        for axis in (self.x, self.y):
            if not axis.covered:
                raise BadFormatError(
                    f"padding {self.padding} leaves a window of kernel {(self.kx, self.ky)} without a cell "
                    f"of the image along {axis.name}"
                )

    @cached_property
    def x(self) -> Axis:
        """The horizontal direction."""
        left, _, right, _ = self.padding
        assert self.sliding is not None
        return Axis("x", self.width, self.kx, self.sliding[0], self.dilation[0], left, right, self.ceil)

    @cached_property
    def y(self) -> Axis:
        """The vertical direction."""
        _, top, _, bottom = self.padding
        assert self.sliding is not None
        return Axis("y", self.height, self.ky, self.sliding[1], self.dilation[1], top, bottom, self.ceil)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of one image."""
        return self.height, self.width, self.channels

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """(OH, OW, C) of one image."""
        return self.y.output, self.x.output, self.channels

    def area(self, rows: range) -> NDArray[np.int64]:
        """(rows, OW): the number of cells by which an average divides, for these output rows."""
        columns = _counts(self.x, range(self.x.output), self.count_include_pad)
        return _counts(self.y, rows, self.count_include_pad)[:, None] * columns

    @classmethod
    def of(cls, input_shape: tuple[int, ...], kernel: Any, **window: Any) -> PoolGeometry:
        """The geometry of an input of shape (N, H, W, C) under a `kernel` (x, y)."""
        _, height, width, channels = whole_numbers("input_shape", input_shape, ("N", "H", "W", "C"), least=0)
        return cls(height, width, channels, *pair("kernel", kernel), **window)

    def check_input(self, name: str, array: Shaped, batch: int | None = None) -> None:
        """Refuse an array that is not (N, H, W, C)."""
        shape_of(name, array, (batch, *self.input_shape), "(N, H, W, C)")

    def check_output(self, name: str, array: Shaped, batch: int | None = None) -> None:
        """Refuse an array that is not (N, OH, OW, C)."""
        shape_of(name, array, (batch, *self.output_shape), "(N, OH, OW, C)")


def _counts(axis: Axis, outputs: range, include_pad: bool) -> NDArray[np.int64]:
    """The number of taps of each output that lie inside the image, or inside the padded image."""
    low, high = (-axis.before, axis.size + axis.after) if include_pad else (0, axis.size)
    start = starts(axis, outputs)
    first = np.maximum(-((start - low) // axis.dilation), 0)
    stop = np.minimum((high - 1 - start) // axis.dilation + 1, axis.kernel)
    count: NDArray[np.int64] = np.maximum(stop - first, 0)
    return count


def starts(axis: Axis, outputs: range) -> NDArray[np.int64]:
    """The cell of tap 0 of each output, inside the image or not."""
    return np.arange(outputs.start, outputs.stop, dtype=np.int64) * axis.stride - axis.before
