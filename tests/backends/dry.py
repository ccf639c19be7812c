"""A device that is not there: it takes any amount of memory up to its limits and notes what is launched."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convgrad.backends.device.backend import DeviceBackend
from convgrad.backends.device.buffers import Buffer
from convgrad.backends.device.driver import OutOfDeviceMemory, Profile

MOST_GROUPS = {"cpu": (2**31 - 1,) * 3, "gpu": (2**31 - 1, 65535, 65535)}  # OpenCL's, and the least of CUDA's


class Piece(NamedTuple):
    """Memory."""

    nbytes: int


class Launched(NamedTuple):
    """What a launch was given."""

    name: str
    defines: tuple[str, ...]
    groups: tuple[int, int, int]
    numbers: tuple[np.generic, ...]


class DryDriver:
    """See convgrad.backends.device.driver.Driver; contents are not kept."""

    name, device, identity = "dry", "nothing", "dry"

    def __init__(self, shape, *, memory=1 << 50, max_allocation=1 << 50):
        self.profile = Profile(
            shape=shape,
            vector=16,
            units=2,
            memory=memory,
            max_allocation=max_allocation,
            local_memory=1 << 15,
            alignment=128,
            float64=True,
            groups=MOST_GROUPS[shape],
        )
        self.launched, self.allocated = [], []

    def allocate(self, nbytes):
        if nbytes > self.profile.max_allocation:
            raise OutOfDeviceMemory(nbytes, self.profile.memory)
        self.allocated.append(nbytes)
        return Piece(nbytes)

    def part(self, memory, offset, nbytes):
        assert offset % self.profile.alignment == 0
        assert 0 < nbytes <= memory.nbytes - offset
        return Piece(nbytes)

    def upload(self, host, memory):
        assert host.nbytes <= memory.nbytes

    def build(self, source, options):
        return tuple(options)

    def kernel(self, program, name):
        return name, program

    def launch(self, kernel, groups, items, arguments):
        numbers = tuple(a for a in arguments if isinstance(a, np.generic))
        self.launched.append(Launched(*kernel, groups, numbers))


def dry_backend(shape, **limits):
    """A backend on such a device."""
    return DeviceBackend(DryDriver(shape, **limits))


def dry(shape, dtype=np.float32):
    """An array of any size."""
    buffer = Buffer(None, shape, dtype)
    buffer.memory = Piece(buffer.nbytes)
    return buffer
