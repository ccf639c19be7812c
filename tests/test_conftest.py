"""The rules for backends that are missing, on small test files run in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITE = """
from convgrad import backends
from convgrad.errors import BackendUnavailable

def get(name):
    if name != "numpy":
        raise BackendUnavailable(f"no driver for {name}")
    return name

backends.get = get

def test_one(backend):
    assert backend == "numpy"
"""


@pytest.fixture
def run(tmp_path):
    def run(*options, require=""):
        (tmp_path / "test_suite.py").write_text(SUITE)
        (tmp_path / "pytest.ini").touch()
        command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *options]
        env = os.environ | {"PYTHONPATH": str(ROOT), "CONVGRAD_REQUIRE": require}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run


def test_missing_backends_are_skipped_and_named_last(run):
    result = run(require="numpy")
    assert result.returncode == 0
    lines = list(filter(None, result.stdout.splitlines()))
    assert lines[-4:-1] == [
        "numpy: exercised (tests: 1)",
        "opencl: NOT exercised: no driver for opencl",
        "cuda: NOT exercised: no driver for cuda",
    ]
    assert "1 passed, 2 skipped" in lines[-1]


def test_a_required_backend_must_not_be_skipped(run):
    result = run(require="numpy, opencl")
    assert result.returncode == 1
    assert "1 passed, 1 skipped, 1 error" in result.stdout
    assert "Failed: backend opencl: no driver for opencl" in result.stdout


def test_a_device_of_a_required_backend_must_not_be_skipped(run):
    assert run("--backend", "opencl:0:1", require="opencl").returncode == 1


def test_only_the_selected_backends_run(run):
    result = run("--backend", "numpy", "--backend", "opencl")
    assert "1 passed, 1 skipped" in result.stdout
    assert "cuda: NOT exercised: not selected by --backend" in result.stdout


def test_an_unknown_required_backend_is_refused(run):
    result = run(require="numyp")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "numyp" in result.stderr
