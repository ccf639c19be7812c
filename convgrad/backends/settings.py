"""What the environment says to every backend."""

from __future__ import annotations

import os
from collections.abc import Sequence

from convgrad.errors import BadFormatError
from convgrad.geometry.checks import option, shown

DEFAULT_WORKSPACE = 64 << 20


def workspace_from_environment() -> int:
    """CONVGRAD_WORKSPACE in bytes, else 64 MiB."""
    return number_from_environment("CONVGRAD_WORKSPACE", DEFAULT_WORKSPACE, 2**62)


def number_from_environment(variable: str, default: int, most: int) -> int:
    """What `variable` says, 1 to `most`; `default` where it is not set."""
    text = os.environ.get(variable, str(default))
    if not text.isdecimal() or len(text) > len(str(most)) or not 1 <= int(text) <= most:
        raise BadFormatError(f"{variable} must be an integer from 1 to {most}, got {shown(text)}")
    return int(text)


def choice_from_environment(variable: str, choices: Sequence[str]) -> str | None:
    """What `variable` says, one of `choices`; None where it is not set or empty."""
    text = os.environ.get(variable)
    return option(variable, text, choices) if text else None
