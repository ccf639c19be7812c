"""Convolution and its gradients in float32, bit by bit in the order of fixed numerics: a slow judge.

Loops as they are promised: a chain is a loop over its terms, and every step of it is computed at once only
for results of their own, that is for images, kernels and channels.

`fma` rounds once. A product of two float32 is exact in float64; its sum with a third is rounded to odd there
(the last bit of an inexact result is 1), so that the second rounding, to float32, goes where the exact value
would have gone.

Arrays and windows are those of tests.reference.conv, but float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.reference.conv import Pair, Quad, output_size

Array = npt.NDArray[np.float32]
Term = tuple[object, Array, Array]  # its segment, two factors
Leaf = tuple[range, range]  # images, rows

SEGMENT = 256  # terms of a chain, at most
LEAF = 256  # positions of a leaf, at most, but at least one row of them
LEAF_IMAGES = (16, 8, 4, 2, 1)


def fma(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Array:
    """a * b + c of float32, rounded once."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.multiply(a, b, dtype=np.float64)
        return _odd_sum(exact, np.asarray(c, np.float64)).astype(np.float32)


def _odd_sum(p: npt.NDArray[np.float64], c: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """p + c rounded to odd: of the two neighbours of an inexact sum that whose last bit is 1."""
    total = np.asarray(p + c)
    part = total - p
    lost = (p - (total - part)) + (c - part)  # exactly what rounding took
    moves = np.isfinite(total) & (lost != 0) & (total.view(np.int64) % 2 == 0)
    return np.where(moves, np.nextafter(total, np.copysign(np.inf, lost)), total)


def chain(terms: Iterable[Term], zero: Array) -> Array:
    """s = +0.0, then s = fma(a, b, s) for each term."""
    s = zero
    for _, a, b in terms:
        s = fma(a, b, s)
    return s


def segmented(terms: Iterable[Term], zero: Array) -> Array:
    """+0.0, then the chain of each segment added; a segment that is not there would add +0.0."""
    total = zero
    for _, segment in groupby(terms, key=lambda term: term[0]):
        total = total + chain(segment, zero)
    return total


def tree(nodes: Sequence[Array], zero: Array) -> Array:
    """v[i] = v[2i] + v[2i + 1], an odd last one passes through, until one is left."""
    while len(nodes) > 1:
        nodes = [sum(nodes[i + 1 : i + 2], nodes[i]) for i in range(0, len(nodes), 2)]
    return nodes[0] if nodes else zero


def leaves(images: int, rows: int, columns: int) -> list[list[Leaf]]:
    """The leaves of each image or, where a leaf holds several images, of each such run of images."""
    size = rows * columns
    together = next((n for n in LEAF_IMAGES if n * size <= LEAF), 1)
    height = rows if size <= LEAF else max(1, LEAF // columns)
    return [
        [
            (range(n, min(n + together, images)), range(row, min(row + height, rows)))
            for row in range(0, rows, height)
        ]
        for n in range(0, images, together)
    ]


def sum_of_leaves(units: list[list[Leaf]], leaf: Callable[[Leaf], Array], zero: Array) -> Array:
    """The tree over the trees of all units, and + 0.0."""
    return tree([tree([leaf(part) for part in unit], zero) for unit in units], zero) + zero


class Meeting(NamedTuple):
    """Tap (ky, kx), number `place` of its window, of output `position` lies on `cell` of the image."""

    place: int
    tap: Pair
    position: Pair
    cell: Pair


def meetings(
    size: Pair, kernel: Pair, padding: Quad = (0, 0, 0, 0), sliding: Pair = (1, 1), dilation: Pair = (1, 1)
) -> Iterator[Meeting]:
    """Those inside the image of `size` (H, W); places, rows and columns ascending."""
    outputs = output_size(size, kernel, padding, sliding, dilation)
    for place, (ky, kx) in enumerate(np.ndindex(kernel[1], kernel[0])):
        for oy, ox in np.ndindex(*outputs):
            iy = oy * sliding[1] - padding[1] + ky * dilation[1]
            ix = ox * sliding[0] - padding[0] + kx * dilation[0]
            if iy in range(size[0]) and ix in range(size[1]):
                yield Meeting(place, (ky, kx), (oy, ox), (iy, ix))


def conv_forward(x: Array, w: Array, b: Array | None = None, *, groups: int = 1, **window: Any) -> Array:
    """y (N, OH, OW, n_kernels) before the activation, of x (N, H, W, C): taps and channels ascending."""
    size, kernel = (x.shape[1], x.shape[2]), (w.shape[2], w.shape[1])
    y = _zeros(len(x), *output_size(size, kernel, **window), len(w))
    met = list(meetings(size, kernel, **window))
    for (oy, ox), (cs, ks) in product(np.ndindex(y.shape[1:3]), _runs(x.shape[3], len(w), groups)):
        terms = (
            (_segment(m.place, c, len(cs)), x[:, *m.cell, cs[c], None], w[ks, *m.tap, c])
            for m in met
            if m.position == (oy, ox)
            for c in range(len(cs))
        )
        y[:, oy, ox, ks] = segmented(terms, _zeros(len(x), len(ks)))
    return y if b is None else y + b


def conv_input_gradient(d: Array, w: Array, input_size: Pair, *, groups: int = 1, **window: Any) -> Array:
    """err_input (N, H, W, C) of d (N, OH, OW, n_kernels): taps descending, kernels ascending."""
    kernel, channels = (w.shape[2], w.shape[1]), w.shape[3] * groups
    dx = _zeros(len(d), *input_size, channels)
    met, last = list(meetings(input_size, kernel, **window))[::-1], kernel[0] * kernel[1] - 1
    for (iy, ix), (cs, ks) in product(np.ndindex(*input_size), _runs(channels, len(w), groups)):
        terms = (
            (_segment(last - m.place, k, len(ks)), d[:, *m.position, ks[k], None], w[ks[k], *m.tap])
            for m in met
            if m.cell == (iy, ix)
            for k in range(len(ks))
        )
        dx[:, iy, ix, cs] = segmented(terms, _zeros(len(d), len(cs)))
    return dx


def conv_weight_gradient(x: Array, d: Array, kernel: Pair, *, groups: int = 1, **window: Any) -> Array:
    """Gradient (n_kernels, ky, kx, C // groups) of the weights; in a leaf images, rows, columns ascending."""
    dw = _zeros(d.shape[3], kernel[1], kernel[0], x.shape[3] // groups)
    cells = {(m.tap, m.position): m.cell for m in meetings((x.shape[1], x.shape[2]), kernel, **window)}
    units = leaves(*d.shape[:3])
    for tap, (cs, ks) in product(np.ndindex(dw.shape[1:3]), _runs(x.shape[3], len(dw), groups)):

        def leaf(part: Leaf, tap: Pair = tap, cs: range = cs, ks: range = ks) -> Array:
            positions = product(part[0], part[1], range(d.shape[2]))
            terms = (
                (0, d[n, oy, ox, ks, None], x[n, *cells[tap, (oy, ox)], cs])
                for n, oy, ox in positions
                if (tap, (oy, ox)) in cells
            )
            return chain(terms, _zeros(len(ks), len(cs)))

        dw[ks, *tap] = sum_of_leaves(units, leaf, _zeros(len(ks), len(cs)))
    return dw


def bias_gradient(d: Array) -> Array:
    """Sums (channels,) of d (N, H, W, channels): leaves of positions in raster order."""

    def leaf(part: Leaf) -> Array:
        s = _zeros(d.shape[3])
        for n, row, column in product(part[0], part[1], range(d.shape[2])):
            s = s + d[n, row, column]
        return s

    return sum_of_leaves(leaves(*d.shape[:3]), leaf, _zeros(d.shape[3]))


def _segment(tap: int, entry: int, entries: int) -> object:
    """Which segment a channel or kernel of the tap in this nominal place belongs to."""
    return tap // (SEGMENT // entries) if entries < SEGMENT else (tap, entry // SEGMENT)


def _runs(channels: int, kernels: int, groups: int) -> list[tuple[range, range]]:
    """The channels and the kernels of each group."""
    c, k = channels // groups, kernels // groups
    return [(range(g * c, (g + 1) * c), range(g * k, (g + 1) * k)) for g in range(groups)]


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)
