"""Frozen lists of launches: what an operation does on a device, before any device is asked for anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convgrad.backends.device.driver import Triple

Parts = tuple[tuple[str, int], ...]  # roles and bytes of memory, each part disjoint
Argument = str | np.generic  # a buffer by its role in the operation, or a number


class Kernel(NamedTuple):
    """A kernel of a file in kernels/, compiled with `defines` such as "DOUBLE=0"."""

    file: str
    name: str
    defines: tuple[str, ...]


class Launch(NamedTuple):
    """One kernel over `groups` work-groups of `items` work-items."""

    kernel: Kernel
    groups: Triple
    items: Triple
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Plan:
    """Launches in order, and the scratch memory that they share."""

    launches: tuple[Launch, ...] = ()
    scratch: Parts = ()

    @property
    def scratch_bytes(self) -> int:
        """All scratch memory together, without alignment."""
        return sum(nbytes for _, nbytes in self.scratch)

    def __add__(self, other: Plan) -> Plan:
        return Plan(self.launches + other.launches, self.scratch + other.scratch)
