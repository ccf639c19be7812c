"""Cells and flat indices of pooling windows, for vectorised code that loops over taps only.

A winner is named by its flat index in the whole input (N, H, W, C), or *locally*: counted from the cell at
which its window starts, which may lie in the padding. One tap has one local index in all windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError
from convgrad.geometry.axis import Axis
from convgrad.geometry.checks import Shaped
from convgrad.geometry.pooling import PoolGeometry, starts

Index = tuple[slice, slice, slice]
Offsets = NDArray[np.int64]

BLOCK = 2**14  # outputs that are checked at once: their few temporaries take less than half a MiB


class Tap(NamedTuple):
    """One place of the window: which outputs of a band see a cell of the image there, and which cells."""

    local: int
    outputs: Index  # into (N, rows of the band, OW, C)
    cells: Index  # into (N, H, W, C)


def taps(geometry: PoolGeometry, rows: range) -> list[Tap]:
    """All taps in raster order, for the band of output rows `rows`."""
    dx, dy = geometry.dilation
    found = []
    for ky in range(geometry.ky):
        row_outputs, row_cells = _slices(geometry.y, ky, rows)
        for kx in range(geometry.kx):
            column_outputs, column_cells = _slices(geometry.x, kx, range(geometry.x.output))
            local = (ky * dy * geometry.width + kx * dx) * geometry.channels
            outputs = slice(None), row_outputs, column_outputs
            found.append(Tap(local, outputs, (slice(None), row_cells, column_cells)))
    return found


def _slices(axis: Axis, tap: int, outputs: range) -> tuple[slice, slice]:
    seen, cells = axis.reach(tap, outputs)
    return (
        slice(seen.start - outputs.start, seen.stop - outputs.start),
        slice(cells.start, cells.stop, cells.step),
    )


def first_cells(axis: Axis, outputs: range) -> Offsets:
    """The first cell inside the image of each output."""
    start = starts(axis, outputs)
    outside: Offsets = np.maximum(-(start // axis.dilation), 0)  # taps before the image
    return start + outside * axis.dilation


def origins(geometry: PoolGeometry, images: slice, rows: range) -> Offsets:
    """(images, rows, OW, C): the flat index from which the local ones of each window count."""
    _, width, channels = geometry.input_shape
    image = np.arange(images.start, images.stop, dtype=np.int64) * geometry.height
    row = (image[:, None] + starts(geometry.y, rows)) * width
    columns = starts(geometry.x, range(geometry.x.output)) * channels
    plane = columns[:, None] + np.arange(channels, dtype=np.int64)
    return (row * channels)[:, :, None, None] + plane


def check_offset(offset: Shaped, geometry: PoolGeometry, batch: int) -> None:
    """Refuse an offset that is not (N, OH, OW, C) of int64 or, on the host, that leaves its own window."""
    if offset.dtype != np.int64 or not offset.dtype.isnative:
        raise BadFormatError(f"offset must be int64 in native byte order, got {offset.dtype}")
    geometry.check_output("offset", offset, batch)
    if isinstance(offset, np.ndarray):
        for images, rows in _bands(geometry, batch):
            _check_winners(offset, geometry, images, rows)


def _bands(geometry: PoolGeometry, batch: int) -> Iterator[tuple[slice, range]]:
    """All outputs in blocks of at most BLOCK, or of one row where that is more."""
    height, width, channels = geometry.output_shape
    rows = max(1, BLOCK // (width * channels))
    step = max(1, rows // height)
    for image in range(0, batch, step):
        for row in range(0, height, rows):
            yield slice(image, min(image + step, batch)), range(row, min(row + rows, height))


def _check_winners(offset: NDArray[Any], geometry: PoolGeometry, images: slice, rows: range) -> None:
    band = images, slice(rows.start, rows.stop)
    local = offset[band] - origins(geometry, images, rows)
    inside = np.zeros(local.shape, dtype=bool)
    for tap in taps(geometry, rows):
        inside[tap.outputs] |= local[tap.outputs] == tap.local
    if not inside.all():
        n, row, *place = (int(i) for i in np.argwhere(~inside)[0])
        where = (images.start + n, rows.start + row, *place)
        raise BadFormatError(
            f"offset must name a cell of its own window, as pool_forward gives it; got {offset[where]} "
            f"at {where}"
        )
