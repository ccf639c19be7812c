"""Every kernel in both shapes under Oclgrind, which watches for races, bounds and what was never written.

Oclgrind ends with 0 whatever it finds, so its log is read. That it finds things is shown first, by faults
that are planted for it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import required

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"
KERNEL = re.compile(r"^KERNEL\([^)]*\)\s*void (\w+)\(", re.MULTILINE)
WATCHING = ("--data-races", "--uninitialized", "--max-errors", "1000")
# Optimised code that builds vectors lane by lane looks as if lanes were never written. Kernels of GPU shape
# have no vectors, and without optimisation take six times as long.
OPTIONS = {"cpu": ("--build-options", "-cl-opt-disable")}
SECONDS = 1200


@pytest.fixture(scope="module", autouse=True)
def oclgrind():
    pytest.importorskip("pyopencl")
    if not shutil.which("oclgrind"):
        refuse = pytest.fail if "oclgrind" in required() else pytest.skip
        refuse("oclgrind is not installed; apt-get install oclgrind, where the release has it")


def start(log, script, argument):
    command = ["oclgrind", *WATCHING, *OPTIONS.get(argument, ()), "--log", log]
    command += [sys.executable, HERE / script, argument]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    """What it printed."""
    try:
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out


FAULTS = {
    "race": "Read-write data race at local memory",
    "past_the_end": "Invalid read of size 4 at global memory",
    "uninitialized": "Uninitialized value written to global memory",
}


@pytest.mark.parametrize(("kernel", "told"), FAULTS.items(), ids=FAULTS)
def test_a_planted_fault_is_found(tmp_path, kernel, told):
    ended(start(tmp_path / "log", "planted.py", kernel))
    assert told in (tmp_path / "log").read_text()


def test_a_sound_kernel_is_left_alone(tmp_path):
    ended(start(tmp_path / "log", "planted.py", "sound"))
    assert (tmp_path / "log").read_text() == ""


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """For each shape the log and what watched.py printed; both run at the same time."""
    folder = tmp_path_factory.mktemp("oclgrind")
    running = {shape: start(folder / shape, "watched.py", shape) for shape in ("cpu", "gpu")}
    printed = {shape: json.loads(ended(process).splitlines()[-1]) for shape, process in running.items()}
    return {shape: ((folder / shape).read_text(), printed[shape]) for shape in running}


@pytest.mark.parametrize("shape", ["cpu", "gpu"])
def test_nothing_is_found_in_the_kernels(watched, shape):
    log, printed = watched[shape]
    assert log == ""
    assert printed["complaints"] == []


def kernels(folder):
    """{(file, kernel)} of the texts in a folder."""
    return {
        (str(path.relative_to(KERNELS)), name)
        for path in folder.glob("*.cl")
        for name in KERNEL.findall(path.read_text())
    }


def test_every_kernel_was_launched(watched):
    launched = {shape: {(file, name) for file, name, _ in watched[shape][1]["launches"]} for shape in watched}
    assert kernels(KERNELS) | kernels(KERNELS / "cpu") == launched["cpu"] | launched["gpu"]
    assert {kernel for kernel in launched["gpu"] if kernel in kernels(KERNELS / "cpu")} == set()
