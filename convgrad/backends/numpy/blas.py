"""BLAS held to one thread while our own threads work.

A BLAS that started threads of its own inside each worker would ask for more than there are; and since it
gives other bits with other numbers of threads, a call would depend on what else runs at the time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl


class OneThreadBlas:
    """A counted guard: BLAS has one thread from the first entry until the last exit, from any threads.

    The number belongs to the whole process. Without the count, two overlapping uses would each restore what
    the other had set, and leave BLAS at one thread for good. An OpenBLAS that was built on OpenMP keeps a
    number for each thread instead; `in_this_thread` holds that one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._libraries: Any = None
        self._libraries_by_thread: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._restore()  # does something in a forked child only, see `forked`
                self._limit = _limited(self._found())
            self._users += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._restore()

    @contextmanager
    def in_this_thread(self) -> Iterator[None]:
        """Hold the number of the calling thread, where BLAS keeps one for each; inside of the guard."""
        own = self._libraries_by_thread
        limit = _limited(own) if own.lib_controllers else None
        try:
            yield
        finally:
            if limit is not None:
                limit.restore_original_limits()

    def forking(self) -> None:
        """To be called before a fork, so that no other thread holds the lock in the child."""
        self._lock.acquire()

    def forked_from(self) -> None:
        """To be called in the parent after a fork."""
        self._lock.release()

    def forked(self) -> None:
        """To be called in a forked child: the threads that use the guard are not there."""
        self._users = 0
        self._lock.release()

    def _found(self) -> Any:
        if self._libraries is None:  # looking for them takes a millisecond, so it is done once
            self._libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
            self._libraries_by_thread = self._libraries.select(threading_layer="openmp")
        return self._libraries

    def _restore(self) -> None:
        if self._limit is not None:
            _let_this_thread_set()
            self._limit.restore_original_limits()
            _let_this_thread_set()
            self._limit = None


def _limited(libraries: Any) -> Any:
    _let_this_thread_set()
    return libraries.limit(limits=1)


def _let_this_thread_set() -> None:
    """From 3.7 on threadpoolctl obeys one thread at a time, for want of a lock such as the guard's."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(openblas, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


one_thread_blas = OneThreadBlas()  # one for the process, as the number is
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=one_thread_blas.forking,
        after_in_parent=one_thread_blas.forked_from,
        after_in_child=one_thread_blas.forked,
    )
