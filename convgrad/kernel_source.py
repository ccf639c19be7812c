"""Finds the folder of kernel texts; needs no GPU package."""

from __future__ import annotations

from pathlib import Path


def kernels_folder(package: Path = Path(__file__).parent) -> Path:
    """Where the kernel texts lie: `_kernels` inside an installed package, `kernels` beside it in a checkout.

    Raises FileNotFoundError, naming both places, where neither is there.
    """
    places = package / "_kernels", package.parent / "kernels"
    for folder in places:
        if (folder / "README.md").is_file():
            return folder
    raise FileNotFoundError(
        f"convgrad's kernels are neither in {places[0]} nor in {places[1]}: "
        "the installation is incomplete, install convgrad again"
    )
