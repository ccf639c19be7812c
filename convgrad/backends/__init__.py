"""The registry of backends: find one by name, and say of each missing one why it is missing.

Names: "numpy", "opencl", "opencl:PLATFORM:DEVICE", "cuda", "cuda:N", "auto". None means the variable
CONVGRAD_BACKEND, else "auto": the first of cuda, opencl, numpy that is present and passes its check, which is
run when a device is new here. Nothing is timed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from convgrad.errors import BackendUnavailable, BadFormatError
from convgrad.interfaces import IBackend

AUTO_ORDER = ("cuda", "opencl", "numpy")

_lock = threading.Lock()
_open: dict[str, Any] = {}  # by full name; backends hold devices and worker threads: one of each is enough
_chosen: dict[str, str] = {}  # what "auto" means in this process
if hasattr(os, "register_at_fork"):  # a child must not inherit the lock while another thread holds it
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Availability(NamedTuple):
    """One line of `available()`: the device in words, or the reason why there is none."""

    name: str
    present: bool
    text: str


def get(backend: Any = None) -> Any:
    """The backend of this name, opened at first use; a backend object is returned as it is.

    "opencl" gives the same object as the full name of the device that it stands for. Raises
    BackendUnavailable when the backend is known but missing, BadFormatError when it is not known, and
    RuntimeError in a process that was forked after a device of that kind was opened.
    """
    if backend is None:
        backend = os.environ.get("CONVGRAD_BACKEND") or "auto"
    if not isinstance(backend, str):
        if not IBackend.providedBy(backend):
            raise BadFormatError(f"backend must be a name, None or a backend object, got {backend!r}")
        return backend
    if backend == "auto":
        return _first_present()
    return _opener(backend)(backend)


def available() -> list[Availability]:
    """Every backend in the order of "auto", with its device or the reason why it is missing."""
    return [_availability(name) for name in AUTO_ORDER]


def _availability(name: str) -> Availability:
    try:
        return Availability(name, True, get(name).device)
    except RuntimeError as reason:  # BackendUnavailable, or that the process was forked
        return Availability(name, False, str(reason))


def _first_present() -> Any:
    if "auto" not in _chosen:
        _chosen["auto"] = _choice()
    return get(_chosen["auto"])


def _choice() -> str:
    from convgrad.backends import verdict

    for name in _candidates():
        try:
            backend = get(name)
        except BackendUnavailable:
            continue
        if verdict.passes(backend):
            return str(backend.name)
    return AUTO_ORDER[-1]


def _candidates() -> Iterator[str]:
    """Devices in the order of "auto"."""
    yield "cuda"
    try:
        from convgrad.backends import opencl
    except BackendUnavailable:
        return
    yield from opencl.names()


def _opener(name: str) -> Callable[[str], Any]:
    openers = {"numpy": _get_numpy, "opencl": _get_opencl, "cuda": _not_yet}
    family, _, device = name.partition(":")
    if family not in openers or (family == "numpy" and device):
        raise BadFormatError(
            f"backend must be one of auto, {', '.join(openers)} or a device of them, got {name!r}"
        )
    return openers[family]


def _get_numpy(name: str) -> Any:
    from convgrad.backends.numpy import NumpyBackend

    return _kept(name, lambda _: NumpyBackend())


def _get_opencl(name: str) -> Any:
    from convgrad.backends import opencl

    return _kept(opencl.full_name(name), opencl.open_backend)


def _kept(full_name: str, opening: Callable[[str], Any]) -> Any:
    with _lock:
        if full_name not in _open:
            _open[full_name] = opening(full_name)
        return _open[full_name]


def _not_yet(name: str) -> Any:
    family = name.partition(":")[0]
    raise BackendUnavailable(f'this version of convgrad has no {family} backend yet; use backend="numpy"')
