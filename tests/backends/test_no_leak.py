"""Training on and on takes no more memory, neither the process nor the device."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest

from convgrad import functional
from convgrad.training.loader import ArrayLoader
from tests.backends.faults import CountingDriver, around
from tests.training.nets_and_data import samples, workflow

WARM_UP = 100
SLACK = 1 << 20  # bytes that the process may grow by for reasons of its own: an arena, a page here and there


def resident():
    """Bytes of the process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def trained(device, steps):
    """(live memory, bytes of the process) after the warm-up and after so many steps more."""
    backend = around(device, CountingDriver)
    served = ArrayLoader(samples(1, 8), minibatch_size=4)
    made, found = workflow(backend, served=served), []
    minibatches = cycle(served.minibatches(0))
    for count in (WARM_UP, steps):
        for minibatch in islice(minibatches, count):
            made.step(minibatch)
        backend.synchronize()
        gc.collect()
        found.append((backend.driver.live, resident()))
    assert made.iteration == WARM_UP + steps
    return found


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how large the process is stands in /proc")
@pytest.mark.parametrize("steps", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_steps_leave_nothing_behind(device_backend, steps):
    (live, before), (live_after, after) = trained(device_backend, steps)
    assert live[0] > 10
    assert live_after == live
    assert after - before <= SLACK


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how large the process is stands in /proc")
def test_threads_that_end_leave_nothing_behind(device_backend):
    x, weights = (device_backend.array(np.ones(shape, np.float32)) for shape in ((2, 5, 4, 3), (2, 3, 2, 3)))

    def grown(threads):
        for _ in range(threads):
            with ThreadPoolExecutor(1) as pool:
                pool.submit(functional.conv_forward, x, weights).result()
        gc.collect()
        return resident()

    before = grown(50)
    assert grown(300) - before <= SLACK  # 20 KB for each would be six times that
