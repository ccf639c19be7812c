"""Kernels as C++: a compiler for the host sees them with all its warnings."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from convgrad.kernel_source import kernel_text, kernels_folder

FOLDER = kernels_folder()
# Those in cpu/ use OpenCL's vectors.
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.cl") if path.parent.name != "cpu")
COMPILER = shutil.which("g++")
WARNINGS = "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"


@pytest.mark.skipif(COMPILER is None, reason="g++ is not there")
@pytest.mark.parametrize("index", ["int", "INT64"])
@pytest.mark.parametrize("double", [0, 1])
@pytest.mark.parametrize("file", FILES)
def test_kernels_are_cpp_without_a_warning(file, double, index):
    defines = f"-DDOUBLE={double}", f"-DINDEX={index}"
    command = [COMPILER, "-std=c++17", "-x", "c++", "-fsyntax-only", *WARNINGS, *defines, "-"]
    done = subprocess.run(command, input=kernel_text(file), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_there_are_kernels_to_look_at():
    assert {"elementwise.cl", "pool.cl", "update.cl"} <= set(FILES)
