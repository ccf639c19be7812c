"""What tests and benchmarks share: backends to run on, the option that selects them, what was exercised."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from convgrad import backends
from convgrad.errors import BackendUnavailable

OPENCL_SHAPES = ("cpu", "gpu")  # of kernels; every OpenCL device can run both
NAMES = ("numpy", *(f"opencl-{shape}" for shape in OPENCL_SHAPES), "cuda")
REQUIRABLE = ("numpy", "opencl", "cuda", "oclgrind")  # the last is a tool: one test runs it
OPEN = pytest.StashKey[dict[str, object]]()
EXERCISED = pytest.StashKey[Counter[str]]()
MISSING = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser):
    parser.addoption(
        "--backend",
        action="append",
        metavar="NAME",
        help=f"run on this backend only; may be given again (default: {', '.join(NAMES)}); a device of one "
        "is selected as opencl:0:1, without -cpu or -gpu with kernels of both shapes",
    )


def pytest_configure(config):
    config.stash[OPEN] = {}
    config.stash[EXERCISED] = Counter()
    config.stash[MISSING] = {}
    unknown = required() - set(REQUIRABLE)
    if unknown:
        raise pytest.UsageError(
            f"CONVGRAD_REQUIRE names {sorted(unknown)}; known are {', '.join(REQUIRABLE)}"
        )


def pytest_generate_tests(metafunc):
    names = selected(metafunc.config)
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", names, indirect=True)
    if "device_backend" in metafunc.fixturenames:
        devices = [name for name in names if name != "numpy"]
        metafunc.parametrize("device_backend", devices or [None], indirect=True, ids=devices or ["none"])


@pytest.fixture
def backend(request):
    """Each selected backend in turn. A missing one is skipped, but fails where CONVGRAD_REQUIRE names it."""
    return exercised(request.config, request.param)


@pytest.fixture
def device_backend(request):
    """As `backend`, without NumPy: for tests of what devices alone have, such as launches."""
    if request.param is None:
        pytest.skip("no device is selected by --backend")
    return exercised(request.config, request.param)


def exercised(config, name):
    """The backend of this name, the same in the whole session, counted; or the test ends."""
    opened, missing = config.stash[OPEN], config.stash[MISSING]
    if name not in opened and name not in missing:
        try:
            opened[name] = fresh(name)
        except BackendUnavailable as reason:
            missing[name] = str(reason)
    if name in missing:
        refuse = pytest.fail if family(name) in required() else pytest.skip
        refuse(f"backend {name}: {missing[name]}")
    config.stash[EXERCISED][name] += 1
    return opened[name]


def fresh(name):
    """Open a backend; "opencl-gpu" is OpenCL's default device with kernels of that shape."""
    if family(name) != "opencl":
        return backends.get(name)
    from convgrad.backends.opencl import open_backend

    place, _, shape = name.partition("-")
    return open_backend(place, shape=shape)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter, config):
    """After everything else that is reported, so that it stands last."""
    yield
    terminalreporter.section("backends")
    for name in dict.fromkeys([*NAMES, *selected(config)]):
        terminalreporter.line(f"{name}: {verdict(config, name)}")


def verdict(config, name):
    if count := config.stash[EXERCISED][name]:
        return f"exercised (tests: {count})"
    if name in config.stash[MISSING]:
        return f"NOT exercised: {config.stash[MISSING][name]}"
    if name in selected(config):
        return "NOT exercised: no test of this run uses it"
    return "NOT exercised: not selected by --backend"


def selected(config):
    """Names of the backends to run on; an OpenCL device without a shape stands for both."""
    names = config.getoption("backend") or NAMES
    return [name for given in names for name in shaped(given)]


def shaped(name):
    if family(name) == "opencl" and "-" not in name:
        return [f"{name}-{shape}" for shape in OPENCL_SHAPES]
    return [name]


def family(name):
    return name.partition(":")[0].partition("-")[0]


def required():
    """What must not be skipped, from the variable CONVGRAD_REQUIRE: names with commas between."""
    return set(filter(None, os.environ.get("CONVGRAD_REQUIRE", "").replace(" ", "").split(",")))
