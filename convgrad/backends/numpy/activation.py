"""The activations of layers with weights, and their derivative factors as functions of the output.

Formulas as in docs/numerics.md. Python floats beside an array take its dtype: each constant is rounded once.
Inf and NaN are values here, not faults, so nothing warns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]


def forward(kind: str, s: Floats, out: Floats) -> None:
    """out = activation(s), both of one shape and dtype; `out` may be `s` itself."""
    with np.errstate(all="ignore"):
        _FORWARD[kind](s, out)


def scale(kind: str, err_output: Floats, output: Floats, out: Floats) -> None:
    """out = err_output * factor(output); `out` overlaps neither (for "linear" it may be err_output)."""
    with np.errstate(all="ignore"):
        _SCALE[kind](err_output, output, out)


def _linear(s: Floats, out: Floats) -> None:
    if out is not s:
        np.copyto(out, s)


def _tanh(s: Floats, out: Floats) -> None:
    np.multiply(s, 0.6666, out=out)
    np.tanh(out, out=out)
    np.multiply(out, 1.7159, out=out)


def _sigmoid(s: Floats, out: Floats) -> None:
    negative = s < 0
    e = _exp_of_minus_magnitude(s)  # at most 1, so that neither tail overflows
    np.add(e, 1.0, out=out)
    np.divide(1.0, out, out=out)
    np.multiply(out, e, out=out, where=negative)


def _softplus(s: Floats, out: Floats) -> None:
    tail = _exp_of_minus_magnitude(s)
    np.log1p(tail, out=tail)
    np.maximum(s, 0.0, out=out)
    np.add(out, tail, out=out)


def _strict_relu(s: Floats, out: Floats) -> None:
    np.maximum(s, 0.0, out=out)
    np.add(out, 0.0, out=out)  # maximum may keep -0.0


def _exp_of_minus_magnitude(s: Floats) -> Floats:
    e = np.abs(s)
    np.negative(e, out=e)
    np.exp(e, out=e)
    return e


def _scale_linear(err_output: Floats, output: Floats, out: Floats) -> None:
    _linear(err_output, out)


def _scale_tanh(err_output: Floats, output: Floats, out: Floats) -> None:
    np.multiply(output, output, out=out)
    np.multiply(out, -0.388484177, out=out)
    np.add(out, 1.14381894, out=out)
    np.multiply(err_output, out, out=out)


def _scale_sigmoid(err_output: Floats, output: Floats, out: Floats) -> None:
    np.subtract(1.0, output, out=out)
    np.multiply(output, out, out=out)
    np.multiply(err_output, out, out=out)


def _scale_softplus(err_output: Floats, output: Floats, out: Floats) -> None:
    np.negative(output, out=out)
    np.expm1(out, out=out)  # 1 - exp(-y) would cancel for small y
    np.negative(out, out=out)
    np.multiply(err_output, out, out=out)


def _scale_strict_relu(err_output: Floats, output: Floats, out: Floats) -> None:
    # A select: an infinite error of a dead output is 0, not NaN.
    np.copyto(out, err_output)
    np.copyto(out, 0.0, where=output <= 0)
    np.copyto(out, output, where=np.isnan(output))


_FORWARD: dict[str, Callable[[Floats, Floats], None]] = {
    "linear": _linear,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "relu": _softplus,
    "strict_relu": _strict_relu,
}
_SCALE: dict[str, Callable[[Floats, Floats, Floats], None]] = {
    "linear": _scale_linear,
    "tanh": _scale_tanh,
    "sigmoid": _scale_sigmoid,
    "relu": _scale_softplus,
    "strict_relu": _scale_strict_relu,
}
