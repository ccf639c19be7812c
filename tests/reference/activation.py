"""The five activations and their derivative factors from the output, value by value in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tests.reference.conv import Array, f64

NAMES = ("linear", "tanh", "sigmoid", "relu", "strict_relu")


def tanh(s: float) -> float:
    """The scaled hyperbolic tangent."""
    return 1.7159 * math.tanh(0.6666 * s)


def sigmoid(s: float) -> float:
    """1 / (1 + exp(-s)), with the exponential on the side where it cannot overflow."""
    if s < 0:
        return math.exp(s) / (1 + math.exp(s))
    return 1 / (1 + math.exp(-s))


def softplus(s: float) -> float:
    """log(1 + exp(s)), which the layers call relu."""
    if math.isnan(s):
        return s
    return max(s, 0.0) + math.log1p(math.exp(-abs(s)))


def strict_relu(s: float) -> float:
    """max(s, 0); NaN stays."""
    return s if s > 0 or math.isnan(s) else 0.0


FORWARD: dict[str, Callable[[float], float]] = {
    "linear": lambda s: s,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "relu": softplus,
    "strict_relu": strict_relu,
}

# d(output)/d(sum), as a function of the output alone.
FACTOR: dict[str, Callable[[float], float]] = {
    "linear": lambda y: 1.0,
    "tanh": lambda y: y * y * -0.388484177 + 1.14381894,
    "sigmoid": lambda y: y * (1 - y),
    "relu": lambda y: -math.expm1(-y),
    "strict_relu": lambda y: math.nan if math.isnan(y) else float(y > 0),
}


def _each(function: Callable[[float], float], values: npt.ArrayLike) -> Array:
    values = f64(values)
    result = np.empty(values.shape)
    for index in np.ndindex(values.shape):
        result[index] = function(float(values[index]))
    return result


def activate(name: str, s: npt.ArrayLike) -> Array:
    """The output of activation `name` for the sums s."""
    return _each(FORWARD[name], s)


def factor(name: str, y: npt.ArrayLike) -> Array:
    """What err_output is multiplied by, for the outputs y."""
    return _each(FACTOR[name], y)


def scale(name: str, err_output: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """err_output behind the activation. strict_relu selects: a dead output gives +0.0 even for Inf."""
    d, y = f64(err_output), f64(y)
    if name != "strict_relu":
        return d * factor(name, y)
    return np.where(np.isnan(y), np.nan, np.where(y > 0, d, 0.0))
