"""BLAS at one thread while we work: from whatever thread, and after a fork."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from convgrad import functional
from convgrad.backends.numpy import NumpyBackend
from convgrad.backends.numpy.blas import OneThreadBlas


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def given_back():
    before = blas_threads()
    yield
    assert blas_threads() == before


def test_one_thread_until_the_last_user_leaves():
    guard = OneThreadBlas()
    with guard:
        with guard:
            assert set(blas_threads()) <= {1}
        assert set(blas_threads()) <= {1}


def test_one_thread_also_where_another_thread_was_first_and_lives_on():
    guard, inside, leave = OneThreadBlas(), threading.Barrier(2, timeout=20), threading.Event()
    end = threading.Event()

    def first():
        with guard:
            inside.wait()
            leave.wait(20)
        inside.wait()
        end.wait(20)  # the thread that was the first to set the number is still there

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    with guard:
        leave.set()
        inside.wait()
        assert set(blas_threads()) <= {1}
    with guard:
        assert set(blas_threads()) <= {1}
    end.set()
    thread.join()


@pytest.mark.parametrize("threads", [1, 2])
def test_same_bits_from_every_thread(threads):
    backend, rng = NumpyBackend(threads=threads), np.random.default_rng(0)
    # Large enough for BLAS to use threads, if it were let.
    x = rng.standard_normal((16, 30, 30, 16)).astype(np.float32)
    d = rng.standard_normal((16, 28, 28, 32)).astype(np.float32)

    def gradient(_):
        return functional.conv_weight_gradient(x, d, (3, 3), backend=backend).tobytes()

    known = gradient(0)
    assert gradient(0) == known
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            assert set(pool.map(gradient, range(9))) == {known}


FORK = """
import os, signal, threading, warnings
import numpy as np
from threadpoolctl import threadpool_info
from convgrad.backends.numpy.blas import one_thread_blas as guard

warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: this is what is tried
count = lambda: [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
before, inside, leave = count(), threading.Event(), threading.Event()

def use():
    with guard:
        inside.set()
        leave.wait(60)

thread = threading.Thread(target=use)
thread.start()
inside.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(60)
    with guard:
        held = set(count()) <= {1}
    os._exit(0 if held and count() == before else 1)
_, status = os.waitpid(child, 0)
leave.set()
thread.join()
assert os.waitstatus_to_exitcode(status) == 0
assert count() == before
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_child_that_is_forked_in_the_middle_of_a_call_has_a_guard_of_its_own():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120)
