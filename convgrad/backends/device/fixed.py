"""Fixed numerics on devices: the kernels are in its order, so this only refuses what is not."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from convgrad.backends.device.conv import DeviceConv
from convgrad.errors import BackendUnavailable, BadFormatError
from convgrad.geometry.checks import shown
from convgrad.interfaces import IOperations

IN_ORDER = ("direct",)  # algorithms that keep the order of docs/numerics.md in every pass


class FixedConv(DeviceConv):
    """IConvOperations by the algorithms that keep the order."""

    def _provider(self, algorithm: str) -> str:
        if not isinstance(algorithm, str) or algorithm not in IN_ORDER:
            raise BadFormatError(
                "algorithm must, under fixed numerics, be one that keeps their order of sums: "
                f"{', '.join(IN_ORDER)}; got {shown(algorithm)}"
            )
        return algorithm


@implementer(IOperations)
class FixedOperations:
    """Operations of a DeviceBackend whose device has passed its check."""

    def __init__(self, backend: Any) -> None:
        check_arithmetic(backend)
        self.conv = FixedConv(backend)
        self.pool, self.update = backend.pool, backend.update


def check_arithmetic(backend: Any) -> None:
    """Refuse a device that fails its check, which is run when the device is new here."""
    from convgrad.backends import verdict

    found = verdict.on(backend)
    if not found.passed:
        raise BackendUnavailable(
            f"{backend.name} ({backend.device}) cannot keep fixed numerics, it fails its check "
            f"(`convgrad check` tries again): {found}"
        )
