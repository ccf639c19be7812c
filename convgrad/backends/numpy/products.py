"""Matrix products over blocks: into strided targets, and sums of products over many blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from convgrad.backends.numpy import blocks
from convgrad.backends.numpy.threads import Threads

Floats = NDArray[Any]
_Views = TypeVar("_Views")
Product = Callable[[Floats, Floats, Floats], None]


class Scratch:
    """Flat buffers of one worker by name, grown to the largest request, and views of them.

    A block takes microseconds, and so does making a view: both are made once for each size of block.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._buffers: dict[str, Floats] = {}
        self._views: dict[tuple[int, int], Any] = {}

    def views(self, images: int, rows: int, make: Callable[[Scratch, int, int], _Views]) -> _Views:
        """What `make(self, images, rows)` gave when it was first called for this size of block."""
        if (images, rows) not in self._views:
            self._views[images, rows] = make(self, images, rows)
        views: _Views = self._views[images, rows]
        return views

    def take(self, name: str, size: int) -> Floats:
        """`size` elements with undefined content; the same memory at every call of this name."""
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size, self._dtype)
        return self._buffers[name][:size]

    def contiguous(self, name: str, block: Floats) -> Floats:
        """`block` itself when it is C-contiguous and aligned, as BLAS wants it, else a copy."""
        if block.flags.c_contiguous and block.flags.aligned:
            return block
        copy = self.take(name, block.size).reshape(block.shape)
        np.copyto(copy, block)
        return copy


def grouped(block: Floats, groups: int) -> Floats:
    """A C-contiguous block (n, rows, w, channels) as (groups, P, channels / groups), without copying."""
    return block.reshape(-1, groups, block.shape[-1] // groups).transpose(1, 0, 2)


def product(left: Floats, right: Floats, out: Floats) -> None:
    """out (groups, m, n) = left (groups, m, t) @ right (groups, t, n), on this thread."""
    np.matmul(left, right, out=out)


class SplitProduct:
    """The same, spread over threads: each makes a part of `out`, of its rows or of its columns.

    For work that cannot be spread over images; not to be used inside of tasks of `threads`.
    """

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    def __call__(self, left: Floats, right: Floats, out: Floats) -> None:
        """As `product`."""
        groups, m, n = out.shape
        if groups * m * n * left.shape[2] < blocks.LEAST_WORK:
            product(left, right, out)
            return
        parts = [_part(max(m, n), index, self._threads.count) for index in range(self._threads.count)]
        if m >= n:
            tasks = [partial(product, left[:, part], right, out[:, part]) for part in parts]
        else:
            tasks = [partial(product, left, right[..., part], out[..., part]) for part in parts]
        self._threads.run(tasks)


def _part(size: int, index: int, count: int) -> slice:
    return slice(size * index // count, size * (index + 1) // count)


def multiply_into(
    left: Floats,
    right: Floats,
    target: Floats,
    scratch: Scratch,
    multiply: Product,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """target (n, rows, w, channels) = alpha * left @ right + beta * target, in groups.

    left (groups, P, t), right (groups, t, channels / groups). target is C-contiguous, and not read when
    beta is 0.
    """
    direct = alpha == 1 and beta == 0
    result = target if direct else scratch.take("result", target.size).reshape(target.shape)
    multiply(left, right, grouped(result, len(left)))
    if direct:
        return
    if alpha != 1:
        result *= alpha
    if beta != 0:
        result += beta * target
    target[...] = result


class SumOfProducts:
    """total (groups, m, n) = sum over blocks of products (groups, m, P) @ (groups, P, n).

    BLAS through NumPy cannot add to its output, so from the second block on a product goes to a temporary
    first; when that may not be as large as the total, it is made in slices of rows.
    """

    def __init__(self, total: Floats, slice_rows: int, multiply: Product) -> None:
        self._total = total
        self._slice_rows = min(slice_rows, total.shape[1])
        self._multiply = multiply
        self._temporary: Floats | None = None
        self._empty = True

    def add(self, left: Floats, right: Floats) -> None:
        """Add one product."""
        if self._empty:
            self._multiply(left, right, self._total)
            self._empty = False
            return
        groups, m, n = self._total.shape
        if self._temporary is None:
            self._temporary = np.empty((groups, self._slice_rows, n), self._total.dtype)
        for start in range(0, m, self._slice_rows):
            part = slice(start, min(start + self._slice_rows, m))
            temporary = self._temporary[:, : part.stop - start]
            self._multiply(left[:, part], right, temporary)
            self._total[:, part] += temporary
