"""Max, max-abs and average pooling, and their gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from convgrad.errors import BadFormatError
from convgrad.geometry import PoolGeometry
from convgrad.geometry.checks import common_dtype
from convgrad.units.base import unit
from convgrad.units.images import as_images, check_images, image_shape
from convgrad.units.layers import Backward, Forward
from convgrad.units.links import ArrayAttribute

Shape = tuple[int, ...]
WINDOW = ("kx", "ky", "sliding")


@unit
class Pooling(Forward):
    """Base of the forward units: output (N, OH, OW, C) of input (N, H, W, C), or (N, H, W) with one channel.

    Windows that reach over the right or lower border are cut:
    `OH = (H - ky) // sliding_y + 1`, and one more when `(H - ky) % sliding_y` is not 0; OW likewise.
    """

    KIND: ClassVar[str]
    FIXED: ClassVar[tuple[str, ...]] = WINDOW

    # Window width and height in cells.
    kx: int
    ky: int
    # Step of the window (x, y); None = the window's size.
    sliding: tuple[int, int] | None = None

    def _setup(self) -> None:
        common_dtype({"input": self.input})
        self.geometry = _geometry(self)

    def _allocate(self, backend: Any) -> None:
        self._ready(backend, "output", self._batch_shape(), self.input.dtype)

    def _batch_shape(self) -> Shape:
        return (len(self.input), *self.geometry.output_shape)

    def _offset(self) -> Any:
        """The buffer for the winners' places, where there are winners."""
        return None

    def _compute(self) -> None:
        geometry, batch = self.geometry, self._batch()
        source = as_images(self.input.read_buffer(), len(self.input), geometry.input_shape)
        target = self.output.write_buffer(keep=False)
        self.operations.pool.forward(source, target, self._offset(), geometry, self.KIND, batch=batch)


class _MaxPooling(Pooling):
    """`input_offset`, int64 like output: the place in the whole of input, taken as flat, of each output."""

    input_offset = ArrayAttribute(result=True)

    def _allocate(self, backend: Any) -> None:
        super()._allocate(backend)
        self._ready(backend, "input_offset", self._batch_shape(), np.int64)

    def _offset(self) -> Any:
        return self.input_offset.write_buffer(keep=False)


class MaxPooling(_MaxPooling):
    """Largest cell of each window; of equals the first in raster order, a NaN before numbers."""

    MAPPING = frozenset({"max_pooling"})
    KIND = "max"


class MaxAbsPooling(_MaxPooling):
    """Cell of largest magnitude of each window, with its sign; of equals the first in raster order."""

    MAPPING = frozenset({"maxabs_pooling"})
    KIND = "maxabs"


class AvgPooling(Pooling):
    """Mean of the cells of each window that lie inside the image."""

    MAPPING = frozenset({"avg_pooling"})
    KIND = "average"


@unit
class GDPooling(Backward):
    """Base of the backward units: err_input like input; err_output as the forward unit's output."""

    KIND: ClassVar[str]
    ALIKE = "KIND"
    OF_FORWARD = (*Backward.OF_FORWARD, *WINDOW)
    FIXED: ClassVar[tuple[str, ...]] = WINDOW

    # As in the forward unit, from which link_forward takes them; without it the first two must be given.
    kx: int | None = None
    ky: int | None = None
    sliding: tuple[int, int] | None = None

    def _demands(self) -> tuple[str, ...]:
        return (*super()._demands(), "kx", "ky")

    def _setup(self) -> None:
        common_dtype({"input": self.input, "err_output": self.err_output})
        self.geometry = _geometry(self)
        check_images("err_output", self.err_output, len(self.input), self.geometry.output_shape)

    def _offset(self) -> Any:
        return None

    def _compute(self) -> None:
        if not self.need_err_input:
            return
        rows, geometry = len(self.input), self.geometry
        errors = as_images(self.err_output.read_buffer(), rows, geometry.output_shape)
        target = as_images(self.err_input.write_buffer(keep=False), rows, geometry.input_shape)
        offset, batch = self._offset(), self._batch()
        self.operations.pool.backward(errors, offset, target, geometry, self.KIND, batch=batch)


class GDMaxPooling(GDPooling):
    """Gradient of MaxPooling: each error goes to the cell that `input_offset` names.

    The offsets are those of the forward unit's last run. They are not checked: an error whose offset lies
    outside of its own window, as before the first run, goes nowhere.
    """

    MAPPING = frozenset({"max_pooling"})
    KIND = "max"
    OF_FORWARD = (*GDPooling.OF_FORWARD, "input_offset")

    input_offset = ArrayAttribute()

    def _demands(self) -> tuple[str, ...]:
        return (*super()._demands(), "input_offset")

    def _setup(self) -> None:
        super()._setup()
        check_images("input_offset", self.input_offset, len(self.input), self.geometry.output_shape)
        if self.input_offset.dtype != np.int64:
            raise BadFormatError(f"input_offset must be int64, got {self.input_offset.dtype}")

    def _offset(self) -> Any:
        return as_images(self.input_offset.read_buffer(), len(self.input), self.geometry.output_shape)


class GDMaxAbsPooling(GDMaxPooling):
    """Gradient of MaxAbsPooling: each error goes to the cell that `input_offset` names."""

    MAPPING = frozenset({"maxabs_pooling"})
    KIND = "maxabs"


class GDAvgPooling(GDPooling):
    """Gradient of AvgPooling: each error is spread evenly over the cells of its window."""

    MAPPING = frozenset({"avg_pooling"})
    KIND = "average"


def _geometry(layer: Pooling | GDPooling) -> PoolGeometry:
    window: dict[str, Any] = {name: getattr(layer, name) for name in WINDOW}
    return PoolGeometry(*image_shape("input", layer.input), **window)
