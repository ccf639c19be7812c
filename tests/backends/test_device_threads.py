"""Several Python threads on one device: units of their own; functions, programs, scratch memory in common."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from convgrad import functional
from convgrad.backends.device.backend import DeviceBackend
from convgrad.update_rule import UpdateRule
from tests import operations
from tests.cases import ConvCase
from tests.units.twins import conv_twins, host, ready

CASE = ConvCase("layer", 6, (14, 15), 8, 12, (3, 2), (1, 2, 0, 3), (2, 1), (1, 2), 2, seed=1)


def side_by_side(work, count):
    """What `work` gives for 0, 1, ... in threads that begin together."""
    meeting = threading.Barrier(count, timeout=60)

    def begin(number):
        meeting.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def units(backend, seed):
    """A pair of units with data of its own; one has another size than the other."""
    rng = np.random.default_rng(seed)
    shapes = (2 + seed, 5, 6, 2), (3, 2, 3, 2), (3,), (2 + seed, 4, 4, 3)
    x, weights, bias, errors = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    numbers = {"learning_rate": 1e-3, "gradient_moment": 0.5}
    forward, gd = conv_twins(backend, x, weights, bias, activation="tanh", backward=numbers)
    return forward, ready(gd, backend, err_output=errors)


def run(forward, gd, times):
    """Bytes of what so many steps leave behind."""
    for _ in range(times):
        forward.run()
        gd.run()
    return b"".join(host(a).tobytes() for a in (forward.output, gd.err_input, gd.weights, gd.bias))


@pytest.mark.parametrize("times", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_unit_for_each_of_two_threads(device_backend, times):
    known = [run(*units(device_backend, seed), times) for seed in range(2)]
    assert side_by_side(lambda seed: run(*units(device_backend, seed), times), 2) == known


def test_units_may_go_from_thread_to_thread(device_backend):
    """One thread at a time; kernel objects belong to threads, not to units."""
    pair, known = units(device_backend, 1), units(device_backend, 1)
    for _ in range(3):
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(run, *pair, 2).result()
        assert found == run(*known, 2)


def everything(backend, seed):
    """Bytes of the results of one call of each kind, on data of its own."""
    rng = np.random.default_rng(seed)
    x, weights, bias, d = (rng.standard_normal(shape).astype(np.float32) for shape in CASE.shapes)
    x, d = x[: seed + 1], d[: seed + 1]  # others want less scratch memory than the largest
    keywords = {**CASE.window, "activation": "tanh", "backend": backend}
    y = functional.conv_forward(x, weights, bias, **keywords)
    gradients = functional.conv_backward(x, weights, d, output=y, **keywords)
    pooled = functional.pool_forward(y, "maxabs", (2, 3), backend=backend)
    keywords = {"offset": pooled.offset, "backend": backend}
    err_input = functional.pool_backward(pooled.output, y.shape, "maxabs", (2, 3), **keywords)
    mean = functional.pool_forward(y, "average", (2, 3), backend=backend).output
    parameter = backend.upload(weights)
    rule = UpdateRule(weights_decay=0.1, factor_ortho=0.2)
    backend.update.step(parameter, backend.upload(gradients.weights), rule)
    results = y, *gradients, *pooled, mean, err_input, operations.host(backend, parameter)
    return b"".join(a.tobytes() for a in results)


@pytest.mark.parametrize("times", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_calls_from_four_threads_are_as_calls_from_one(device_backend, times):
    known = [everything(device_backend, seed) for seed in range(4)]
    found = side_by_side(lambda seed: {everything(device_backend, seed) for _ in range(times)}, 4)
    assert found == [{one} for one in known]


def test_a_program_that_two_threads_want_is_built_once(device_backend):
    backend = DeviceBackend(device_backend.driver)
    found = side_by_side(lambda _: everything(backend, 1), 2)
    assert found[0] == found[1]
    built = backend.executor.programs.built
    everything(backend, 1)
    assert backend.executor.programs.built == built
