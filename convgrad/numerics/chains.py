"""Chains of fused operations for many results at once, and sums over the windows of a convolution.

Arrays are float64 whose values are float32: a product of two is exact, see convgrad/numerics/fma.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from convgrad.geometry import ConvGeometry
from convgrad.geometry.axis import Axis
from convgrad.numerics.fma import Doubles, Singles, rounded

SEGMENT = 256  # terms of a chain, at most


def add_product(sums: Doubles, a: Doubles, b: Doubles) -> None:
    """sums = fma(a, b, sums), where a * b broadcasts to the shape of `sums`."""
    with np.errstate(all="ignore"):
        product = a * b
        sums[...] = rounded(product + sums, product, sums)


class Term(NamedTuple):
    """An entry (channel or kernel of the group) at a tap (ky, kx): one term of each sum, and its segment."""

    segment: int
    ky: int
    kx: int
    entry: int


def terms(geometry: ConvGeometry, entries: int, *, descending: bool = False) -> Iterator[list[Term]]:
    """The terms of each segment; taps in raster order, or in the reverse of it, entries ascending."""
    taps = [(ky, kx) for ky in range(geometry.ky) for kx in range(geometry.kx)]
    together = SEGMENT // entries  # taps of a segment; none where one tap has several segments
    parts = -(-entries // SEGMENT)
    ordered = [
        Term(place // together if together else place * parts + entry // SEGMENT, *tap, entry)
        for place, tap in enumerate(reversed(taps) if descending else taps)
        for entry in range(entries)
    ]
    return (list(some) for _, some in groupby(ordered, key=lambda term: term.segment))


def forward(x: Doubles, weights: Doubles, geometry: ConvGeometry) -> Singles:
    """Sums (N, OH, OW, K) over x (N, H, W, C) and weights (K, ky, kx, C) of one group."""
    shape = (len(x), geometry.y.output, geometry.x.output, len(weights))
    total = np.zeros(shape, np.float32)
    for segment in terms(geometry, x.shape[3]):
        sums = np.zeros(shape, np.float64)
        for _, ky, kx, c in segment:
            outputs, cells = _meeting(geometry, ky, kx)
            add_product(sums[:, *outputs], x[:, *cells, c, None], weights[:, ky, kx, c])
        total += sums.astype(np.float32)
    return total


def adjoint(d: Doubles, weights: Doubles, geometry: ConvGeometry) -> Singles:
    """Sums (N, H, W, C) over d (N, OH, OW, K) and weights (K, ky, kx, C) of one group."""
    shape = (len(d), geometry.height, geometry.width, weights.shape[3])
    total = np.zeros(shape, np.float32)
    for segment in terms(geometry, d.shape[3], descending=True):
        sums = np.zeros(shape, np.float64)
        for _, ky, kx, k in segment:
            outputs, cells = _meeting(geometry, ky, kx)
            add_product(sums[:, *cells], d[:, *outputs, k, None], weights[k, ky, kx])
        total += sums.astype(np.float32)
    return total


def _meeting(geometry: ConvGeometry, ky: int, kx: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """The outputs that this tap of sees a cell of the image for, and these cells: rows and columns."""
    rows, row_cells = geometry.y.reach(ky)
    columns, column_cells = geometry.x.reach(kx)
    return (_slice(rows), _slice(columns)), (_slice(row_cells), _slice(column_cells))


def _slice(places: range) -> slice:
    return slice(places.start, places.start + len(places) * places.step, places.step)


def seen(axis: Axis, output: int) -> tuple[slice, slice]:
    """The taps of an output that lie inside the image, and their cells."""
    taps: Sequence[int] = [
        tap for tap in range(axis.kernel) if len(axis.reach(tap, range(output, output + 1))[0])
    ]
    if not taps:
        return slice(0), slice(0)
    cell = output * axis.stride - axis.before + taps[0] * axis.dilation
    return slice(taps[0], taps[-1] + 1), slice(
        cell, cell + (len(taps) - 1) * axis.dilation + 1, axis.dilation
    )
