"""The clock: calls in turns, their spread, and whether the machine had its cores to itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

PAUSE = (
    0.15  # seconds before a sample: threads of the call before it spin in search of work, OpenBLAS' for 0.1
)
LEAST_SAMPLE = 0.02  # seconds of a sample at least: shorter calls are repeated
LEAST_GAIN = 1.7  # two threads on two free cores give about 1.9, on one core 1.0


class Spread(NamedTuple):
    """Median, least and greatest of the samples."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """The spread of at least one sample."""
        return cls(median(samples), min(samples), max(samples))


def interleaved(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds per call, `rounds` samples of each, taken in turns: A B C A B C ... after a warm-up."""
    for call in calls.values():
        call()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(PAUSE)
            samples[name].append(_sample(call))
    return samples


def _sample(call: Callable[[], object]) -> float:
    """Mean of as many calls as fill LEAST_SAMPLE."""
    total, count = 0.0, 0
    while total < LEAST_SAMPLE:
        total += seconds(call)
        count += 1
    return total / count


def seconds(call: Callable[[], object]) -> float:
    """Time of one call; its result is freed after the clock has stopped."""
    start = time.perf_counter()
    kept = call()
    stop = time.perf_counter()
    del kept
    return stop - start


def two_thread_gain(threads: int, size: int = 2048, rounds: int = 5) -> float | None:
    """How much faster BLAS multiplies two size x size matrices with two threads than with one.

    A product must last many of the scheduler's slices: short ones may miss a neighbour that takes turns on a
    core. None where it cannot be said: one thread only, or a BLAS whose threads cannot be set.
    """
    controller = ThreadpoolController().select(user_api="blas")
    if threads < 2 or not controller.lib_controllers:
        return None
    a, out = np.ones((size, size), np.float32), np.empty((size, size), np.float32)

    def multiply(count: int) -> Any:
        with controller.limit(limits=count):
            return np.matmul(a, a, out=out)

    samples = interleaved({"one": lambda: multiply(1), "two": lambda: multiply(2)}, rounds)
    return median(samples["one"]) / median(samples["two"])


def is_void(gains: Sequence[float | None]) -> bool:
    """Whether a gain near the measurement shows that two threads did not have two cores."""
    return any(gain is not None and not gain >= LEAST_GAIN for gain in gains)
