"""Pooling on NumPy: loops over taps only, each over a block of images or a band of output rows.

Nothing here branches on data: NumPy's masked operations run ten times slower than plain ones where the mask
is hard to foresee, so selections are done by masks of bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zope.interface import implementer

from convgrad.backends.numpy.blocks import Blocks
from convgrad.geometry import PoolGeometry
from convgrad.geometry.pooling import starts
from convgrad.geometry.windows import Tap, first_cells, origins, taps
from convgrad.interfaces import IPoolOperations

Floats = NDArray[Any]
Offsets = NDArray[np.int64]

CACHE = 2**21  # bytes: a block's scratch should stay in a core's cache
SCRATCH = 32  # bytes per output cell that any operation below has in use at once, at most


@implementer(IPoolOperations)
class NumpyPool:
    """Pooling in blocks within the backend's workspace, spread over its threads; one owner for every cell."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def forward(
        self,
        x: Floats,
        out: Floats,
        offset: Offsets | None,
        geometry: PoolGeometry,
        kind: str,
        *,
        batch: int | None = None,
    ) -> None:
        """As IPoolOperations.forward."""
        count = len(x) if batch is None else batch
        if kind == "average":
            work = partial(_average_forward, x, out, geometry)
        else:
            work = partial(_max_forward, x, out, offset, geometry, kind)
        self._run(work, geometry, count)
        out[count:] = 0
        if offset is not None:
            offset[count:] = 0

    def backward(
        self,
        err_output: Floats,
        offset: Offsets | None,
        err_input: Floats,
        geometry: PoolGeometry,
        kind: str,
        *,
        batch: int | None = None,
    ) -> None:
        """As IPoolOperations.backward."""
        count = len(err_output) if batch is None else batch
        if kind == "average":
            work = partial(_average_backward, err_output, err_input, geometry)
        else:
            assert offset is not None
            work = partial(_max_backward, err_output, offset, err_input, geometry)
        self._run(work, geometry, count)
        err_input[count:] = 0

    def _run(self, work: Callable[[slice, range], None], geometry: PoolGeometry, count: int) -> None:
        """Do `work` on blocks of images and output rows; each thread owns the images that it writes."""
        threads = self._backend.threads
        height, width, channels = geometry.output_shape
        workers = max(1, min(threads.count, count))
        budget = min(self._backend.workspace // workers, CACHE)
        rows = max(1, budget // (SCRATCH * width * channels))
        blocks = Blocks(count, max(1, rows // height), height, min(rows, height), workers)
        threads.run([partial(_each, work, blocks.of_worker(worker)) for worker in range(workers)])


def _each(work: Callable[[slice, range], None], blocks: Iterable[tuple[slice, range]]) -> None:
    for images, rows in blocks:
        work(images, rows)


def _inverse_area(geometry: PoolGeometry, rows: range, dtype: np.dtype[Any]) -> Floats:
    return (1.0 / geometry.area(rows)[:, :, None]).astype(dtype)


def _span(part: range) -> slice:
    return slice(part.start, part.stop)


def _average_forward(x: Floats, out: Floats, geometry: PoolGeometry, images: slice, rows: range) -> None:
    x, total = x[images], out[images, _span(rows)]
    total[...] = 0
    for tap in taps(geometry, rows):
        total[tap.outputs] += x[tap.cells]
    total *= _inverse_area(geometry, rows, out.dtype)
    total += 0.0  # turns -0.0 into +0.0


def _average_backward(
    err_output: Floats, err_input: Floats, geometry: PoolGeometry, images: slice, rows: range
) -> None:
    share = err_output[images, _span(rows)] * _inverse_area(geometry, rows, err_input.dtype)
    received = _cleared(err_input, images, rows)
    for tap in reversed(taps(geometry, rows)):  # so that the windows of a cell come in ascending order
        received[tap.cells] += share[tap.outputs]


def _max_forward(
    x: Floats,
    out: Floats,
    offset: Offsets | None,
    geometry: PoolGeometry,
    kind: str,
    images: slice,
    rows: range,
) -> None:
    key = np.abs if kind == "maxabs" else np.asarray
    x, best, seen = x[images], out[images, _span(rows)], taps(geometry, rows)
    row, column = first_cells(geometry.y, rows)[:, None], first_cells(geometry.x, range(geometry.x.output))
    best[...] = key(x[:, row, column])
    for tap in seen[1:]:  # tap 0 is the first cell wherever it is inside
        np.maximum(best[tap.outputs], key(x[tap.cells]), out=best[tap.outputs])
    signs_differ = kind == "maxabs" or _may_be_minus_zero(best, x, geometry, rows)
    if offset is None and not signs_differ:
        return
    winner = _first_equal(best, x, seen, key)
    if signs_differ:
        _take_winners(best, x, seen, winner)
    if offset is not None:
        local = np.array([tap.local for tap in seen], dtype=np.int64)
        np.add(local[winner], origins(geometry, images, rows), out=offset[images, _span(rows)])


def _first_equal(best: Floats, x: Floats, seen: list[Tap], key: Callable[..., Floats]) -> NDArray[Any]:
    """The number of the first tap at which each window holds its best, or its first NaN."""
    small = np.min_scalar_type(len(seen))
    winner = np.full(best.shape, np.iinfo(small).max, small)
    nan = np.isnan(best).any()
    for number, tap in enumerate(seen):
        cells, held = key(x[tap.cells]), best[tap.outputs]
        hit = cells == held
        if nan:
            hit |= np.isnan(cells) & np.isnan(held)
        candidate = hit.astype(small)
        candidate -= small.type(1)  # 0 where it is hit, all bits set elsewhere
        candidate |= small.type(number)
        np.minimum(winner[tap.outputs], candidate, out=winner[tap.outputs])
    return winner


def _may_be_minus_zero(best: Floats, x: Floats, geometry: PoolGeometry, rows: range) -> bool:
    """Whether the sign of a zero in `best` is uncertain: numpy.maximum gives either of +0.0 and -0.0."""
    if best.all():
        return False
    start = starts(geometry.y, rows)
    read = x[:, max(0, start[0]) : start[-1] + geometry.y.extent]
    return bool(((read == 0) & np.signbit(read)).any())


def _take_winners(best: Floats, x: Floats, seen: list[Tap], winner: NDArray[Any]) -> None:
    """best = the cells that won, with their signs."""
    for number, tap in enumerate(seen):
        cells, held = x[tap.cells], best[tap.outputs]
        mask = _mask(winner[tap.outputs] == number, held)
        _bits(held)[...] ^= (_bits(held) ^ _bits(cells)) & mask


def _max_backward(
    err_output: Floats, offset: Offsets, err_input: Floats, geometry: PoolGeometry, images: slice, rows: range
) -> None:
    band = images, _span(rows)
    error, local = err_output[band], offset[band] - origins(geometry, images, rows)
    received = _cleared(err_input, images, rows)
    for tap in reversed(taps(geometry, rows)):  # so that the windows of a cell come in ascending order
        wins = local[tap.outputs] == tap.local
        won = _bits(error[tap.outputs]) & _mask(wins, error)  # a select: an Inf of another's error stays away
        received[tap.cells] += won.view(error.dtype)


def _cleared(err_input: Floats, images: slice, rows: range) -> Floats:
    """The images' part of err_input, zero when their first band begins."""
    received = err_input[images]
    if rows.start == 0:
        received[...] = 0
    return received


def _bits(values: Floats) -> NDArray[Any]:
    return values.view(f"i{values.itemsize}")


def _mask(wins: NDArray[np.bool_], values: Floats) -> NDArray[Any]:
    """All bits set where it wins, in integers of the size of `values`."""
    return np.negative(wins.view(np.int8), dtype=f"i{values.itemsize}")
