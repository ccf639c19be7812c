"""What the device layer wants of a runtime: OpenCL and CUDA each have one driver, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import ConvgradError

Triple = tuple[int, int, int]
CPU, GPU = "cpu", "gpu"  # shapes of kernels
SHAPES = (CPU, GPU)


@dataclass(frozen=True)
class Profile:
    """What plans need to know of a device; sizes in bytes.

    shape: which kernels suit it: "cpu" (one work-item per group, tiles of vectors) or "gpu" (groups with
    local memory). vector: floats in a vector register. units: compute units. alignment: of parts of a buffer.
    groups: of one launch, at most, along x, y, z.
    """

    shape: str
    vector: int
    units: int
    memory: int
    max_allocation: int
    local_memory: int
    alignment: int
    float64: bool
    groups: Triple = (2**31 - 1, 2**31 - 1, 2**31 - 1)  # kernels count them in int


class Description(NamedTuple):
    """A device in words, `identity` for caches of results, and its profile: see Driver."""

    device: str
    identity: str
    profile: Profile


class OutOfDeviceMemory(ConvgradError, MemoryError):  # noqa: N818  # as MemoryError itself
    """The device has no room for `nbytes` more; it has `available` in all."""

    def __init__(self, nbytes: int, available: int, details: str = "") -> None:
        super().__init__(f"the device has no room for {nbytes} bytes; it has {available} in all{details}")
        self.nbytes = nbytes


class Driver(Protocol):
    """One device and its in-order queue. Memory is an object of the runtime, freed when nothing refers to it.

    `name` is the backend's, `device` the device in words, `identity` names device, driver and versions for
    caches of results.
    """

    name: str
    device: str
    identity: str
    profile: Profile

    def allocate(self, nbytes: int) -> Any:
        """At least `nbytes` (> 0) of memory; raises OutOfDeviceMemory now, not at first use."""

    def part(self, memory: Any, offset: int, nbytes: int) -> Any:
        """A part of `memory`; offset is a multiple of the profile's alignment."""

    def upload(self, host: NDArray[Any], memory: Any) -> None:
        """Copy a C-contiguous array; when it returns, `host` may be changed."""

    def download(self, memory: Any, host: NDArray[Any]) -> None:
        """Copy into a C-contiguous array; waits for all that was launched before."""

    def build(self, source: str, options: Sequence[str]) -> Any:
        """A program; raises KernelBuildError with the log and the numbered source."""

    def kernel(self, program: Any, name: str) -> Any:
        """A new kernel object; one thread at a time sets its arguments and launches it."""

    def launch(self, kernel: Any, groups: Triple, items: Triple, arguments: Sequence[Any]) -> Any:
        """Enqueue; arguments are memory, None (a null pointer) and NumPy scalars. Returns an event."""

    def seconds(self, event: Any) -> float:
        """How long a launch took on the device; waits for it."""

    def synchronize(self) -> None:
        """Wait until all that was asked for is done."""


def scalars(*values: int) -> tuple[np.int32, ...]:
    """Arguments for kernel parameters of type int; raises ConvgradError for what does not fit."""
    for value in values:
        if not -(2**31) <= value < 2**31:
            raise ConvgradError(f"too large for this device: kernels count below 2**31, this needs {value}")
    return tuple(np.int32(value) for value in values)
