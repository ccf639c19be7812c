"""Drivers around a driver: one that fails on demand, one that counts, one with less memory."""

from __future__ import annotations

import math
import weakref
from collections import Counter
from dataclasses import replace

from convgrad.backends.device.backend import DeviceBackend
from convgrad.backends.device.driver import OutOfDeviceMemory


class Wrapper:
    """Hands everything on to another driver."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


class FaultyDriver(Wrapper):
    """Raises at the n-th call of those that may fail; `calls` names those since it was armed."""

    def __init__(self, inner):
        super().__init__(inner)
        self.arm(None)

    def arm(self, number, error=None):
        """Count from 1 anew and fail, once, at call `number`; None: never."""
        self.calls, self._number, self._error = [], number, error or RuntimeError("injected")

    def allocate(self, nbytes):
        self._call("allocate")
        return self._inner.allocate(nbytes)

    def upload(self, host, memory):
        self._call("upload")
        self._inner.upload(host, memory)

    def launch(self, kernel, groups, items, arguments):
        self._call("launch")
        return self._inner.launch(kernel, groups, items, arguments)

    def _call(self, name):
        self.calls.append(name)
        if len(self.calls) == self._number:
            raise self._error


class CountingDriver(Wrapper):
    """Counts the calls of each kind in `calls` and their bytes in `bytes`; `live` is the memory in use."""

    def __init__(self, inner):
        super().__init__(inner)
        self._pieces = weakref.WeakSet()
        self.clear()

    def clear(self):
        """Count anew."""
        self.calls, self.bytes = Counter(), Counter()

    @property
    def live(self):
        """(Pieces of memory that something refers to, their bytes)."""
        sizes = [piece.nbytes for piece in self._pieces]
        return len(sizes), sum(sizes)

    def allocate(self, nbytes):
        self._count("allocate", nbytes)
        piece = Piece(self._inner.allocate(nbytes), nbytes)
        self._pieces.add(piece)
        return piece

    def part(self, memory, offset, nbytes):
        return Piece(self._inner.part(memory.inner, offset, nbytes), nbytes)

    def upload(self, host, memory):
        self._count("upload", host.nbytes)
        self._inner.upload(host, memory.inner)

    def download(self, memory, host):
        self._count("download", host.nbytes)
        self._inner.download(memory.inner, host)

    def launch(self, kernel, groups, items, arguments):
        self._count("launch", 0)
        plain = [a.inner if isinstance(a, Piece) else a for a in arguments]
        return self._inner.launch(kernel, groups, items, plain)

    def _count(self, name, nbytes):
        self.calls[name] += 1
        self.bytes[name] += nbytes


class Piece:
    """Memory that can be watched; a runtime's own objects cannot."""

    def __init__(self, inner, nbytes):
        self.inner, self.nbytes = inner, nbytes


class SmallDriver(Wrapper):
    """Has no room for pieces of more than `limit` bytes; what was asked for is in `granted` and `refused`."""

    def __init__(self, inner, limit=math.inf):
        super().__init__(inner)
        self.limit, self.granted, self.refused = limit, [], []

    def allocate(self, nbytes):
        if nbytes > self.limit:
            self.refused.append(nbytes)
            raise OutOfDeviceMemory(nbytes, self.profile.memory)
        self.granted.append(nbytes)
        return self._inner.allocate(nbytes)


class OtherProfile(Wrapper):
    """A driver that says other things of its device."""

    def __init__(self, inner, **changes):
        super().__init__(inner)
        self.profile = replace(inner.profile, **changes)


def around(backend, wrapper, *arguments, **keywords):
    """A backend on the same device through `wrapper`, with the programs that `backend` has built."""
    made = DeviceBackend(wrapper(backend.driver, *arguments, **keywords))
    made.executor.programs = backend.executor.programs
    return made
