"""The training step on a device."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from zope.interface import implementer

from convgrad.backends.device.buffers import Buffer
from convgrad.backends.device.driver import Profile, scalars
from convgrad.backends.device.elementwise import Dtype, kernel, lanes, launch, stretch
from convgrad.backends.device.execution import no_planner
from convgrad.backends.device.plan import Launch, Plan
from convgrad.interfaces import IUpdateOperations
from convgrad.update_rule import UpdateRule


@implementer(IUpdateOperations)
class DeviceUpdate:
    """One launch changes parameter, accumulator and velocity together, and it is the last of the step."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def step(
        self,
        parameter: Buffer,
        gradient: Buffer,
        rule: UpdateRule,
        *,
        accumulator: Buffer | None = None,
        velocity: Buffer | None = None,
        weights_transposed: bool = False,
    ) -> None:
        """As IUpdateOperations.step."""
        profile = self._backend.driver.profile
        plan = step_plan(parameter.shape, parameter.dtype, rule, weights_transposed, profile)
        buffers = {"accumulator": accumulator, "velocity": velocity, "sums": None}
        planner, budget = no_planner(plan), self._backend.workspace
        self._backend.executor.run(planner, budget, parameter=parameter, gradient=gradient, **buffers)


def step_plan(
    shape: tuple[int, ...], dtype: Dtype, rule: UpdateRule, transposed: bool, profile: Profile
) -> Plan:
    """Roles: parameter, gradient, accumulator and velocity (these may be null), and sums.

    sums is scratch memory where the step has an orthogonality term, and otherwise null.
    """
    if not math.prod(shape):
        return Plan()
    layout = _layout(shape, dtype, bool(rule.factor_ortho) and len(shape) > 1, transposed, profile)
    factors = map(dtype.type, _factors(rule, shape[-1 if transposed else 0]))
    *before, update = layout.launches
    arguments = *update.arguments, *factors, *scalars(rule.apply_gradient)
    return Plan((*before, update._replace(arguments=arguments)), layout.scratch)


@lru_cache(maxsize=1024)
def _layout(shape: tuple[int, ...], dtype: Dtype, ortho: bool, transposed: bool, profile: Profile) -> Plan:
    """All of the plan but the numbers of the rule, which change from step to step."""
    size = math.prod(shape)
    if not ortho:
        return Plan((_update(1, size, False, dtype, profile),))
    kernels = shape[-1 if transposed else 0]
    taps = size // kernels
    rows, columns = (taps, kernels) if transposed else (kernels, taps)
    sums = _column_sums(kernels, taps, transposed, dtype, profile)
    update = _update(rows, columns, transposed, dtype, profile)
    return Plan((sums, update), (("sums", taps * dtype.itemsize),))


def _column_sums(kernels: int, taps: int, transposed: bool, dtype: Dtype, profile: Profile) -> Launch:
    vector = lanes(profile)
    each = max(1, stretch(profile) // (kernels * vector)) if vector > 1 else stretch(profile)
    strides = (1, kernels) if transposed else (taps, 1)
    numbers: tuple[np.generic, ...] = np.int64(taps), *scalars(each, kernels), *map(np.int64, strides)
    sums = kernel("update.cl", "column_sums", dtype, profile, f"LANES={vector}")
    return launch(sums, profile, -(-taps // (each * vector)), "parameter", "sums", *numbers)


def _update(rows: int, columns: int, sum_of_row: bool, dtype: Dtype, profile: Profile) -> Launch:
    vector = lanes(profile)
    each = stretch(profile) // vector
    stretches = -(-columns // (each * vector))
    roles = "parameter", "gradient", "accumulator", "velocity", "sums"
    numbers: tuple[np.generic, ...] = np.int64(columns), *scalars(each, stretches, sum_of_row)
    update = kernel("update.cl", "update", dtype, profile, f"LANES={vector}")
    return launch(update, profile, rows * stretches, *roles, *numbers)


def _factors(rule: UpdateRule, kernels: int) -> tuple[float, ...]:
    """In float64, to be rounded once."""
    regularisation = 1 - rule.l1_vs_l2, 0.5 * rule.l1_vs_l2, rule.weights_decay, rule.factor_ortho / kernels
    accumulation = rule.acc_alpha, rule.acc_beta, rule.gd_alpha, rule.gd_beta
    return *regularisation, -rule.learning_rate, *accumulation, rule.gradient_moment
