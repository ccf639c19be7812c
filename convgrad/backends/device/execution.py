"""Runs plans on a device."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from convgrad.backends.device.buffers import Buffer, Scratch
from convgrad.backends.device.driver import Driver, OutOfDeviceMemory
from convgrad.backends.device.plan import Argument, Plan
from convgrad.backends.device.programs import Programs

Planner = Callable[[int], Plan]  # the plan of an operation that uses at most so many bytes of scratch, if it can


class Timing(list[tuple[str, float]]):
    """(kernel, seconds) of each launch."""


class Executor:
    """One device's queue: a thread that runs a plan has it, with its scratch memory, for itself until it is enqueued."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.programs = Programs(driver)
        self._scratch = Scratch(driver)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._events: list[tuple[str, Any]] | None = None

    def run(self, planner: Planner, budget: int, **buffers: Buffer | None) -> None:
        """Enqueue the plan for `budget` bytes of scratch; where the device has less, for half of it, and so on."""
        self.check_process()
        memory = {role: None if buffer is None else buffer.memory for role, buffer in buffers.items()}
        with self._lock:
            plan, parts = self._fitting(planner, budget)
            memory.update(parts)
            for launch in plan.launches:
                kernel = self.programs.kernel(launch.kernel)
                arguments = [_resolved(argument, memory) for argument in launch.arguments]
                event = self.driver.launch(kernel, launch.groups, launch.items, arguments)
                if self._events is not None:
                    self._events.append((launch.kernel.name, event))

    def _fitting(self, planner: Planner, budget: int) -> tuple[Plan, dict[str, Any]]:
        plan = planner(budget)
        while True:
            try:
                return plan, self._scratch.parts(plan.scratch)
            except OutOfDeviceMemory as error:
                budget = min(budget, plan.scratch_bytes) // 2
                smaller = planner(budget)
                if smaller.scratch_bytes >= plan.scratch_bytes:
                    raise OutOfDeviceMemory(plan.scratch_bytes, self.driver.profile.memory) from error
                plan = smaller

    def check_process(self) -> None:
        """Refuse a process forked after the device was opened: runtimes hang there."""
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self.driver.name} was opened before this process was forked, and cannot be used in it: open "
                "backends in the child first, or start it by multiprocessing's 'spawn'"
            )

    @contextmanager
    def timing(self) -> Iterator[Timing]:
        """Collect the time on the device of each launch within; filled in at the end."""
        timing, events = Timing(), []
        self._events = events
        try:
            yield timing
        finally:
            self._events = None
            timing.extend((name, self.driver.seconds(event)) for name, event in events)


def _resolved(argument: Argument, memory: Mapping[str, Any]) -> Any:
    return memory[argument] if isinstance(argument, str) else argument


def no_planner(plan: Plan) -> Planner:
    """The planner of an operation whose plan does not depend on the budget."""
    return lambda budget: plan


def element(dtype: np.dtype[Any], *values: float) -> Sequence[np.generic]:
    """Arguments for kernel parameters of type REAL, each rounded once."""
    return tuple(dtype.type(value) for value in values)
