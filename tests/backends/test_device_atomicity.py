"""A fault on the way to a step: weights, bias, velocities, accumulators and operands stay as they were.

Failed is each allocation, each upload and each launch, one at a time, both in the very first run of a unit,
when memory is made, and in a later one.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.faults import FaultyDriver, around
from tests.units.twins import conv_twins, dense_twins, host, ready

ACCUMULATE = {"accumulate_gradient": True, "acc_alpha": 0.6, "acc_beta": 0.8, "gd_alpha": 0.4, "gd_beta": 0.9}
ORTHO = {"factor_ortho": 0.1, "gradient_moment": 0.7}
NUMBERS = {
    "plain": {},
    "momentum": {"gradient_moment": 0.7},
    "accumulate": ACCUMULATE,
    "ortho": ORTHO,
    "all, transposed": {**ORTHO, **ACCUMULATE},
}
SHAPES = {  # of x, weights, bias, err_output
    "conv": ((3, 7, 6, 2), (4, 3, 2, 2), (4,), (3, 6, 6, 4)),
    "dense": ((5, 3, 2), (4, 6), (4,), (5, 4)),
}
OPERANDS = ("input", "output", "err_output")


class NotedUpdate:
    """A backend's update operations; `before` tells how many calls of its driver went before each step."""

    def __init__(self, backend):
        self._driver, self._step, self.before = backend.driver, backend.update.step, []

    def step(self, *arguments, **keywords):
        self.before.append(len(self._driver.calls))
        self._step(*arguments, **keywords)


def unit(device, family, numbers, earlier):
    """A backward unit that has run `earlier` times, on the same data each time, on a driver that can fail."""
    backend = around(device, FaultyDriver)
    rng, keywords = np.random.default_rng(5), {"weights_transposed": "transposed" in numbers}
    if family == "conv":
        keywords |= {"padding": (1, 0, 0, 1), "unpack_size": 2}
    x, weights, bias, errors = (rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[family])
    keywords["backward"] = {"learning_rate": 0.3, "weights_decay": 0.1, **NUMBERS[numbers]}
    make = {"conv": conv_twins, "dense": dense_twins}[family]
    _, gd = make(backend, x, weights, bias, activation="tanh", **keywords)
    ready(gd, backend, err_output=errors)
    for _ in range(earlier):
        gd.run()
    gd.err_output.map_write()  # as if the host had written it: there is something to upload
    backend.update = NotedUpdate(backend)
    backend.driver.arm(None)
    return gd


def contents(gd):
    """Bytes of operands and of what a step changes, by name."""
    arrays = {name: getattr(gd, name) for name in (*OPERANDS, "weights", "bias")} | gd.tensors()
    return {name: host(array).tobytes() for name, array in arrays.items()}


def undisturbed(*case):
    """contents before and after a run, the calls of it, and how many went before each of the two steps."""
    gd = unit(*case)
    before = contents(gd)
    gd.run()
    calls = list(gd.backend.driver.calls)
    return before, contents(gd), calls, gd.backend.update.before


def failed_at(number, *case):
    """A unit whose run has failed at that call."""
    gd = unit(*case)
    gd.backend.driver.arm(number)
    with pytest.raises(RuntimeError, match="injected"):
        gd.run()
    gd.backend.driver.arm(None)
    return gd


@pytest.mark.parametrize("earlier", [0, 1])
@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("family", SHAPES)
def test_a_fault_before_the_step_changes_nothing(device_backend, family, numbers, earlier):
    """Up to the last launch of the weights' step, which is the one that changes them."""
    case = device_backend, family, numbers, earlier
    before, after, calls, (_, second) = undisturbed(*case)
    assert {"upload", "launch"} <= set(calls[:second])
    assert ("allocate" in calls[:second]) == (earlier == 0)
    for number in range(1, second + 1):
        gd = failed_at(number, *case)
        assert contents(gd) == before, number
        gd.run()
        assert contents(gd) == after, number


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("family", SHAPES)
def test_a_fault_in_the_bias_step_leaves_the_bias(device_backend, family, numbers):
    """The weights' step is done by then, as a whole."""
    case = device_backend, family, numbers, 1
    before, after, calls, (_, second) = undisturbed(*case)
    known = {name: (before if "bias" in name else after)[name] for name in before}
    assert len(calls) > second
    for number in range(second + 1, len(calls) + 1):
        assert contents(failed_at(number, *case)) == known, number
