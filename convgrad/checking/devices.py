"""What there is to compute on: every device of every backend, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from convgrad import backends
from convgrad.backends import verdict
from convgrad.backends.device.driver import Profile
from convgrad.backends.verdict import Verdict
from convgrad.errors import BadFormatError


@dataclass(frozen=True)
class Device:
    """A device by the name that `convgrad.backends.get` takes; `text` is in words, or why it is missing.

    `identity` and `profile` are None for what is missing, and for NumPy.
    """

    name: str
    present: bool
    text: str
    identity: str | None = None
    profile: Profile | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The kept verdict."""
        if self.identity is None or self.profile is None:
            return None
        return verdict.kept(self.identity, self.profile.shape)

    def examine(self) -> Verdict:
        """Check it now; the verdict on NumPy is not kept."""
        if self.identity is None or self.profile is None:
            return verdict.run(self.name)
        return verdict.examine(self.name, self.identity, self.profile.shape)

    def facts(self) -> dict[str, Any]:
        """For JSON: bytes of memory, whether it computes float64, shape of kernels, kept verdict in words."""
        told = {"name": self.name, "present": self.present, "text": self.text}
        if self.profile is None:
            return told
        kept = self.verdict
        return told | {
            "memory": self.profile.memory,
            "float64": self.profile.float64,
            "shape": self.profile.shape,
            "check": str(kept) if kept else None,
        }

    def __str__(self) -> str:
        if not self.present:
            return f"missing: {self.text}"
        if self.profile is None:
            return self.text
        memory, kept = f"{self.profile.memory / 2**30:.1f} GiB", self.verdict
        double = "float32 and float64" if self.profile.float64 else "float32 alone"
        return (
            f"{self.text}; {memory}, {double}, {self.profile.shape} kernels, check: {kept or 'not yet run'}"
        )


def devices() -> Iterator[Device]:
    """All, in the order of "auto". Devices of runtimes are listed, not opened."""
    for family in backends.AUTO_ORDER:
        try:
            yield from (
                _opencl() if family == "opencl" else [Device(family, True, backends.get(family).device)]
            )
        except RuntimeError as reason:  # BackendUnavailable, or that the process was forked
            yield Device(family, False, str(reason))


def _opencl() -> list[Device]:
    from convgrad.backends import opencl

    return [Device(name, True, *opencl.described(name)) for name in opencl.names()]


def chosen(wanted: Iterable[str]) -> list[Device]:
    """Those that are meant by `wanted`, names of devices or of backends; all where it is empty."""
    found = list(devices())
    names = list(wanted)
    return [device for name in names for device in _meant(name, found)] if names else found


def _meant(name: str, found: list[Device]) -> list[Device]:
    meant = [device for device in found if name in (device.name, device.name.partition(":")[0])]
    if not meant:
        raise BadFormatError(
            f"backend must be one of {', '.join(device.name for device in found)}, or opencl for all of its "
            f"devices; got {name!r}"
        )
    return meant
