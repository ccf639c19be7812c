"""What is built, what an installation finds, and what `import convgrad` costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import convgrad

ROOT = Path(__file__).parents[1]
FIND_KERNELS = "from convgrad.kernel_source import kernels_folder; print(kernels_folder())"
HEAVY = ("pyopencl", "pycuda", "nvidia", "torch", "sklearn", "scipy", "PIL", "rich")
IMPORT_SECONDS = (
    "import time, numpy; t = time.perf_counter(); import convgrad; print(time.perf_counter() - t)"
)


def python(*arguments, cwd, **environment):
    """What a fresh interpreter prints; the project is found only where it is installed or PYTHONPATH says."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def pip(command, *arguments, cwd):
    python("-m", "pip", command, "-qq", "--no-deps", "--no-index", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("sdist")
    python("-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def wheel(source_archive, tmp_path_factory):
    """Built from the source archive, which shows that the archive is whole."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", "-w", folder, source_archive, cwd=folder)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--target", folder, wheel, cwd=folder)
    return folder


def test_the_wheel_holds_package_kernels_and_licence(wheel):
    names = ZipFile(wheel).namelist()
    metadata = f"convgrad-{convgrad.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"convgrad", metadata}
    assert {"convgrad/_kernels/README.md", "convgrad/py.typed", f"{metadata}/licenses/LICENSE"} <= set(names)


def test_the_wheel_holds_every_kernel_file(wheel):
    files = [path.relative_to(ROOT / "kernels") for path in (ROOT / "kernels").rglob("*") if path.is_file()]
    assert {f"convgrad/_kernels/{path}" for path in files} <= set(ZipFile(wheel).namelist())


def test_the_wheel_holds_every_module_and_table(wheel):
    files = {
        str(path.relative_to(ROOT))
        for end in ("py", "json")
        for path in (ROOT / "convgrad").rglob(f"*.{end}")
    }
    assert "convgrad/checking/digests.json" in files
    assert files <= set(ZipFile(wheel).namelist())


def test_a_package_installed_from_the_wheel_finds_its_kernels(installed, tmp_path):
    found = python("-c", FIND_KERNELS, cwd=tmp_path, PYTHONPATH=str(installed))
    assert Path(found) == installed / "convgrad" / "_kernels"
    assert (Path(found) / "README.md").read_bytes() == (ROOT / "kernels" / "README.md").read_bytes()


def test_an_editable_install_finds_the_kernels_folder(tmp_path):
    assert Path(python("-c", FIND_KERNELS, cwd=tmp_path)) == ROOT / "kernels"


def test_import_loads_nothing_heavy(tmp_path):
    loaded = python("-c", "import convgrad, sys; print(*sys.modules)", cwd=tmp_path).split()
    assert "convgrad" in loaded
    assert set(HEAVY) & set(loaded) == set()


def test_import_costs_at_most_a_fifth_of_a_second_beyond_numpy(tmp_path):
    runs = (float(python("-c", IMPORT_SECONDS, cwd=tmp_path)) for _ in range(10))
    assert any(seconds <= 0.2 for seconds in runs)  # the best counts: a busy machine only ever adds
