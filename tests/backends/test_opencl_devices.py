"""OpenCL devices: names and order, Intel's runtime from pip, and what is said where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from convgrad.backends.opencl_devices import best_first, full_name, intel_from_pip, named
from convgrad.errors import BackendUnavailable, BadFormatError

ROOT = Path(__file__).parents[2]
CPU, GPU, ACCELERATOR, DEFAULT = 2, 4, 8, 1


def device(kind, *, unified=True):
    return SimpleNamespace(type=kind, host_unified_memory=unified)


SEVERAL = named(
    [
        ("one", [device(ACCELERATOR), device(CPU | DEFAULT)]),
        ("none", []),
        ("two", [device(GPU), device(GPU, unified=False), device(CPU), device(GPU, unified=False)]),
    ]
)


def test_names_count_platforms_and_devices():
    assert list(SEVERAL) == ["opencl:0:0", "opencl:0:1", *(f"opencl:2:{number}" for number in range(4))]


def test_gpus_come_first_then_cpus_then_the_rest():
    """GPUs with memory of their own before others; else in the order in which they are listed."""
    numbers = ["2:1", "2:3", "2:0", "0:1", "2:2", "0:0"]
    assert best_first(SEVERAL) == [f"opencl:{number}" for number in numbers]


def test_full_names():
    assert full_name("opencl", SEVERAL) == "opencl:2:1"
    assert full_name("opencl:0:1", SEVERAL) == "opencl:0:1"


@pytest.mark.parametrize("device", ["", "0", "x:0", "0:0:0", "-1:0", "0:1 "])
def test_a_malformed_name_is_refused(device):
    told = f"backend must be opencl or opencl:PLATFORM:DEVICE, as opencl:0:0; got 'opencl:{device}'"
    with pytest.raises(BadFormatError, match=told):
        full_name(f"opencl:{device}", SEVERAL)


def test_a_device_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(
        BackendUnavailable, match="no opencl:1:0; there are opencl:0:0, opencl:0:1, opencl:2:0"
    ):
        full_name("opencl:1:0", SEVERAL)


def test_without_runtimes_or_devices_the_next_step_is_told():
    with pytest.raises(BackendUnavailable, match="no OpenCL runtime is installed; install one, such as pocl"):
        named([])
    with pytest.raises(BackendUnavailable, match=r"\(one, two\) have no device here; install one"):
        named([("one", []), ("two", [])])


# --- Intel's runtime


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A Python environment with Intel's runtime, and a pyopencl with a runtime in its own folder."""
    library, libs = tmp_path / "lib" / "libintelocl.so", tmp_path / "home" / ".libs"
    libs.mkdir(parents=True)
    library.parent.mkdir()
    library.touch()
    (libs / "pocl.icd").write_text("libpocl.so")
    (libs / "libOpenCL.so").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PYOPENCL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    return tmp_path


def listed():
    folder = Path(os.environ["PYOPENCL_HOME"], ".libs")
    return {path.name: path.read_text() for path in folder.glob("*.icd")}


def test_intels_runtime_is_listed_beside_the_others(environment):
    own = {"pocl.icd": "libpocl.so"}
    with intel_from_pip():
        assert listed() == own | {"convgrad-intel.icd": str(environment / "lib" / "libintelocl.so")}
        folder = Path(os.environ["PYOPENCL_HOME"])
    assert listed() == own
    assert not folder.exists()


def test_after_an_error_everything_is_as_before(environment):
    with pytest.raises(ZeroDivisionError), intel_from_pip():
        raise ZeroDivisionError
    assert listed() == {"pocl.icd": "libpocl.so"}


def test_nothing_is_done_where_the_user_has_chosen(environment, monkeypatch):
    monkeypatch.setenv("OCL_ICD_VENDORS", "pocl.icd")
    with intel_from_pip():
        assert listed() == {"pocl.icd": "libpocl.so"}


def test_nothing_is_done_without_the_library(environment):
    (environment / "lib" / "libintelocl.so").unlink()
    with intel_from_pip():
        assert listed() == {"pocl.icd": "libpocl.so"}


def test_nothing_is_done_without_pyopencl(environment, monkeypatch):
    monkeypatch.delenv("PYOPENCL_HOME")
    with intel_from_pip():
        assert "PYOPENCL_HOME" not in os.environ


# --- in a process of their own: what is imported and asked there for the first time

FOUND = """
import json, os, sys
sys.prefix = os.environ.get("PRETENDED_PREFIX", sys.prefix)
from convgrad.backends import opencl
print(json.dumps([platform.name for platform in opencl.cl.get_platforms()]))
"""
TOLD = """
import json, os, sys
if "WITHOUT_PYOPENCL" in os.environ:
    sys.modules["pyopencl"] = None
from convgrad import backends
from convgrad.errors import BackendUnavailable
told = {entry.name: entry.text for entry in backends.available() if not entry.present}
try:
    backends.get("opencl:0:0")
except BackendUnavailable as reason:
    told["opencl:0:0"] = str(reason)
told["auto"] = backends.get("auto").name
print(json.dumps([told, {name: os.environ.get(name) for name in ("POCL_AFFINITY", "PYOPENCL_NO_CACHE")}]))
"""


def answer(script, **variables):
    """What a script prints last, in an environment with these variables, or without those that are None."""
    environment = {name: text for name, text in (os.environ | variables).items() if text is not None}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_runtime_below_the_prefix_is_found_beside_the_systems(opencl, tmp_path):
    """The system's own PoCL serves for Intel's."""
    icd, loader = Path("/etc/OpenCL/vendors/pocl.icd"), Path(opencl.cl.__file__).parent / ".libs"
    if not icd.exists() or not loader.exists() or os.environ.get("OCL_ICD_VENDORS"):
        pytest.skip("wants Debian's PoCL, chosen by the loader of pyopencl's wheels itself")
    before = answer(FOUND, PRETENDED_PREFIX=str(tmp_path))
    (tmp_path / "lib").mkdir()
    for library in Path("/usr/lib").rglob(icd.read_text().strip()):
        (tmp_path / "lib" / "libintelocl.so").symlink_to(library)
    after = answer(FOUND, PRETENDED_PREFIX=str(tmp_path))
    assert sorted(after) == sorted([*before, "Portable Computing Language"])


def test_without_pyopencl_it_is_said_what_to_install():
    told, _ = answer(TOLD, WITHOUT_PYOPENCL="")
    assert told["opencl"] == told["opencl:0:0"]
    assert "pyopencl cannot be imported" in told["opencl"]
    assert "pip install 'convgrad[opencl]'" in told["opencl"]
    assert told["auto"] == "numpy"


def test_without_a_runtime_it_is_said_what_to_install(opencl, tmp_path):
    told, _ = answer(TOLD, OCL_ICD_VENDORS=str(tmp_path))
    assert told["opencl"] == told["opencl:0:0"]
    assert told["opencl"].startswith("no OpenCL runtime is installed; install one")
    assert told["auto"] == "numpy"


def test_variables_of_others_are_set_unless_the_user_did(opencl, tmp_path):
    vendors = {"OCL_ICD_VENDORS": str(tmp_path)}
    _, found = answer(TOLD, POCL_AFFINITY=None, PYOPENCL_NO_CACHE=None, **vendors)
    assert found == {"POCL_AFFINITY": "1", "PYOPENCL_NO_CACHE": "1"}
    _, found = answer(TOLD, POCL_AFFINITY="0", PYOPENCL_NO_CACHE="false", **vendors)
    assert found == {"POCL_AFFINITY": "0", "PYOPENCL_NO_CACHE": "false"}
