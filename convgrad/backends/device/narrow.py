"""Correlations with few outputs on CPUs: there are not outputs enough to fill a vector, so it holds cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from convgrad.backends.device.correlating import Products
from convgrad.backends.device.correlation import Correlation
from convgrad.backends.device.driver import CPU, scalars
from convgrad.backends.device.images import Device, Images
from convgrad.backends.device.plan import Argument, Kernel, Launch, Parts
from convgrad.backends.device.products import Finish, Tile
from convgrad.geometry import ConvGeometry
from convgrad.interfaces import ACTIVATIONS

MOST_OUTPUTS = 4
VECTORS = 2
TURNED = "turned"
CACHE = 4 << 20  # bytes of turned images that are worth while to have at once


@dataclass(frozen=True)
class Margins:
    """Rows of zeros before and in all, and columns likewise, of turned images."""

    top: int
    height: int
    left: int
    width: int


@dataclass(frozen=True)
class NarrowProducts(Products):
    """The adjoint with few channels: err_output is turned, so that its positions lie side by side."""

    room: int  # bytes of turned images; one image takes what it takes

    @staticmethod
    def suits(device: Device, geometry: ConvGeometry) -> bool:
        """Whether that is worth while."""
        return device.profile.shape == CPU and geometry.groups == 1 and geometry.channels <= MOST_OUTPUTS

    @property
    def margins(self) -> Margins:
        """Zeros wherever a tap of any class reaches."""
        down, aside = ([getattr(whole, axis) for whole in self.wholes] for axis in ("y", "x"))
        top, left = (max(0, *(-reach.start for reach in reaches)) for reaches in (down, aside))
        ends = [
            max(size, *(_up(r.cells, tile) + r.start + (r.taps - 1) * r.tap for r in reaches))
            for reaches, tile, size in (
                (down, self._rows, self.geometry.y.output),
                (aside, self._cells, self.geometry.x.output),
            )
        ]
        return Margins(top, top + ends[0], left, left + ends[1])

    @property
    def _rows(self) -> int:
        return 4 if self.geometry.channels == 1 else 2

    @property
    def _lanes(self) -> int:
        return max(2, self.device.profile.vector * 4 // self.device.dtype.itemsize)

    @property
    def _cells(self) -> int:
        return VECTORS * self._lanes

    @property
    def _image_bytes(self) -> int:
        """A turned image."""
        m = self.margins
        return m.height * m.width * self.geometry.n_kernels * self.device.dtype.itemsize

    def _most(self) -> int:
        """Images that are turned at once."""
        return max(1, min(self.room, CACHE) // self._image_bytes)

    def scratch(self) -> Parts:
        """Packed weights, and turned images."""
        return (*super().scratch(), (TURNED, self._most() * self._image_bytes))

    def launches(self, source: Images, target: str, finish: Finish) -> Iterator[Launch]:
        """Compute these images."""
        for first in range(source.images.start, source.images.stop, self._most()):
            images = range(first, min(first + self._most(), source.images.stop))
            yield self._turn(replace(source, images=images))
            for role, whole in self._named(self.wholes):
                place = Images(target, images).place(whole.target)
                yield self._correlate(replace(whole, images=len(images), target=place), role, target, finish)

    def _tile(self, whole: Correlation) -> Tile:
        defines = (
            f"LANES={self._lanes}",
            f"VECTORS={VECTORS}",
            f"ROWS={self._rows}",
            f"OUTPUTS={whole.outputs}",
        )
        kernel = Kernel("cpu/narrow.cl", "correlate_narrow", (self.device.define, *defines))
        return Tile(kernel, self._cells, whole.outputs, (1, 1, 1), self._lanes)

    def _turn(self, source: Images) -> Launch:
        g, m = self.geometry, self.margins
        place = source.place(self.wholes[0].source)
        arguments: tuple[Argument, ...] = (
            *(source.role, TURNED),
            *(np.int64(place.start), np.int64(place.image), np.int64(place.row)),
            *scalars(place.column, g.y.output, g.x.output, g.n_kernels),
            *scalars(m.top, m.height, m.left, m.width),
        )
        kernel = Kernel("cpu/turn.cl", "turn", (self.device.define, f"LANES={self._lanes}"))
        return Launch(kernel, (m.height * len(source.images), 1, 1), (1, 1, 1), arguments)

    def _correlate(self, c: Correlation, packed: str, target: str, finish: Finish) -> Launch:
        m, tile, dtype = self.margins, self._tile(c), self.device.dtype
        origin = (m.top + c.y.start) * c.inputs * m.width + m.left + c.x.start
        arguments: tuple[Argument, ...] = (
            *(TURNED, packed, finish.bias or packed, target),
            *scalars(m.height, c.inputs, m.width),
            np.int64(origin),
            *scalars(c.y.taps, c.x.taps, c.y.tap, c.x.tap, *c.nominal, *c.segment),
            *scalars(c.y.cells, c.x.cells),
            *(np.int64(c.target.start), np.int64(c.target.image), np.int64(c.target.row)),
            *scalars(c.target.column),
            *scalars(finish.bias is not None, ACTIVATIONS.index(finish.activation)),
            *(dtype.type(finish.alpha), dtype.type(finish.beta)),
        )
        groups = -(-c.x.cells // tile.cells) * -(-c.y.cells // self._rows) * c.images
        return Launch(tile.kernel, (groups, 1, 1), tile.items, arguments)


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
