"""The training step on NumPy, in the order and with the roundings of docs/numerics.md."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from zope.interface import implementer

from convgrad.backends.numpy.blocks import Blocks
from convgrad.interfaces import IUpdateOperations
from convgrad.update_rule import UpdateRule

Floats = NDArray[Any]

BLOCK = 2**15  # elements: a block's few temporaries should stay in a core's cache


class Buffers(NamedTuple):
    """The arrays of a step, all of the parameter's shape; None for what the step has not."""

    parameter: Floats
    gradient: Floats
    step: Floats
    accumulator: Floats | None
    accumulated: Floats | None  # becomes the accumulator
    velocity: Floats | None
    column_sums: Floats | None

    def rows(self, part: slice) -> Buffers:
        """Some of the rows of each."""
        return Buffers._make(None if array is None else array[part] for array in self)


@implementer(IUpdateOperations)
class NumpyUpdate:
    """All new values are computed first and then copied, so that a fault leaves the old ones."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    @np.errstate(all="ignore")  # Inf and NaN are values here, not faults
    def step(
        self,
        parameter: Floats,
        gradient: Floats,
        rule: UpdateRule,
        *,
        accumulator: Floats | None = None,
        velocity: Floats | None = None,
        weights_transposed: bool = False,
    ) -> None:
        """As IUpdateOperations.step."""
        axis = 1 if weights_transposed else 0
        sums = _column_sums(parameter, axis) if rule.factor_ortho and parameter.ndim > 1 else None
        step = np.empty_like(parameter)
        accumulated = None if accumulator is None else np.empty_like(parameter)
        buffers = Buffers(parameter, gradient, step, accumulator, accumulated, velocity, sums)
        self._compute(buffers, rule, parameter.shape[axis])
        if accumulator is not None:
            accumulator[...] = accumulated
        if velocity is not None:
            velocity[...] = step
        if rule.apply_gradient:
            np.add(parameter, step, out=parameter)

    def _compute(self, buffers: Buffers, rule: UpdateRule, kernels: int) -> None:
        """Fill `step` and `accumulated`, blocks of rows spread over the threads."""
        size, threads = buffers.step.size, self._backend.threads
        total = len(buffers.step)
        rows = max(1, BLOCK * total // max(1, size))
        blocks = Blocks(total, rows, 1, 1, max(1, min(threads.count, total // rows)))

        def work(worker: int) -> None:
            for part, _ in blocks.of_worker(worker):
                _regularise(buffers.rows(part), rule, kernels)
                _remember(buffers.rows(part), rule)

        threads.run([partial(work, worker) for worker in range(blocks.workers)])


def _column_sums(weights: Floats, axis: int) -> Floats:
    """The sum over kernels (`axis`), ascending from +0.0, seen as an array like `weights`."""
    kernels = np.moveaxis(weights, axis, 0)
    total = np.zeros(kernels.shape[1:], weights.dtype)
    for kernel in kernels:  # numpy.sum promises no order
        total += kernel
    return np.broadcast_to(np.expand_dims(total, axis), weights.shape)


def _regularise(buffers: Buffers, rule: UpdateRule, kernels: int) -> None:
    """step = -learning_rate * (gradient + decay and orthogonality terms).

    Nothing is left out where decay or l1_vs_l2 is 0: adding a zero can change the sign of a zero.
    """
    w, step = buffers.parameter, buffers.step
    scalar = step.dtype.type  # scalars are computed in float64 and rounded once
    np.multiply(w, scalar(1 - rule.l1_vs_l2), out=step)
    step += np.sign(w) * scalar(0.5 * rule.l1_vs_l2)
    step *= scalar(rule.weights_decay)
    np.add(buffers.gradient, step, out=step)
    if buffers.column_sums is not None:
        step += (buffers.column_sums - w) * scalar(rule.factor_ortho / kernels)
    step *= scalar(-rule.learning_rate)


def _remember(buffers: Buffers, rule: UpdateRule) -> None:
    """Accumulate into `accumulated`, then momentum."""
    step, accumulated = buffers.step, buffers.accumulated
    scalar = step.dtype.type
    if accumulated is not None:
        np.multiply(step, scalar(rule.acc_alpha), out=accumulated)
        if rule.acc_beta:  # otherwise the old content is not read: it may be anything
            accumulated += buffers.accumulator * scalar(rule.acc_beta)
        step *= scalar(rule.gd_beta)
        step += accumulated * scalar(rule.gd_alpha)
    if buffers.velocity is not None:
        step += buffers.velocity * scalar(rule.gradient_moment)
