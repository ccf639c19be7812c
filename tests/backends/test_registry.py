"""Backends by name: one object for each device, the order of "auto", and processes that were forked."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from convgrad import backends
from convgrad.backends.numpy import NumpyBackend
from convgrad.errors import BackendUnavailable, BadFormatError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fresh(monkeypatch):
    """A registry without open backends."""
    monkeypatch.setattr(backends, "_open", {})
    monkeypatch.setattr(backends, "_chosen", {})
    return backends


def pretended(name):
    """A module like convgrad.backends.opencl, with two devices of that name."""
    full_names = [f"{name}:1:0", f"{name}:0:0"]

    def full_name(asked):
        return full_names[0] if asked == name else asked

    def open_backend(asked):
        return SimpleNamespace(name=asked, device="pretended")

    return SimpleNamespace(names=lambda: full_names, full_name=full_name, open_backend=open_backend)


@pytest.fixture
def two_devices(fresh, monkeypatch):
    module = pretended("opencl")
    monkeypatch.setitem(sys.modules, "convgrad.backends.opencl", module)
    monkeypatch.setattr(backends, "opencl", module, raising=False)
    return module


def test_one_object_for_each_device(two_devices):
    first = backends.get("opencl")
    assert first.name == "opencl:1:0"
    assert backends.get("opencl:1:0") is first
    assert backends.get("opencl") is first
    assert backends.get("opencl:0:0") is not first


def test_the_same_on_real_devices(fresh, opencl):
    for name in opencl.names():
        assert backends.get(name).name == name
        assert backends.get(name) is backends.get(name)
    assert backends.get("opencl") is backends.get(opencl.names()[0])


def test_threads_get_one_object(two_devices, monkeypatch):
    """All of them, while the first is still at opening it."""
    opened = []

    def open_backend(name):
        opened.append(SimpleNamespace(name=name))
        time.sleep(0.1)
        return opened[-1]

    monkeypatch.setattr(two_devices, "open_backend", open_backend)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(backends.get, ["opencl", "opencl:1:0"] * 4))
    assert len(opened) == 1
    assert all(backend is opened[0] for backend in found)


def test_auto_is_the_first_that_is_present(two_devices):
    assert backends.get("auto") is backends.get("opencl:1:0")


def test_auto_goes_on_where_a_device_cannot_be_opened(two_devices, monkeypatch):
    whole = two_devices.open_backend

    def open_backend(name):
        if name == "opencl:1:0":
            raise BackendUnavailable("in use")
        return whole(name)

    monkeypatch.setattr(two_devices, "open_backend", open_backend)
    assert backends.get("auto").name == "opencl:0:0"


def test_auto_without_devices_is_numpy(two_devices, monkeypatch):
    monkeypatch.setattr(two_devices, "names", list)
    assert isinstance(backends.get("auto"), NumpyBackend)
    assert backends.get("auto") is backends.get("numpy")


def test_auto_is_found_out_once(two_devices, monkeypatch):
    first, asked = backends.get("auto"), []
    monkeypatch.setattr(two_devices, "names", lambda: asked.append(1) or [])
    assert backends.get("auto") is first
    assert not asked


def test_without_a_name_the_environment_is_asked(two_devices, monkeypatch):
    monkeypatch.setenv("CONVGRAD_BACKEND", "opencl:0:0")
    assert backends.get().name == "opencl:0:0"
    monkeypatch.setenv("CONVGRAD_BACKEND", "")
    assert backends.get().name == "opencl:1:0"


def test_a_backend_is_returned_as_it_is(fresh):
    own = NumpyBackend(threads=1)
    assert backends.get(own) is own
    for wrong in (3, two_devices, NumpyBackend):
        with pytest.raises(BadFormatError, match="backend must be a name, None or a backend object, got"):
            backends.get(wrong)


@pytest.mark.parametrize("name", ["", "numpy:0", "OpenCL", "metal", "auto:0", " opencl"])
def test_unknown_names_are_refused(two_devices, name):
    with pytest.raises(BadFormatError, match="backend must be one of auto, numpy, opencl, cuda or a device"):
        backends.get(name)


def test_cuda_is_not_there_yet(fresh):
    for name in ("cuda", "cuda:0"):
        with pytest.raises(BackendUnavailable, match="no cuda backend yet"):
            backends.get(name)


def test_available_tells_every_kind(two_devices):
    found = {entry.name: entry for entry in backends.available()}
    assert list(found) == list(backends.AUTO_ORDER)
    assert (found["opencl"].present, found["opencl"].text) == (True, "pretended")
    assert (found["cuda"].present, found["numpy"].present) == (False, True)


# --- forks. In children of PoCL whatever is asked of the device would hang.

FORKED = """
import multiprocessing, os, sys, traceback
import numpy as np
from convgrad import backends, functional

NAME, BEFORE, CHILD = sys.argv[1:]
X = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)
WEIGHTS = np.ones((2, 2, 2, 3), np.float32)


def result(backend):
    return functional.conv_forward(X, WEIGHTS, backend=backend).sum()


def refused(act):
    try:
        act()
    except RuntimeError as error:
        assert "before this process was forked" in str(error), error
        assert type(error) is RuntimeError, error
    else:
        raise AssertionError(act)


def child_of_user():
    names = NAME, NAME.partition(":")[0], "opencl:9:9"
    for name in names:
        refused(lambda: backends.get(name))
    host = np.zeros_like(X)
    refused(lambda: result(backend))
    refused(lambda: backend.upload(X))
    refused(lambda: backend.empty((3,), np.float32))
    refused(lambda: backend.download(array.buffer, host))
    refused(array.get)
    refused(backend.synchronize)
    told = {entry.name: entry for entry in backends.available()}
    assert "forked" in told["opencl"].text and not told["opencl"].present
    assert result("numpy") == expected


def child_of_importer():
    assert result(NAME) == result("numpy")


if BEFORE == "use":
    backend = backends.get(NAME)
    array, expected = backend.array(X), result(NAME)
else:
    import pyopencl
process = multiprocessing.get_context("fork").Process(target=globals()[CHILD])
process.start()
process.join(60)
if process.is_alive():
    process.kill()
    sys.exit("the child hangs")
if BEFORE == "use":
    assert result(NAME) == expected  # the parent goes on
sys.exit(process.exitcode)
"""


def forked(name, before, child):
    command = [sys.executable, "-W", "ignore", "-c", FORKED, name, before, child]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.parametrize(("before", "child"), [("use", "child_of_user"), ("import", "child_of_importer")])
def test_a_forked_process_is_told_or_works(opencl_backend, before, child):
    done = forked(opencl_backend.name, before, child)
    assert (done.returncode, done.stderr) == (0, "")


ENDING = """
import os, sys
import numpy as np
from convgrad import backends, functional

backend = backends.get(sys.argv[1])
x, weights = (backend.array(np.ones(shape, np.float32)) for shape in ((8, 48, 48, 32), (32, 3, 3, 32)))
under_way = [functional.conv_forward(x, weights) for _ in range(6)]
small = [backend.array(np.full(1000, i, np.float32)) for i in range(5)]
child = os.fork()
if child == 0:
    sys.exit(7)  # takes down all that the interpreter holds
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert [float(array.get()[0]) for array in small] == [0, 1, 2, 3, 4]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_ends_while_the_device_works(opencl_backend):
    name = opencl_backend.name
    command = [sys.executable, "-W", "ignore", "-c", ENDING, name]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
