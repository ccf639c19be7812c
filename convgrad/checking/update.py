"""Cases of the training step, in which every product and every sum rounds by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from convgrad.checking.cases import Arrays, Case, content, reals
from convgrad.update_rule import UpdateRule

SHAPE = 6, 35  # (n_kernels, taps)
PLAIN = UpdateRule(learning_rate=0.1, weights_decay=0.3, l1_vs_l2=0.25)
RULES = {
    "decay": PLAIN,
    "momentum": replace(PLAIN, gradient_moment=0.9),
    "orthogonality": replace(PLAIN, factor_ortho=0.7),
    "accumulating": replace(PLAIN, acc_alpha=0.6, acc_beta=0.8, gd_alpha=0.4, gd_beta=0.7),
    "everything": UpdateRule(0.1, 0.3, 0.25, 0.9, 0.7, 0.6, 0.8, 0.4, 0.7),
    "everything but applying": UpdateRule(0.1, 0.3, 0.25, 0.9, 0.7, 0.6, 0.8, 0.4, 0.7, apply_gradient=False),
}


class State(NamedTuple):
    """Arrays of a step, all of one shape; None for what the step has not."""

    parameter: Any
    gradient: Any
    accumulator: Any
    velocity: Any


def cases() -> Iterator[Case]:
    """Of family "update"."""
    for title, rule in RULES.items():
        for dtype in (np.float32, np.float64):
            for transposed in (False, True):
                layout = ", transposed" if transposed else ""
                run = partial(_run, rule, transposed, dtype)
                yield Case("update", f"{title}{layout}, {np.dtype(dtype)}", run, dtype)


def _run(rule: UpdateRule, transposed: bool, dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    """Parameter, accumulator and velocity after the step, one after another."""
    before = _state(rule, transposed, dtype)
    right = _step(before, rule, axis=int(transposed))
    buffers = State(*(None if array is None else backend.upload(array.copy()) for array in before))
    backend.update.step(
        buffers.parameter,
        buffers.gradient,
        rule,
        accumulator=buffers.accumulator,
        velocity=buffers.velocity,
        weights_transposed=transposed,
    )
    after = [content(backend, buffer) for buffer in buffers if buffer is not None]
    return np.stack(after), np.stack([array for array in right if array is not None])


def _state(rule: UpdateRule, transposed: bool, dtype: Any) -> State:
    parameter, gradient, accumulator, velocity = reals(dtype, *[SHAPE[::-1] if transposed else SHAPE] * 4)
    parameter.flat[:3] = 0.0, -0.0, 0.0
    return State(
        parameter,
        gradient,
        accumulator if rule.acc_alpha else None,
        velocity if rule.gradient_moment else None,
    )


def _step(state: State, rule: UpdateRule, axis: int) -> State:
    """The same in NumPy, which rounds each operation; scalars are computed in float64 and rounded once."""
    w, gradient, accumulator, velocity = state
    number = w.dtype.type
    t = number(1 - rule.l1_vs_l2) * w + number(0.5 * rule.l1_vs_l2) * np.sign(w)
    g = gradient + number(rule.weights_decay) * t
    if rule.factor_ortho:
        g = g + number(rule.factor_ortho / SHAPE[0]) * (_sum(w, axis) - w)
    step = number(-rule.learning_rate) * g
    if accumulator is not None:
        accumulator = number(rule.acc_alpha) * step + number(rule.acc_beta) * accumulator
        step = number(rule.gd_beta) * step + number(rule.gd_alpha) * accumulator
    if velocity is not None:
        step = velocity = step + number(rule.gradient_moment) * velocity
    return State(w + step if rule.apply_gradient else w, gradient, accumulator, velocity)


def _sum(w: Arrays, axis: int) -> Arrays:
    """Over kernels, ascending."""
    total = np.zeros_like(w.take([0], axis))
    for kernel in range(SHAPE[0]):
        total = total + w.take([kernel], axis)
    return total
