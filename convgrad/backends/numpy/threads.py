"""Worker threads.

NumPy's copies and matrix products release the interpreter lock, so plain threads keep all cores busy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np

from convgrad.backends.numpy.blas import one_thread_blas
from convgrad.backends.settings import number_from_environment

MOST_THREADS = 4096  # more is a slip of the keyboard


def thread_count() -> int:
    """CONVGRAD_THREADS, else the number of cores this process may use."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return number_from_environment("CONVGRAD_THREADS", here, MOST_THREADS)


class Threads:
    """A pool of worker threads that outlives single calls; a forked child starts its own."""

    def __init__(self, count: int | None = None) -> None:
        self.count = thread_count() if count is None else count
        self._pool = _Pool(self.count)

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run all tasks, the first on the calling thread; wait for all, then raise the first error.

        Inf and NaN are values here, not faults: no task warns of them.
        """
        tasks = [partial(_alone, task) for task in tasks]
        with one_thread_blas:
            if len(tasks) > 1 and self.count > 1:
                self._run_together(tasks)
            else:
                for task in tasks:
                    task()

    def _run_together(self, tasks: Sequence[Callable[[], None]]) -> None:
        if self._pool.pid != os.getpid():  # threads do not survive a fork
            self._pool = _Pool(self.count)
        others: list[Future[None]] = [self._pool.submit(task) for task in tasks[1:]]
        try:
            tasks[0]()
        finally:
            errors = [other.exception() for other in others]
        for error in errors:
            if error is not None:
                raise error


class _Pool(ThreadPoolExecutor):
    """Starts its threads at first use; the calling thread is the one more that `count` has."""

    def __init__(self, count: int) -> None:
        super().__init__(max(1, count - 1), thread_name_prefix="convgrad")
        self.pid = os.getpid()


def _alone(task: Callable[[], None]) -> None:
    with np.errstate(all="ignore"), one_thread_blas.in_this_thread():  # both are each thread's own
        task()
