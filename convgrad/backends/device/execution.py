"""Runs plans on a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from convgrad.backends.device.buffers import Buffer, Scratch
from convgrad.backends.device.driver import Driver, OutOfDeviceMemory
from convgrad.backends.device.plan import Launch, Plan
from convgrad.backends.device.process import Process
from convgrad.backends.device.programs import Programs
from convgrad.errors import ConvgradError

_Events = list[tuple[str, Any]]  # (kernel, event)
Planner = Callable[[int], Plan]  # the plan of an operation for so many bytes of scratch at most, if it can


class Timing(list[tuple[str, float]]):
    """(kernel, seconds) of each launch."""


class Executor:
    """One device's queue and scratch memory; a thread has both for itself until its plan is enqueued."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.programs = Programs(driver)
        self._scratch = Scratch(driver)
        self._lock = threading.Lock()
        self._process = Process(driver.name)
        self._events: _Events | None = None

    def run(self, planner: Planner, budget: int, **buffers: Buffer | None) -> None:
        """Enqueue the plan for `budget` bytes of scratch; where they are not there, for half, and so on."""
        self.check_process()
        memory = {role: None if buffer is None else buffer.memory for role, buffer in buffers.items()}
        with self._lock:
            plan, parts = self._fitting(planner, budget)
            memory.update(parts)
            for launch in plan.launches:
                self._launch(launch, memory)

    def _launch(self, launch: Launch, memory: Mapping[str, Any]) -> None:
        groups, most = launch.groups, self.driver.profile.groups
        if groups[0] > most[0] or groups[1] > most[1] or groups[2] > most[2]:
            raise ConvgradError(f"{launch.kernel.name} has {groups} groups; {self.driver.name} takes {most}")
        if 0 in groups:
            return
        kernel = self.programs.kernel(launch.kernel)
        arguments = [memory[given] if type(given) is str else given for given in launch.arguments]
        event = self.driver.launch(kernel, groups, launch.items, arguments)
        events = self._events
        if events is not None:
            events.append((launch.kernel.name, event))

    def _fitting(self, planner: Planner, budget: int) -> tuple[Plan, dict[str, Any]]:
        for plan in _ever_smaller(planner, budget):
            try:
                return plan, self._scratch.parts(plan.scratch)
            except OutOfDeviceMemory as error:
                refusal = error
        raise OutOfDeviceMemory(plan.scratch_bytes, self.driver.profile.memory) from refusal

    def check_process(self) -> None:
        """Raise RuntimeError in a process that was forked after the device was opened."""
        self._process.check()

    @contextmanager
    def timing(self) -> Iterator[Timing]:
        """Collect the time on the device of each launch within, of all threads; filled in at the end."""
        timing, outer = Timing(), self._events
        events: _Events = []
        self._events = events
        try:
            yield timing
        finally:
            self._events = outer
        timing.extend((name, self.driver.seconds(event)) for name, event in events)
        if outer is not None:
            outer.extend(events)


def _ever_smaller(planner: Planner, budget: int) -> Iterator[Plan]:
    """The plan for `budget`; then, halving it, those with less scratch memory than all before."""
    plan = planner(budget)
    yield plan
    while budget:
        budget = min(budget, plan.scratch_bytes) // 2
        smaller = planner(budget)
        if smaller.scratch_bytes < plan.scratch_bytes:
            plan = smaller
            yield plan


def no_planner(plan: Plan) -> Planner:
    """The planner of an operation whose plan does not depend on the budget."""
    return lambda budget: plan
