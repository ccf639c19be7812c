"""Finds the kernel texts and puts their includes in; needs no GPU package."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_INCLUDE = re.compile(r'^#include "([\w./]+)"$', re.MULTILINE)


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


@cache
def kernel_text(file: str) -> str:
    """The text of a kernel file with what it includes in place, each file once.

    Done here, since compilers differ in where they look and some cannot take a path with a space.
    """
    return _expanded(kernels_folder(), file, set())


def _expanded(folder: Path, file: str, seen: set[str]) -> str:
    if file in seen:
        return ""
    seen.add(file)
    text = (folder / file).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda include: _expanded(folder, include[1], seen), text)
