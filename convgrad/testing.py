"""Checks for people who add operations: closeness, gradients by differences, data without ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError

Floats = NDArray[Any]


def assert_close(
    actual: Any, expected: Any, *, length: int = 1, rtol: float | None = None, atol: float | None = None
) -> None:
    """Fail unless `|actual - expected| <= atol + rtol * |expected|` everywhere; shapes must be equal.

    NaN fails, on either side; equal infinities pass. `actual` may be a device array. `length` is the number
    of products that each value sums: defaults are `rtol = 16 * eps * sqrt(length)`, with eps of the dtype of
    `actual`, and `atol = rtol * largest |expected|`, since a sum is no more exact than its largest terms.
    """
    actual, expected = host(actual), np.asarray(expected)
    _require(actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}")
    if not actual.size:
        return
    rtol = 16 * float(np.finfo(actual.dtype).eps) * math.sqrt(length) if rtol is None else rtol
    scale = np.abs(expected, where=np.isfinite(expected), out=np.zeros(expected.shape))
    bound = (rtol * float(scale.max()) if atol is None else atol) + rtol * scale
    with np.errstate(invalid="ignore"):  # inf - inf
        error = np.abs(actual.astype(np.float64) - expected)
    bad = ~((actual == expected) | (error <= bound))
    if bad.any():
        raise AssertionError(_worst(actual, expected, error, bound, bad))


def host(array: Any) -> Floats:
    """An ndarray with the content of an ndarray or a device array."""
    return np.asarray(array.get() if hasattr(array, "get") else array)


def _worst(actual: Floats, expected: Floats, error: Floats, bound: Floats, bad: Floats) -> str:
    excess = np.where(bad, np.nan_to_num(error / np.maximum(bound, 1e-300), nan=np.inf), -1)
    place = tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
    return (
        f"{int(bad.sum())} of {bad.size} values are off; the worst at {place}: {actual[place]!r}, "
        f"expected {expected[place]!r}, allowed difference {bound[place]:.3g}"
    )


def check_vjp(
    function: Callable[..., Any],
    arrays: Sequence[Floats],
    err_output: Floats,
    gradients: Sequence[Floats | None],
    *,
    full: bool = False,
    eps: float = 1e-6,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    seed: int = 0,
) -> None:
    """Fail unless `gradients` are those of sum(err_output * function(*arrays)), by central differences.

    float64 only, as differences of float32 prove nothing. By default each gradient is tried along one random
    direction; `full` tries every element. A gradient of None is passed over.
    """
    random = np.random.Generator(np.random.Philox(seed))
    for position, (array, gradient) in enumerate(zip(arrays, gradients, strict=True)):
        if array.dtype != np.float64:
            raise BadFormatError(f"arrays[{position}] must be float64, got {array.dtype}")
        if gradient is None:
            continue
        wrong = f"gradient {position} has shape {gradient.shape}, its array {array.shape}"
        _require(gradient.shape == array.shape, wrong)
        slope = _slope_along(function, arrays, position, err_output, eps)
        for direction in _directions(array.shape, full, random):
            found, wanted = float((gradient * direction).sum()), slope(direction)
            wrong = f"gradient {position}: {found!r} where differences give {wanted!r}"
            _require(abs(found - wanted) <= atol + rtol * abs(wanted), wrong)


def _require(right: bool, message: str) -> None:
    """An assert that `python -O` keeps."""
    if not right:
        raise AssertionError(message)


def _slope_along(
    function: Callable[..., Any], arrays: Sequence[Floats], position: int, err_output: Floats, eps: float
) -> Callable[[Floats], float]:
    def value(changed: Floats) -> float:
        return float(
            (err_output * host(function(*arrays[:position], changed, *arrays[position + 1 :]))).sum()
        )

    def slope(direction: Floats) -> float:
        array = arrays[position]
        return (value(array + eps * direction) - value(array - eps * direction)) / (2 * eps)

    return slope


def _directions(shape: tuple[int, ...], full: bool, random: np.random.Generator) -> list[Floats]:
    if not full:
        return [random.standard_normal(shape)]
    return [unit.reshape(shape) for unit in np.eye(math.prod(shape))]


def distinct_values(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float64]:
    """Whole numbers of random sign and order, none 0 and no two of one magnitude: every maximum is clear.

    They are exact in float32 up to 2**24 elements.
    """
    random = np.random.Generator(np.random.Philox(seed))
    values = 1.0 + random.permutation(math.prod(shape))
    signs = random.choice((-1.0, 1.0), values.shape)
    return np.reshape(values * signs, shape)
