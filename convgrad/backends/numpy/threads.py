"""Worker threads, and BLAS held to one thread while they work.

NumPy's copies and matrix products release the interpreter lock, so plain threads keep all cores busy.
A BLAS that started threads of its own inside each worker would ask for more than there are; and since it
gives other bits with other numbers of threads, a call would depend on what else runs at the time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from convgrad.errors import BadFormatError


def thread_count() -> int:
    """CONVGRAD_THREADS, else the number of cores this process may use."""
    wanted = os.environ.get("CONVGRAD_THREADS")
    if wanted is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not wanted.isdigit() or int(wanted) < 1:
        raise BadFormatError(f"CONVGRAD_THREADS must be a positive integer, got {wanted!r}")
    return int(wanted)


class OneThreadBlas:
    """A counted guard: BLAS has one thread from the first entry until the last exit.

    The setting belongs to the whole process. Without the count, two overlapping uses from two threads
    would each restore what the other had set, and leave BLAS at one thread for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                # Looking for the libraries takes a millisecond, so it is done once.
                self._controller = self._controller or ThreadpoolController().select(user_api="blas")
                self._limit = self._controller.limit(limits=1)
            self._users += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


_one_thread_blas = OneThreadBlas()  # one for the process, as the setting is


class Threads:
    """A pool of worker threads that outlives single calls; a forked child starts its own."""

    def __init__(self, count: int | None = None) -> None:
        self.count = thread_count() if count is None else count
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run all tasks, the first on the calling thread; wait for all, then raise the first error.

        Inf and NaN are values here, not faults: no task warns of them.
        """
        tasks = [partial(_quietly, task) for task in tasks]
        with _one_thread_blas:
            if len(tasks) > 1 and self.count > 1:
                self._run_together(tasks)
            else:
                for task in tasks:
                    task()

    def _run_together(self, tasks: Sequence[Callable[[], None]]) -> None:
        pool = self._started()
        others: list[Future[None]] = [pool.submit(task) for task in tasks[1:]]
        try:
            tasks[0]()
        finally:
            errors = [other.exception() for other in others]
        for error in errors:
            if error is not None:
                raise error

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None or self._pid != os.getpid():  # threads do not survive a fork
                self._pool = ThreadPoolExecutor(max(1, self.count - 1), thread_name_prefix="convgrad")
                self._pid = os.getpid()
            return self._pool


def _quietly(task: Callable[[], None]) -> None:
    with np.errstate(all="ignore"):  # set in each thread, for it is the thread's own
        task()
