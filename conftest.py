"""What tests and benchmarks share: the `backend` fixture, its option, and which backends were exercised."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from convgrad import backends
from convgrad.errors import BackendUnavailable

NAMES = ("numpy", "opencl", "cuda")
EXERCISED = pytest.StashKey[Counter[str]]()
MISSING = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser):
    parser.addoption(
        "--backend",
        action="append",
        metavar="NAME",
        help=f"run on this backend only; may be given again (default: {', '.join(NAMES)})",
    )


def pytest_configure(config):
    config.stash[EXERCISED] = Counter()
    config.stash[MISSING] = {}
    unknown = required() - set(NAMES)
    if unknown:
        raise pytest.UsageError(f"CONVGRAD_REQUIRE names {sorted(unknown)}; known are {', '.join(NAMES)}")


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", selected(metafunc.config), indirect=True)


@pytest.fixture
def backend(request):
    """Each selected backend in turn. A missing one is skipped, but fails where CONVGRAD_REQUIRE names it."""
    name, missing = request.param, request.config.stash[MISSING]
    if name not in missing:
        try:
            opened = backends.get(name)
        except BackendUnavailable as reason:
            missing[name] = str(reason)
        else:
            request.config.stash[EXERCISED][name] += 1
            return opened
    refuse = pytest.fail if name.partition(":")[0] in required() else pytest.skip
    return refuse(f"backend {name}: {missing[name]}")


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
    return config.getoption("backend") or list(NAMES)


def required():
    """Backends that must not be skipped, from the variable CONVGRAD_REQUIRE: names with commas between."""
    return set(filter(None, os.environ.get("CONVGRAD_REQUIRE", "").replace(" ", "").split(",")))
