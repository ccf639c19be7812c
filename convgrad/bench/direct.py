"""The results that a layer must give, by an independent path: tap by tap, a shifted view times one matrix.

The operands are small whole numbers. Every sum of their products stays below 2**24, so that float32 holds it
exactly and results can be compared cell by cell for equality, whatever the order of summation.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from convgrad.bench.layers import Layer, PoolLayer
from convgrad.errors import ConvgradError
from convgrad.prng import Random

Floats = NDArray[np.float32]
LARGEST = 3  # magnitude of the operands
PERIOD = 1_000_003  # a prime: no row, image or channel of a layer is like another


class WrongResultError(ConvgradError, RuntimeError):
    """A result is not what the independent path gives; it is not timed."""


def whole_numbers(shape: tuple[int, ...], stream: int) -> Floats:
    """Random whole numbers from -LARGEST to LARGEST, as float32; they repeat after PERIOD."""
    numbers = Random(1, stream=stream).uniform(-LARGEST, LARGEST + 1, min(prod(shape), PERIOD))
    return np.resize(np.floor(numbers).astype(np.float32), shape)


def operands(layer: Layer) -> dict[str, Floats]:
    """x, weights, bias and err_output."""
    shapes = layer.operand_shapes.items()
    return {name: whole_numbers(shape, stream) for stream, (name, shape) in enumerate(shapes)}


def conv_results(layer: Layer, given: dict[str, Floats]) -> dict[str, Floats]:
    """What `layer` gives for these operands: output, err_input, weights and bias. There are no groups."""
    x, kernels, errors = given["x"], given["weights"], given["err_output"]
    padded = _pad(x, layer)
    err_padded, gradient = np.zeros_like(padded), np.empty_like(kernels)
    output = np.zeros_like(errors) + given["bias"]
    with threadpool_limits(1, "blas"):  # on a busy machine its threads mostly wait for each other
        for ky, kx, there in taps(layer, *errors.shape[1:3]):
            seen, kernel = padded[there], kernels[:, ky, kx]
            output += (_rows(seen) @ kernel.T).reshape(output.shape)
            err_padded[there] += (_rows(errors) @ kernel).reshape(seen.shape)
            gradient[:, ky, kx] = _rows(errors).T @ _rows(seen)
    bias = errors.sum(axis=(0, 1, 2))
    return {"output": output, "err_input": _crop(err_padded, layer), "weights": gradient, "bias": bias}


def pool_results(layer: PoolLayer, x: Floats, errors: Floats) -> dict[str, Floats]:
    """What `layer` gives: output and err_input. An average must have no padding."""
    return (_average if layer.kind == "average" else _maximum)(layer, x, errors)


def _maximum(layer: PoolLayer, x: Floats, errors: Floats) -> dict[str, Floats]:
    padded = _pad(x, layer, -np.inf)
    err_padded, output = np.zeros_like(padded), np.full_like(errors, -np.inf)
    for _, _, there in taps(layer, *errors.shape[1:3]):
        np.maximum(output, padded[there], out=output)
    without_winner = np.ones(errors.shape, bool)
    for _, _, there in taps(layer, *errors.shape[1:3]):
        wins = without_winner & (padded[there] == output)  # the first in raster order
        err_padded[there] += errors * wins
        without_winner &= ~wins
    return {"output": output, "err_input": _crop(err_padded, layer)}


def _average(layer: PoolLayer, x: Floats, errors: Floats) -> dict[str, Floats]:
    total, err_input = np.zeros_like(errors), np.zeros_like(x)
    for _, _, there in taps(layer, *errors.shape[1:3]):
        total += x[there]
        err_input[there] += errors
    area = np.float32(layer.geometry.kx * layer.geometry.ky)
    return {"output": total / area, "err_input": err_input / area}


def taps(layer: Layer | PoolLayer, rows: int, columns: int) -> Iterator[tuple[int, int, Any]]:
    """(ky, kx, index): the cells (N, rows, columns, C) of the padded image that a tap of the kernel meets."""
    g = layer.geometry
    assert g.sliding is not None
    for ky, kx in np.ndindex(g.ky, g.kx):
        y = slice(ky, ky + (rows - 1) * g.sliding[1] + 1, g.sliding[1])
        x = slice(kx, kx + (columns - 1) * g.sliding[0] + 1, g.sliding[0])
        yield ky, kx, (slice(None), y, x)


def check(what: str, got: Any, want: dict[str, Floats], tolerance: float = 0.0) -> None:
    """Raise WrongResultError unless got[name] is want[name] in every cell, for all names of `got`.

    tolerance: largest difference allowed, as a part of the largest value.
    """
    for name, result in got.items():
        if result.shape != want[name].shape:
            raise WrongResultError(f"{what}: {name} has shape {result.shape}, wanted {want[name].shape}")
        limit = tolerance * float(np.abs(want[name]).max())
        wrong = ~(np.abs(result - want[name]) <= limit)  # so that NaN is wrong
        if wrong.any():
            cell = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise WrongResultError(
                f"{what}: {name} is wrong in {wrong.sum()} of {wrong.size} cells, not timed; "
                f"{cell} must be {want[name][cell]}, got {result[cell]}"
            )


def _pad(x: Floats, layer: Layer | PoolLayer, value: float = 0.0) -> Floats:
    left, top, right, bottom = layer.geometry.padding
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)


def _crop(padded: Floats, layer: Layer | PoolLayer) -> Floats:
    left, top, _, _ = layer.geometry.padding
    return padded[:, top : top + layer.geometry.height, left : left + layer.geometry.width]


def _rows(block: Floats) -> Floats:
    return block.reshape(-1, block.shape[-1])
