"""One step of gradient descent, weight by weight in float64.

g = gradient + weights_decay * ((1 - l1_vs_l2) * w + l1_vs_l2 / 2 * sign(w))
    + factor_ortho / N * (S[k] - w[n, k]),     S[k] = sum over the N kernels of w[:, k]
step = -learning_rate * g
accumulate:  acc = acc_alpha * step + acc_beta * acc,  step = gd_beta * step + gd_alpha * acc
momentum:    step = step + gradient_moment * velocity,  velocity = step
apply:       w = w + step
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.reference.conv import Array, f64


@dataclass
class Updated:
    """What a step leaves behind: `velocity` is the step just made, `accumulated` is as before if unused."""

    weights: Array
    velocity: Array
    accumulated: Array


def _sign(value: float) -> float:
    return float((value > 0) - (value < 0))


def _others(weights: Array, index: tuple[int, ...]) -> float:
    """Sum of the weights at the same place of all the other kernels."""
    return math.fsum(weights[n, index[1]] for n in range(len(weights)) if n != index[0])


def update(
    weights: npt.ArrayLike,
    gradient: npt.ArrayLike,
    velocity: npt.ArrayLike = 0.0,
    accumulated: npt.ArrayLike = 0.0,
    *,
    learning_rate: float = 0.01,
    weights_decay: float = 0.0,
    l1_vs_l2: float = 0.0,
    factor_ortho: float = 0.0,
    gradient_moment: float = 0.0,
    accumulate_gradient: bool = False,
    acc_alpha: float = 0.0,
    acc_beta: float = 0.0,
    gd_alpha: float = 0.0,
    gd_beta: float = 1.0,
    apply_gradient: bool = True,
) -> Updated:
    """The weights (N, K), or a bias (N,) without ortho, after one step; the arguments stay as they are."""
    w, dw = f64(weights), f64(gradient)
    v, acc = np.broadcast_to(f64(velocity), w.shape).copy(), np.broadcast_to(f64(accumulated), w.shape).copy()
    new = w.copy()
    for index in np.ndindex(w.shape):
        value = float(w[index])
        g = float(dw[index])
        g += weights_decay * ((1 - l1_vs_l2) * value + l1_vs_l2 / 2 * _sign(value))
        if factor_ortho:
            g += factor_ortho / len(w) * _others(w, index)
        step = -learning_rate * g
        if accumulate_gradient:
            acc[index] = acc_alpha * step + (acc_beta * float(acc[index]) if acc_beta else 0.0)
            step = gd_beta * step + gd_alpha * float(acc[index])
        v[index] = step + (gradient_moment * v[index] if gradient_moment else 0.0)
        if apply_gradient:
            new[index] = value + v[index]
    return Updated(new, v, acc)
