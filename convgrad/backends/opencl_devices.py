"""Which OpenCL devices there are and what they are called; pyopencl's objects come as arguments."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from convgrad.errors import BackendUnavailable, BadFormatError
from convgrad.geometry.checks import shown

CPU_TYPE, GPU_TYPE = 2, 4  # bits of CL_DEVICE_TYPE
INTEL = Path("lib", "libintelocl.so")  # where pip puts Intel's runtime, below sys.prefix
ADVICE = "install one, such as pocl-opencl-icd by apt or intel-opencl-rt by pip"


@contextmanager
def intel_from_pip() -> Iterator[None]:
    """While this lasts, a loader of runtimes that starts finds the Intel runtime of this environment too.

    That package's own .icd file, where loaders look for the name of a library, holds a path of the machine it
    was built on. The loader in pyopencl's wheels reads the .icd files of the system and then those in the
    folder .libs of PYOPENCL_HOME, so another folder is put there, with a right one and those that were there
    before. Nothing is done where OCL_ICD_VENDORS is set: the user has chosen.
    """
    library, home = Path(sys.prefix) / INTEL, os.environ.get("PYOPENCL_HOME")
    if os.environ.get("OCL_ICD_VENDORS") or not home or not library.is_file():
        yield
        return
    with TemporaryDirectory() as other:
        libs = Path(other, ".libs")
        libs.mkdir()
        for known in Path(home, ".libs").glob("*.icd"):
            shutil.copy(known, libs)
        (libs / "convgrad-intel.icd").write_text(str(library))
        os.environ["PYOPENCL_HOME"] = other
        try:
            yield
        finally:
            os.environ["PYOPENCL_HOME"] = home


def named(platforms: Sequence[tuple[str, Sequence[Any]]]) -> dict[str, Any]:
    """Devices by name, from the (name, devices) of platforms; BackendUnavailable where there are none."""
    if not platforms:
        raise BackendUnavailable(f"no OpenCL runtime is installed; {ADVICE}")
    found = {
        f"opencl:{p}:{d}": device
        for p, (_, devices) in enumerate(platforms)
        for d, device in enumerate(devices)
    }
    if not found:
        names = ", ".join(name for name, _ in platforms)
        raise BackendUnavailable(
            f"the OpenCL runtimes that were found ({names}) have no device here; {ADVICE}"
        )
    return found


def best_first(devices: Mapping[str, Any]) -> list[str]:
    """The names; devices that are alike stay in the order of their runtimes."""
    return sorted(devices, key=lambda name: _rank(devices[name]))


def _rank(device: Any) -> int:
    """GPUs with memory of their own, other GPUs, CPUs; then the rest, such as emulators of FPGAs."""
    if device.type & GPU_TYPE:
        return 1 if device.host_unified_memory else 0
    return 2 if device.type & CPU_TYPE else 3


def full_name(name: str, devices: Mapping[str, Any]) -> str:
    """The name in `devices` that is meant; "opencl" means the best one."""
    if name == "opencl":
        return best_first(devices)[0]
    if not re.fullmatch(r"opencl:\d+:\d+", name):
        raise BadFormatError(
            f"backend must be opencl or opencl:PLATFORM:DEVICE, as opencl:0:0; got {shown(name)}"
        )
    if name not in devices:
        raise BackendUnavailable(f"there is no {name}; there are {', '.join(devices)}")
    return name
