"""Cases of pooling: winners and their places, averages, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from convgrad.checking.cases import Arrays, Case, content, integers, reals, unwritten
from convgrad.checking.exact import ZERO, Exact, Rounding, floats, fractions
from convgrad.geometry import PoolGeometry

Cell = tuple[int, int]

SLIDING = 2, 1
GEOMETRY = PoolGeometry(5, 7, 3, 3, 2, padding=(1, 0, 0, 1), sliding=SLIDING)
IMAGES = 2


def cases() -> Iterator[Case]:
    """Of family "pool"."""
    for dtype in (np.float32, np.float64):
        for kind in ("max", "maxabs"):
            yield Case("pool", f"{kind}, {np.dtype(dtype)}", partial(_winners, kind, dtype), dtype)
            yield Case("pool", f"{kind}, offsets, {np.dtype(dtype)}", partial(_offsets, kind, dtype), dtype)
        yield Case("pool", f"gradient of max, {np.dtype(dtype)}", partial(_max_gradient, dtype), dtype)
        yield Case("pool", f"average, {np.dtype(dtype)}", partial(_average, dtype), dtype)
    yield Case("pool", "gradient of average", _average_gradient, kernels_only=True)


def _windows() -> dict[Cell, list[Cell]]:
    """The cells inside the image of each output's window, in raster order."""
    g, (left, top, _, _), (step_x, step_y) = GEOMETRY, GEOMETRY.padding, SLIDING

    def inside(oy: int, ox: int) -> list[Cell]:
        cells = ((oy * step_y - top + ky, ox * step_x - left + kx) for ky, kx in np.ndindex(g.ky, g.kx))
        return [(y, x) for y, x in cells if 0 <= y < g.height and 0 <= x < g.width]

    return {output: inside(*output) for output in np.ndindex(g.output_shape[:2])}


def _input(dtype: Any) -> Arrays:
    """Integers, so that there are ties, with a NaN, infinities and zeros of both signs among them."""
    [x] = integers(dtype, (IMAGES, *GEOMETRY.input_shape))
    x[0, 1, 2, 0] = x[0, 1, 3, 0] = np.nan
    x[1, :3, :3, 1] = -np.inf
    x[1, 3:, 3:, 2] = 0.0
    x[1, 4, 4:, 2] = -0.0
    return x


def _best(kind: str, x: Arrays) -> tuple[Arrays, Arrays]:
    """Values and flat indices of the winners."""
    shape = (len(x), *GEOMETRY.output_shape)
    values, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    for n, c in np.ndindex(len(x), GEOMETRY.channels):
        for (oy, ox), cells in _windows().items():
            winner = max(cells, key=lambda cell: _rank(kind, float(x[(n, *cell, c)])))  # max keeps the first
            values[n, oy, ox, c] = x[(n, *winner, c)]
            places[n, oy, ox, c] = np.ravel_multi_index((n, *winner, c), x.shape)
    return values, places


def _rank(kind: str, value: float) -> tuple[bool, float]:
    is_nan = value != value  # noqa: PLR0124
    return is_nan, 0.0 if is_nan else abs(value) if kind == "maxabs" else value


def _forward(kind: str, x: Arrays, backend: Any) -> tuple[Arrays, Arrays]:
    shape = (len(x), *GEOMETRY.output_shape)
    out, offset = unwritten(backend, shape, x.dtype), unwritten(backend, shape, np.int64)
    backend.pool.forward(backend.upload(x), out, None if kind == "average" else offset, GEOMETRY, kind)
    return content(backend, out), content(backend, offset)


def _winners(kind: str, dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    x = _input(dtype)
    return _forward(kind, x, backend)[0], _best(kind, x)[0]


def _offsets(kind: str, dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    x = _input(dtype)
    return _forward(kind, x, backend)[1], _best(kind, x)[1]


def _backward(kind: str, err_output: Arrays, offset: Arrays | None, backend: Any) -> Arrays:
    err_input = unwritten(backend, (len(err_output), *GEOMETRY.input_shape), err_output.dtype)
    where = None if offset is None else backend.upload(offset)
    backend.pool.backward(backend.upload(err_output), where, err_input, GEOMETRY, kind)
    return content(backend, err_input)


def _max_gradient(dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    [err_output] = reals(dtype, (IMAGES, *GEOMETRY.output_shape))
    offset = _best("max", _input(dtype))[1]
    rounding = Rounding(dtype)
    right = np.full((IMAGES, *GEOMETRY.input_shape), ZERO, object)
    for index in np.ndindex(offset.shape):  # ascending, as the errors of a cell are to be added
        place = np.unravel_index(offset[index], right.shape)
        right[place] = rounding(right[place] + Fraction(float(err_output[index])))
    return _backward("max", err_output, offset, backend), floats(right, dtype)


def _inverse(cells: list[Cell], dtype: Any) -> Fraction:
    return Rounding(dtype)(Fraction(1, len(cells)))


def _average(dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    [x] = reals(dtype, (IMAGES, *GEOMETRY.input_shape))
    exact, rounding = fractions(x), Rounding(dtype)
    right: Exact = np.empty((IMAGES, *GEOMETRY.output_shape), object)
    for n, c in np.ndindex(IMAGES, GEOMETRY.channels):
        for (oy, ox), cells in _windows().items():
            total = rounding.sum(exact[(n, *cell, c)] for cell in cells)
            right[n, oy, ox, c] = rounding(total * _inverse(cells, dtype))
    return _forward("average", x, backend)[0], floats(right, dtype)


def _average_gradient(backend: Any) -> tuple[Arrays, Arrays]:
    """A fused chain over the windows that hold the cell; NumPy rounds each product."""
    [err_output] = reals(np.float32, (IMAGES, *GEOMETRY.output_shape))
    exact, rounding = fractions(err_output), Rounding(np.float32)
    right: Exact = np.empty((IMAGES, *GEOMETRY.input_shape), object)
    for n, y, x, c in np.ndindex(right.shape):
        holding = [(output, cells) for output, cells in _windows().items() if (y, x) in cells]
        right[n, y, x, c] = rounding.chain(
            (exact[(n, *output, c)], _inverse(cells, np.float32)) for output, cells in holding
        )
    return _backward("average", err_output, None, backend), floats(right, np.float32)
