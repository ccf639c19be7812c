"""What the environment says to every backend."""

from __future__ import annotations

import os
from collections.abc import Sequence

from convgrad.errors import BadFormatError
from convgrad.geometry.checks import option

DEFAULT_WORKSPACE = 64 << 20


def workspace_from_environment() -> int:
    """CONVGRAD_WORKSPACE in bytes, else 64 MiB."""
    text = os.environ.get("CONVGRAD_WORKSPACE", str(DEFAULT_WORKSPACE))
    if not text.isdecimal() or int(text) < 1:
        raise BadFormatError(f"CONVGRAD_WORKSPACE must be a positive number of bytes, got {text!r}")
    return int(text)


def choice_from_environment(variable: str, choices: Sequence[str]) -> str | None:
    """What `variable` says, one of `choices`; None where it is not set or empty."""
    text = os.environ.get(variable)
    return option(variable, text, choices) if text else None
