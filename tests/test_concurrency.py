"""NumPy under several Python threads, in forked children, and the memory of a call.

The same of devices: `tests/backends/test_device_threads.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from convgrad import functional
from convgrad.backends.numpy import NumpyBackend, blocks, threads
from convgrad.errors import BadFormatError
from convgrad.geometry import POOL_KINDS
from convgrad.interfaces import ConvGradients
from convgrad.update_rule import UpdateRule
from tests import operations
from tests.cases import ConvCase
from tests.test_functional_inputs import every_second, misaligned

CASE = ConvCase("layer", 6, (14, 15), 8, 12, (3, 2), (1, 2, 0, 3), (2, 1), (1, 2), 2, seed=1)
ROOT = Path(__file__).parents[1]


def everything(backend, seed):
    """Bytes of the results of one call of each kind, on data of its own."""
    rng = np.random.default_rng(seed)
    x, weights, bias, d = (rng.standard_normal(shape).astype(np.float32) for shape in CASE.shapes)
    keywords = {**CASE.window, "activation": "tanh", "backend": backend}
    y = functional.conv_forward(x, weights, bias, **keywords)
    gradients = functional.conv_backward(x, weights, d, output=y, **keywords)
    pooled = functional.pool_forward(y, "maxabs", (2, 3), backend=backend)
    keywords = {"offset": pooled.offset, "backend": backend}
    err_input = functional.pool_backward(pooled.output, y.shape, "maxabs", (2, 3), **keywords)
    backend.update.step(weights, gradients.weights, UpdateRule(weights_decay=0.1))
    return b"".join(a.tobytes() for a in (y, *gradients, *pooled, err_input, weights))


@pytest.mark.parametrize("shared", [True, False], ids=["one backend", "a backend for each"])
def test_200_calls_from_four_threads_are_as_200_calls_from_one(shared, monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_WORK", 0)  # so that every call uses the pool
    one = NumpyBackend(threads=2)
    known = [everything(one, seed) for seed in range(4)]

    def calls(seed):
        backend = one if shared else NumpyBackend(threads=2)
        return {everything(backend, seed) for _ in range(50)}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(calls, range(4))) == [{known[seed]} for seed in range(4)]


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_gets_its_threads_back(monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_WORK", 0)
    before, backend = blas_threads(), NumpyBackend(threads=2)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: everything(backend, seed), range(12)))
    assert blas_threads() == before


def test_the_first_error_of_the_workers_is_raised_and_the_pool_lives_on():
    pool, done = threads.Threads(3), []

    def fail():
        raise MemoryError("too large")

    with pytest.raises(MemoryError, match="too large"):
        pool.run([lambda: done.append(1), fail, lambda: done.append(2)])
    with pytest.raises(MemoryError, match="too large"):
        pool.run([fail, lambda: done.append(3)])
    pool.run([lambda: done.append(4)] * 5)
    assert sorted(done) == [1, 2, 3, *[4] * 5]


def test_workers_run_side_by_side():
    meeting = threading.Barrier(3, timeout=20)
    threads.Threads(3).run([meeting.wait] * 3)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "", "4097", "1" * 5000])
def test_a_number_of_threads_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("CONVGRAD_THREADS", text)
    with pytest.raises(ValueError, match="CONVGRAD_THREADS must be an integer from 1 to 4096, got"):
        NumpyBackend()


FORK = """
import os, signal, sys, warnings
import numpy as np
import convgrad
from convgrad import functional
from convgrad.backends.numpy import blocks

warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: this is what is tried
blocks.LEAST_WORK = 0
rng = np.random.default_rng(0)
x, weights = rng.standard_normal((8, 20, 20, 16)), rng.standard_normal((24, 3, 3, 16))

def compute():
    y = functional.conv_forward(x, weights, backend="numpy")
    return functional.conv_backward(x, weights, y, backend="numpy").weights.tobytes()

before = compute() if "used" in sys.argv else None
child = os.fork()
if child == 0:
    signal.alarm(60)
    result = compute()
    os._exit(0 if before in (None, result) else 1)
_, status = os.waitpid(child, 0)
after = compute()
sys.exit(os.waitstatus_to_exitcode(status) or (before not in (None, after)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("parent", ["unused", "used"])
def test_a_forked_child_computes(parent):
    environment = {**os.environ, "CONVGRAD_THREADS": "3", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FORK, parent]
    assert subprocess.run(command, env=environment, timeout=120, check=False).returncode == 0


@pytest.mark.parametrize("batch", [1, 4, 24])
@pytest.mark.parametrize(
    "case",
    [
        ConvCase("strided", 0, (30, 31), 16, 24, (3, 4), (1, 2, 0, 1), (2, 1)),
        ConvCase("smooth", 0, (30, 31), 16, 24, (3, 4), (1, 2, 0, 1)),
        ConvCase("pointwise", 0, (30, 31), 48, 64, (1, 1)),
        ConvCase("few_channels", 0, (40, 41), 3, 24, (5, 4), (1, 2, 0, 1)),
    ],
    ids=lambda case: case.kind,
)
@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_a_backward_call_stays_within_the_workspace(case, batch, activation, rng):
    """Scratch, columns and the workers' own sums, beside the three results."""
    backend = NumpyBackend(threads=2)
    backend.workspace = 2 << 20
    case = replace(case, batch=batch)
    x, weights, _, d = (rng.standard_normal(shape).astype(np.float32) for shape in case.shapes)
    geometry = operations.conv_geometry(case)
    gradients = ConvGradients(np.empty_like(x), np.empty_like(weights), np.empty(case.n_kernels, np.float32))
    arguments = x, weights, d, np.tanh(d), gradients, geometry
    peak = peak_of_second(lambda: backend.conv.backward(*arguments, activation=activation))
    assert peak <= backend.workspace + 200_000  # NumPy's cast buffers, Python's own objects


def peak_of_second(call):
    """Bytes in use at once in a second call: the first starts threads and imports."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


WIDE = ConvCase("wide", 8, (60, 61), 16, 4, (3, 4), (1, 2, 0, 1))
PIXELS = ConvCase("pixels", 8, (60, 61), 16, 4, (1, 1))


@pytest.mark.parametrize("lay_out", [misaligned, np.asfortranarray, every_second])
@pytest.mark.parametrize("case", [WIDE, PIXELS], ids=lambda case: case.kind)
def test_arrays_of_any_layout_are_copied_in_blocks_only(case, lay_out, rng):
    backend = NumpyBackend(threads=2)
    backend.workspace = 1 << 19
    x, weights, bias, d = (rng.standard_normal(shape).astype(np.float32) for shape in case.shapes)
    x, d, results = lay_out(x), lay_out(d), d.nbytes
    keywords = {**case.window, "backend": backend}
    assert x.nbytes > 3 * backend.workspace  # so that a copy of all would be seen
    forward = peak_of_second(lambda: functional.conv_forward(x, weights, bias, **keywords))
    assert forward <= results + backend.workspace + 200_000
    backward = peak_of_second(lambda: functional.conv_weight_gradient(x, d, case.kernel, **keywords))
    assert backward <= backend.workspace + 200_000
    assert peak_of_second(lambda: functional.bias_gradient(d, backend=backend)) <= backend.workspace + 200_000


@pytest.mark.parametrize("kind", POOL_KINDS)
@pytest.mark.parametrize("shape", [(1, 700, 690, 1), (300, 40, 42, 1), (2, 120, 130, 16)], ids=str)
@pytest.mark.parametrize("lay_out", [np.asarray, misaligned])
def test_pooling_stays_within_the_workspace(kind, shape, lay_out, rng):
    """Beside the results: also the check of the offset, and the sizes by which averages divide."""
    backend = NumpyBackend(threads=2)
    backend.workspace = 1 << 19
    x = lay_out(rng.standard_normal(shape).astype(np.float32))
    window = {"sliding": (1, 1), "padding": (1, 0, 0, 1), "backend": backend}
    y, offset = functional.pool_forward(x, kind, (2, 2), **window)
    results = y.nbytes + (0 if offset is None else offset.nbytes)
    peak = peak_of_second(lambda: functional.pool_forward(x, kind, (2, 2), **window))
    assert peak <= results + backend.workspace + 200_000
    d = lay_out(y)
    backward = partial(functional.pool_backward, d, shape, kind, (2, 2), offset=offset, **window)
    assert peak_of_second(backward) <= x.nbytes + backend.workspace + 200_000


@pytest.mark.parametrize("value", ["x", None, 0, -1, 1.5, True, np.array(0)], ids=repr)
def test_a_workspace_that_is_no_number_of_bytes_is_refused(value):
    backend = NumpyBackend()
    with pytest.raises(BadFormatError, match="workspace must be"):
        backend.workspace = value
    backend.workspace = np.int64(1)
    assert backend.workspace == 1


@pytest.mark.parametrize("value", ["x", 0, -3, 2.5, True, (2,)], ids=repr)
def test_threads_that_are_no_number_are_refused(value):
    with pytest.raises(BadFormatError, match="threads must be"):
        NumpyBackend(threads=value)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "", "\N{SUPERSCRIPT TWO}", "1" * 5000])
def test_a_workspace_of_the_environment_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("CONVGRAD_WORKSPACE", text)
    with pytest.raises(BadFormatError, match="CONVGRAD_WORKSPACE must be an integer from 1 to "):
        NumpyBackend()
