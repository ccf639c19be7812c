"""Cases of activations and their factors, behind a convolution that passes each number through."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from convgrad.checking.cases import Arrays, Case, content, reals, unwritten
from convgrad.geometry import ConvGeometry
from convgrad.interfaces import ConvGradients

ULPS = 4.0  # elementary functions are within 2; products before and after them round too
MAGNITUDES = (
    *(0.0, 1e-45, 1e-40, 1e-30, 1e-10, 1e-5, 0.01, 0.1, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0, 5.0, 9.0, 10.0, 15.0),
    *(16.0, 17.0, 20.0, 50.0, 80.0, 87.0, 88.5, 89.0, 100.0, 103.5, 110.0, 1e4, 3e38),
)
SUMS = (*MAGNITUDES, *(-m for m in MAGNITUDES), math.inf, -math.inf, math.nan)


def _sigmoid(s: float) -> float:
    e = math.exp(-abs(s))
    return (1.0 if s >= 0 else e) / (1.0 + e)


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "tanh": lambda s: 1.7159 * math.tanh(0.6666 * s),
    "sigmoid": _sigmoid,
    "relu": lambda s: max(s, 0.0) + math.log1p(math.exp(-abs(s))),
    "strict_relu": lambda s: 0.0 if s <= 0 else s,
}
# The gradient behind an output y; products and sums of arrays round one by one.
GRADIENTS: dict[str, Callable[[Arrays, Arrays], Arrays]] = {
    "tanh": lambda d, y: d * (y * y * y.dtype.type(-0.388484177) + y.dtype.type(1.14381894)),
    "sigmoid": lambda d, y: d * (y * (1 - y)),
    "relu": lambda d, y: d * np.array([-math.expm1(-v) for v in y.flat], y.dtype).reshape(y.shape),
    "strict_relu": lambda d, y: np.where(y > 0, d, np.zeros_like(d)),
}


def cases() -> Iterator[Case]:
    """Of family "activation"."""
    for dtype in (np.float32, np.float64):
        for name in ACTIVATIONS:
            forward, backward = partial(_forward, name, dtype), partial(_backward, name, dtype)
            yield Case("activation", f"{name}, {np.dtype(dtype)}", forward, dtype, ulps=ULPS)
            ulps = ULPS if name == "relu" else 0.0
            yield Case("activation", f"gradient of {name}, {np.dtype(dtype)}", backward, dtype, ulps=ulps)


def _sums(dtype: Any) -> Arrays:
    return np.array(SUMS, dtype).reshape(1, 1, -1, 1)


def _activated(name: str, sums: Arrays) -> Arrays:
    return np.array([ACTIVATIONS[name](float(s)) for s in sums.flat], sums.dtype).reshape(sums.shape)


def _forward(name: str, dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    sums = _sums(dtype)
    out = unwritten(backend, sums.shape, dtype)
    one = backend.upload(np.ones((1, 1), dtype))
    backend.conv.forward(backend.upload(sums), one, None, out, _geometry(sums), activation=name)
    return content(backend, out), _activated(name, sums)


def _backward(name: str, dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    output = _activated(name, _sums(dtype)[:, :, :-3])  # finite ones
    [err_output] = reals(dtype, output.shape)
    out = unwritten(backend, output.shape, dtype)
    one = backend.upload(np.ones((1, 1), dtype))
    d, y = backend.upload(err_output), backend.upload(output)
    backend.conv.backward(None, one, d, y, ConvGradients(err_input=out), _geometry(output), activation=name)
    right = GRADIENTS[name](err_output, output)
    return content(backend, out), right + 0  # a sum from +0.0 has no negative zero


def _geometry(array: Arrays) -> ConvGeometry:
    return ConvGeometry(1, array.shape[2], 1, 1, 1, 1)
