"""What a figure depends on: machine, libraries, settings, version of the code."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from convgrad import __version__

SLOWING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # they replace what OpenBLAS found out about the machine


def facts(threads: int) -> dict[str, Any]:
    """Everything that belongs beside a figure, by name."""
    return {
        "convgrad": __version__,
        "commit": commit(Path(__file__).parents[2]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": threads,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": blas(),
        "settings": {name: os.environ[name] for name in SLOWING if name in os.environ},
    }


def blas() -> list[str]:
    """Each BLAS in this process, with its version and its kernels."""
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    keys = ("internal_api", "version", "architecture")
    return [" ".join(str(library[key]) for key in keys if library.get(key)) for library in found]


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor in its maker's words where Linux tells them, else its architecture."""
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit(root: Path) -> str | None:
    """The commit of the checkout `root`, "-dirty" when files differ from it; None when it is no checkout."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  # fixed words
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
