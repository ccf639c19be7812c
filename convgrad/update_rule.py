"""The numbers of one training step of one parameter, as every backend takes them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite

import numpy as np

from convgrad.errors import BadFormatError


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """How a raw gradient becomes a change of the parameter `w`, in this order (Veles' order).

    1. regularise: `g = gradient + weights_decay * ((1 - l1_vs_l2) * w + l1_vs_l2 / 2 * sign(w))`, and
       `g += factor_ortho / n_kernels * (column sums - w)` for weights;
    2. `step = -learning_rate * g`;
    3. accumulate, when an accumulator is given: `acc = acc_alpha * step + acc_beta * acc`, then
       `step = gd_beta * step + gd_alpha * acc` (acc is not read when acc_beta is 0);
    4. momentum, when a velocity is given: `step += gradient_moment * velocity; velocity = step`;
    5. apply, when apply_gradient: `w += step`.
    """

    learning_rate: float = 0.01
    weights_decay: float = 0.0
    l1_vs_l2: float = 0.0
    gradient_moment: float = 0.0
    factor_ortho: float = 0.0
    acc_alpha: float = 0.0
    acc_beta: float = 0.0
    gd_alpha: float = 0.0
    gd_beta: float = 1.0
    apply_gradient: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "apply_gradient":
                object.__setattr__(self, field.name, finite(field.name, getattr(self, field.name)))


def finite(name: str, value: object) -> float:
    """`value`, an int, float, NumPy scalar or 0-d array, as a finite float."""
    if type(value) is float and isfinite(value):
        return value
    try:
        number = float(np.asarray(value, dtype=np.float64).reshape(()))
    except (TypeError, ValueError):
        raise BadFormatError(f"{name} must be a number, got {value!r}") from None
    if not np.isfinite(number):
        raise BadFormatError(f"{name} must be finite, got {value!r}")
    return number
