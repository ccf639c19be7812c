"""The registry of backends: find one by name, and say of each missing one why it is missing.

Names: "numpy", "opencl", "opencl:PLATFORM:DEVICE", "cuda", "cuda:N", "auto". None means the variable
CONVGRAD_BACKEND, else "auto": the first that is present of cuda, opencl, numpy. Nothing is timed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from convgrad.errors import BackendUnavailable, BadFormatError
from convgrad.interfaces import IBackend

AUTO_ORDER = ("cuda", "opencl", "numpy")

_lock = threading.Lock()
_open: dict[str, Any] = {}  # backends hold devices and worker threads: one of each name is enough
if hasattr(os, "register_at_fork"):  # a child must not inherit the lock while another thread holds it
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Availability(NamedTuple):
    """One line of `available()`: the device in words, or the reason why there is none."""

    name: str
    present: bool
    text: str


def get(backend: Any = None) -> Any:
    """The backend of this name, opened at first use; a backend object is returned as it is.

    Raises BackendUnavailable when it is known but missing, BadFormatError when it is not known.
    """
    if backend is None:
        backend = os.environ.get("CONVGRAD_BACKEND") or "auto"
    if not isinstance(backend, str):
        if not IBackend.providedBy(backend):
            raise BadFormatError(f"backend must be a name, None or a backend object, got {backend!r}")
        return backend
    if backend == "auto":
        return _first_present()
    with _lock:
        if backend not in _open:
            _open[backend] = _opener(backend)(backend)
        return _open[backend]


def available() -> list[Availability]:
    """Every backend in the order of "auto", with its device or the reason why it is missing."""
    return [_availability(name) for name in AUTO_ORDER]


def _availability(name: str) -> Availability:
    try:
        return Availability(name, True, get(name).device)
    except BackendUnavailable as reason:
        return Availability(name, False, str(reason))


def _first_present() -> Any:
    for name in AUTO_ORDER[:-1]:
        try:
            return get(name)
        except BackendUnavailable:
            continue
    return get(AUTO_ORDER[-1])


def _opener(name: str) -> Callable[[str], Any]:
    openers = {"numpy": _open_numpy, "opencl": _not_yet, "cuda": _not_yet}
    family, _, device = name.partition(":")
    if family not in openers or (family == "numpy" and device):
        raise BadFormatError(
            f"backend must be one of auto, {', '.join(openers)} or a device of them, got {name!r}"
        )
    return openers[family]


def _open_numpy(name: str) -> Any:
    from convgrad.backends.numpy import NumpyBackend

    return NumpyBackend()


def _not_yet(name: str) -> Any:
    family = name.partition(":")[0]
    raise BackendUnavailable(f'this version of convgrad has no {family} backend yet; use backend="numpy"')
