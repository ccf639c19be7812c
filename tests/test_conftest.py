"""The rules for backends that are missing, on small test files run in a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import shaped

ROOT = Path(__file__).parents[1]
SUITE = """
import sys
from types import SimpleNamespace
from convgrad import backends
from convgrad.errors import BackendUnavailable

PRESENT = {present!r}

def get(name):
    if name not in PRESENT:
        raise BackendUnavailable(f"no driver for {{name}}")
    return name

def open_backend(name, shape):
    return [get(name), shape]

backends.get = get
sys.modules["convgrad.backends.opencl"] = SimpleNamespace(open_backend=open_backend)

def test_one(backend):
    print("found", backend)

def test_another(device_backend):
    print("found", device_backend)
"""


@pytest.fixture
def run(tmp_path):
    def run(*options, require="", present=("numpy",)):
        (tmp_path / "test_suite.py").write_text(SUITE.format(present=present))
        (tmp_path / "pytest.ini").touch()
        plugins = ["-p", "conftest", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", "-rP", *plugins, *options]
        env = os.environ | {"PYTHONPATH": str(ROOT), "CONVGRAD_REQUIRE": require}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run


def found(result):
    """Backends that the test was run on."""
    return re.findall("^found (.*)$", result.stdout, re.MULTILINE)


ONE = ("-k", "test_one")


def test_missing_backends_are_skipped_and_named_last(run):
    result = run(*ONE, require="numpy")
    assert result.returncode == 0
    lines = list(filter(None, result.stdout.splitlines()))
    assert lines[-5:-1] == [
        "numpy: exercised (tests: 1)",
        "opencl-cpu: NOT exercised: no driver for opencl",
        "opencl-gpu: NOT exercised: no driver for opencl",
        "cuda: NOT exercised: no driver for cuda",
    ]
    assert "1 passed, 3 skipped" in lines[-1]


def test_a_required_backend_must_not_be_skipped(run):
    result = run(*ONE, require="numpy, opencl")
    assert result.returncode == 1
    assert "2 errors" in result.stdout
    assert "Failed: backend opencl-gpu: no driver for opencl" in result.stdout


def test_a_device_of_a_required_backend_must_not_be_skipped(run):
    assert run(*ONE, "--backend", "opencl:0:1", require="opencl").returncode == 1


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("numpy", ["numpy"]),
        ("opencl", ["opencl-cpu", "opencl-gpu"]),
        ("opencl-gpu", ["opencl-gpu"]),
        ("opencl:0:1", ["opencl:0:1-cpu", "opencl:0:1-gpu"]),
        ("opencl:0:1-cpu", ["opencl:0:1-cpu"]),
        ("cuda:1", ["cuda:1"]),
    ],
)
def test_opencl_stands_for_both_shapes_of_kernels(given, known):
    assert shaped(given) == known


def test_both_shapes_are_opened_on_the_device_that_is_named(run):
    result = run(*ONE, "--backend", "opencl:0:1", present=("opencl:0:1",))
    assert result.returncode == 0
    assert found(result) == ["['opencl:0:1', 'cpu']", "['opencl:0:1', 'gpu']"]


def test_a_device_is_a_backend_that_is_not_numpy(run):
    result = run("-k", "another", "--backend", "numpy", present=("numpy", "cuda"))
    assert "1 skipped" in result.stdout
    result = run("-k", "another", "--backend", "cuda", present=("numpy", "cuda"))
    assert found(result) == ["cuda"]
    assert "cuda: exercised (tests: 1)" in result.stdout


def test_only_the_selected_backends_run(run):
    result = run(*ONE, "--backend", "numpy", "--backend", "opencl-gpu")
    assert "1 passed, 1 skipped" in result.stdout
    assert "cuda: NOT exercised: not selected by --backend" in result.stdout


def test_an_unknown_required_backend_is_refused(run):
    result = run(require="numyp")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "numyp" in result.stderr


def test_a_tool_may_be_required_but_is_no_backend(run):
    result = run(*ONE, require="numpy,oclgrind")
    assert result.returncode == 0
    assert "oclgrind" not in result.stdout
