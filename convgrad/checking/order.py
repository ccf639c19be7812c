"""Convolutions and their gradients as loops, term by term in the order that every kernel keeps.

Products are summed in segments of at most 256 terms: each is a chain of fused operations, and the segments
are added up in turn. Gradients of weights and bias sum leaves, then a tree: a leaf is some rows of an image
or some images. Taps outside the image have no terms, but keep their place where segments and leaves are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain

import numpy as np

from convgrad.checking.exact import ZERO, Exact, Rounding
from convgrad.geometry import ConvGeometry
from convgrad.geometry.axis import Axis

TERMS = 256  # of a segment or a leaf, at most
IMAGES = (16, 8, 4, 2, 1)  # of a leaf
Pairs = list[tuple[Fraction, Fraction]]


def _cell(axis: Axis, output: int, tap: int) -> int | None:
    """What this tap of this output reads, None outside of the image."""
    cell = output * axis.stride - axis.before + tap * axis.dilation
    return cell if 0 <= cell < axis.size else None


def _output(axis: Axis, cell: int, tap: int) -> int | None:
    """The output of which this tap reads the cell."""
    found = [output for output in range(axis.output) if _cell(axis, output, tap) == cell]
    return found[0] if found else None


class Order:
    """The passes of one layer, on arrays of Fractions; weights are (n_kernels, ky, kx, C / groups)."""

    def __init__(self, geometry: ConvGeometry, rounding: Rounding) -> None:
        self._g, self._rounding = geometry, rounding

    def forward(self, x: Exact, w: Exact) -> Exact:
        """(N, OH, OW, n_kernels): the sums, without bias."""
        g = self._g

        def value(n: int, oy: int, ox: int, k: int) -> Fraction:
            first = k // g.group_kernels * g.group_channels

            def pairs(ky: int, kx: int) -> Pairs:
                iy, ix = _cell(g.y, oy, ky), _cell(g.x, ox, kx)
                if iy is None or ix is None:
                    return []
                return list(zip(x[n, iy, ix, first : first + g.group_channels], w[k, ky, kx], strict=True))

            return self._segments([pairs(*tap) for tap in np.ndindex(g.ky, g.kx)], g.group_channels)

        return _array((len(x), *g.output_shape), value)

    def err_input(self, d: Exact, w: Exact) -> Exact:
        """(N, H, W, C): taps descending."""
        g = self._g

        def value(n: int, iy: int, ix: int, c: int) -> Fraction:
            group, channel = divmod(c, g.group_channels)
            kernels = slice(group * g.group_kernels, (group + 1) * g.group_kernels)

            def pairs(ky: int, kx: int) -> Pairs:
                oy, ox = _output(g.y, iy, ky), _output(g.x, ix, kx)
                if oy is None or ox is None:
                    return []
                return list(zip(d[n, oy, ox, kernels], w[kernels, ky, kx, channel], strict=True))

            taps = reversed(list(np.ndindex(g.ky, g.kx)))
            return self._segments([pairs(*tap) for tap in taps], g.group_kernels)

        return _array((len(d), *g.input_shape), value)

    def weights(self, x: Exact, d: Exact) -> Exact:
        """(n_kernels, ky, kx, C / groups)."""
        g = self._g

        def value(k: int, ky: int, kx: int, c: int) -> Fraction:
            channel = k // g.group_kernels * g.group_channels + c

            def pair(n: int, oy: int, ox: int) -> Pairs:
                iy, ix = _cell(g.y, oy, ky), _cell(g.x, ox, kx)
                return [] if iy is None or ix is None else [(x[n, iy, ix, channel], d[n, oy, ox, k])]

            return self._leaves(d.shape, pair)

        return _array(g.weights_shape, value)

    def bias(self, d: Exact) -> Exact:
        """(channels,): the sums of d (N, rows, columns, channels)."""
        return _array(
            d.shape[3:], lambda k: self._leaves(d.shape, lambda n, y, x: [(d[n, y, x, k], Fraction(1))])
        )

    def _segments(self, taps: Sequence[Pairs], inputs: int) -> Fraction:
        """Several whole taps of `inputs` terms in a segment, or one tap in several."""
        step = TERMS // inputs
        if step:
            segments = [list(chain(*taps[i : i + step])) for i in range(0, len(taps), step)]
        else:
            segments = [tap[i : i + TERMS] for tap in taps for i in range(0, len(tap), TERMS)]
        return self._rounding.sum(map(self._rounding.chain, segments))

    def _leaves(self, shape: Sequence[int], pair: Callable[[int, int, int], Pairs]) -> Fraction:
        """Sum pair(n, row, column) over all of `shape`."""
        images, rows, columns = shape[:3]

        def leaf(some_images: Iterable[int], some_rows: Iterable[int]) -> Fraction:
            places = ((n, y, x) for n in some_images for y in some_rows for x in range(columns))
            return self._rounding.chain(term for place in places for term in pair(*place))

        def ranges(end: int, step: int) -> list[range]:
            return [range(i, min(i + step, end)) for i in range(0, end, step)]

        tree = self._rounding.tree
        if rows * columns > TERMS:
            bands = ranges(rows, max(1, TERMS // columns))
            return tree([tree([leaf([n], band) for band in bands]) for n in range(images)])
        together = next(n for n in IMAGES if n == 1 or n * rows * columns <= TERMS)
        return tree([leaf(some, range(rows)) for some in ranges(images, together)])


def _array(shape: Sequence[int], value: Callable[..., Fraction]) -> Exact:
    array = np.full(tuple(shape), ZERO, object)
    for index in np.ndindex(array.shape):
        array[index] = value(*index)
    return array
