"""Convolution, its gradients and the transposed convolution, as loops over the definitions, in float64.

    y[n, oy, ox, k] = bias[k] + sum over ky, kx, c of x[n, iy, ix, c] * w[k, ky, kx, c]
    iy = oy * sliding_y - top + ky * dilation_y,    ix = ox * sliding_x - left + kx * dilation_x

Cells outside the image take no part (they are skipped, not multiplied by zero). Arrays are NHWC, weights are
(n_kernels, ky, kx, channels // groups), group g joins the g-th run of channels with the g-th run of kernels.
The only NumPy arithmetic is the product over the channels of one tap. Integers below 2**53 come out exact.

`window` stands for the keywords padding=(left, top, right, bottom), sliding=(x, y), dilation=(x, y).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Pair = tuple[int, int]
Quad = tuple[int, int, int, int]


def f64(values: npt.ArrayLike) -> Array:
    """The same numbers as a new float64 array."""
    return np.array(values, dtype=np.float64)


def _axis_count(size: int, before: int, after: int, kernel: int, step: int, dilation: int) -> int:
    room = size + before + after - ((kernel - 1) * dilation + 1)
    if room < 0:
        raise ValueError(f"kernel {kernel}, dilation {dilation} is larger than the padded image {size}")
    return room // step + 1


def output_size(
    size: Pair, kernel: Pair, padding: Quad = (0, 0, 0, 0), sliding: Pair = (1, 1), dilation: Pair = (1, 1)
) -> Pair:
    """(OH, OW) of a convolution over an image of `size` = (H, W) with `kernel` = (x, y)."""
    left, top, right, bottom = padding
    rows = _axis_count(size[0], top, bottom, kernel[1], sliding[1], dilation[1])
    return rows, _axis_count(size[1], left, right, kernel[0], sliding[0], dilation[0])


def _taps(
    size: Pair, kernel: Pair, padding: Quad = (0, 0, 0, 0), sliding: Pair = (1, 1), dilation: Pair = (1, 1)
) -> Iterator[tuple[Pair, Pair, Pair]]:
    """All (oy, ox), (ky, kx), (iy, ix) of the definition whose input cell lies inside the image."""
    rows, columns = output_size(size, kernel, padding, sliding, dilation)
    for oy, ox, ky, kx in np.ndindex(rows, columns, kernel[1], kernel[0]):
        iy = oy * sliding[1] - padding[1] + ky * dilation[1]
        ix = ox * sliding[0] - padding[0] + kx * dilation[0]
        if 0 <= iy < size[0] and 0 <= ix < size[1]:
            yield (oy, ox), (ky, kx), (iy, ix)


def _runs(channels: int, kernels: int, groups: int) -> Iterator[tuple[slice, slice]]:
    """The channels and the kernels of each group."""
    if channels % groups or kernels % groups:
        raise ValueError(f"groups {groups} does not divide {channels} channels and {kernels} kernels")
    c, k = channels // groups, kernels // groups
    for g in range(groups):
        yield slice(g * c, (g + 1) * c), slice(g * k, (g + 1) * k)


def conv_forward(
    x: npt.ArrayLike, w: npt.ArrayLike, b: npt.ArrayLike | None = None, *, groups: int = 1, **window: Any
) -> Array:
    """y (N, OH, OW, n_kernels) before the activation, of x (N, H, W, C)."""
    x, w = f64(x), f64(w)
    size, kernel = (x.shape[1], x.shape[2]), (w.shape[2], w.shape[1])
    y = np.zeros((len(x), *output_size(size, kernel, **window), len(w)))
    for cs, ks in _runs(x.shape[3], len(w), groups):
        for (oy, ox), (ky, kx), (iy, ix) in _taps(size, kernel, **window):
            for n in range(len(x)):
                y[n, oy, ox, ks] += w[ks, ky, kx] @ x[n, iy, ix, cs]
    return y if b is None else y + f64(b)


def conv_input_gradient(
    d: npt.ArrayLike, w: npt.ArrayLike, input_size: Pair, *, groups: int = 1, **window: Any
) -> Array:
    """err_input (N, H, W, C) of d (N, OH, OW, n_kernels): each product of the forward pass, led back."""
    d, w = f64(d), f64(w)
    kernel, channels = (w.shape[2], w.shape[1]), w.shape[3] * groups
    if d.shape[1:3] != output_size(input_size, kernel, **window):
        raise ValueError(f"input_size {input_size} does not lead to err_output {d.shape[1:3]}")
    dx = np.zeros((len(d), *input_size, channels))
    for cs, ks in _runs(channels, len(w), groups):
        for (oy, ox), (ky, kx), (iy, ix) in _taps(input_size, kernel, **window):
            for n in range(len(d)):
                dx[n, iy, ix, cs] += d[n, oy, ox, ks] @ w[ks, ky, kx]
    return dx


def conv_weight_gradient(
    x: npt.ArrayLike, d: npt.ArrayLike, kernel: Pair, *, groups: int = 1, **window: Any
) -> Array:
    """Gradient (n_kernels, ky, kx, C // groups) of the weights, summed over batch and positions."""
    x, d = f64(x), f64(d)
    size, kernels = (x.shape[1], x.shape[2]), d.shape[3]
    if d.shape[:3] != (len(x), *output_size(size, kernel, **window)):
        raise ValueError(f"err_output {d.shape} does not belong to input {x.shape}")
    dw = np.zeros((kernels, kernel[1], kernel[0], x.shape[3] // groups))
    for cs, ks in _runs(x.shape[3], kernels, groups):
        for (oy, ox), (ky, kx), (iy, ix) in _taps(size, kernel, **window):
            for n in range(len(x)):
                dw[ks, ky, kx] += np.outer(d[n, oy, ox, ks], x[n, iy, ix, cs])
    return dw


def bias_gradient(d: npt.ArrayLike) -> Array:
    """Sums (channels,) of d (N, H, W, channels) over batch and positions."""
    d = f64(d)
    db = np.zeros(d.shape[3])
    for position in np.ndindex(d.shape[:3]):
        db += d[position]
    return db


def _stamp(start: Pair, kernel: Pair, dilation: Pair, size: Pair) -> Iterator[tuple[Pair, Pair]]:
    """(ky, kx) and the cell (Y, X) it falls on when a kernel is stamped at `start` = (row, column)."""
    for ky in range(kernel[1]):
        for kx in range(kernel[0]):
            row, column = start[0] + ky * dilation[1], start[1] + kx * dilation[0]
            if row in range(size[0]) and column in range(size[1]):
                yield (ky, kx), (row, column)


def _smallest(inputs: Pair, kernel: Pair, padding: Quad, sliding: Pair, dilation: Pair) -> Pair:
    left, top, right, bottom = padding
    rows = sliding[1] * (inputs[0] - 1) + dilation[1] * (kernel[1] - 1) + 1 - top - bottom
    return rows, sliding[0] * (inputs[1] - 1) + dilation[0] * (kernel[0] - 1) + 1 - left - right


def _stamps(
    inputs: Pair,
    kernel: Pair,
    size: Pair | None,
    padding: Quad = (0, 0, 0, 0),
    sliding: Pair = (1, 1),
    dilation: Pair = (1, 1),
) -> tuple[Pair, list[tuple[Pair, Pair, Pair]]]:
    """The output size of a transposed convolution and all its (iy, ix), (ky, kx), (row, column)."""
    least = _smallest(inputs, kernel, padding, sliding, dilation)
    size = size or least
    if min(size) < 1 or not all(0 <= size[i] - least[i] < sliding[1 - i] for i in (0, 1)):
        raise ValueError(f"output_size {size} does not belong to input {inputs}, the smallest is {least}")
    found = []
    for iy in range(inputs[0]):
        for ix in range(inputs[1]):
            start = iy * sliding[1] - padding[1], ix * sliding[0] - padding[0]
            found += [((iy, ix), tap, cell) for tap, cell in _stamp(start, kernel, dilation, size)]
    return size, found


def deconv_forward(
    x: npt.ArrayLike,
    w: npt.ArrayLike,
    b: npt.ArrayLike | None = None,
    output_size: Pair | None = None,
    *,
    groups: int = 1,
    **window: Any,
) -> Array:
    """y (N, H, W, C) of x (N, h, w, n_kernels): each input value stamps its kernel, overlaps add up."""
    x, w = f64(x), f64(w)
    size, stamps = _stamps((x.shape[1], x.shape[2]), (w.shape[2], w.shape[1]), output_size, **window)
    y = np.zeros((len(x), *size, w.shape[3] * groups))
    for cs, ks in _runs(y.shape[3], len(w), groups):
        for (iy, ix), (ky, kx), (row, column) in stamps:
            for n in range(len(x)):
                y[n, row, column, cs] += x[n, iy, ix, ks] @ w[ks, ky, kx]
    return y if b is None else y + f64(b)


def deconv_backward(
    x: npt.ArrayLike, w: npt.ArrayLike, d: npt.ArrayLike, *, groups: int = 1, **window: Any
) -> tuple[Array, Array, Array]:
    """err_input like x, gradients of the weights and of the bias, of d (N, H, W, C)."""
    x, w, d = f64(x), f64(w), f64(d)
    size = (d.shape[1], d.shape[2])
    _, stamps = _stamps((x.shape[1], x.shape[2]), (w.shape[2], w.shape[1]), size, **window)
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for cs, ks in _runs(d.shape[3], len(w), groups):
        for (iy, ix), (ky, kx), (row, column) in stamps:
            for n in range(len(x)):
                dx[n, iy, ix, ks] += w[ks, ky, kx] @ d[n, row, column, cs]
                dw[ks, ky, kx] += np.outer(x[n, iy, ix, ks], d[n, row, column, cs])
    return dx, dw, d.sum(axis=(0, 1, 2))
