"""Activations and their factors under fixed numerics, by the functions of convgrad/numerics/elementary.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.backends.numpy import activation as fast
from convgrad.numerics import elementary

Floats = NDArray[Any]


def forward(kind: str, s: Floats) -> Floats:
    """activation(s)."""
    with np.errstate(all="ignore"):  # Inf and NaN are values here
        if kind == "tanh":
            return np.float32(1.7159) * elementary.tanh(np.float32(0.6666) * s)
        if kind == "sigmoid":
            return elementary.sigmoid(s)
        if kind == "relu":
            return elementary.softplus(s)
        return _by(fast.forward, kind, s)


def scaled(kind: str, err_output: Floats, output: Floats | None) -> Floats:
    """err_output times the factor of the activation whose result is `output`."""
    if kind == "linear":
        return err_output
    assert output is not None
    with np.errstate(all="ignore"):
        if kind == "relu":
            return err_output * -elementary.expm1(-output)
        return _by(fast.scale, kind, err_output, output)


def _by(function: Any, kind: str, *arrays: Any) -> Floats:
    out = np.empty(arrays[0].shape, np.float32)
    function(kind, *arrays, out)
    return out
