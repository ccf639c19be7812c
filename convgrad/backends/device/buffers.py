"""Memory of a device: arrays, and the scratch memory that the launches of an operation share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from convgrad.backends.device.driver import Driver


class Buffer:
    """A C-contiguous array on a device; `memory` is None where it has no elements."""

    __slots__ = ("dtype", "memory", "shape")

    def __init__(self, memory: Any, shape: Sequence[int], dtype: DTypeLike) -> None:
        self.memory = memory
        self.shape = tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the content."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, shape: Sequence[int]) -> Buffer:
        """The same memory under another shape."""
        assert math.prod(shape) == self.size
        return Buffer(self.memory, shape, self.dtype)


class Scratch:
    """One piece of memory for all operations of a queue, as large as the largest request so far."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._memory: Any = None
        self._size = 0
        self._parts: dict[tuple[int, int], Any] = {}

    def parts(self, wanted: Sequence[tuple[str, int]]) -> dict[str, Any]:
        """Memory for each (role, bytes), which stays good until the next call; None for 0 bytes.

        After OutOfDeviceMemory there is no memory, and the next call starts anew.
        """
        places, end = {}, 0
        for role, nbytes in wanted:
            places[role] = end, nbytes
            end += -(-nbytes // self._driver.profile.alignment) * self._driver.profile.alignment
        if end > self._size:
            self._grow(end)
        return {role: self._part(*place) for role, place in places.items()}

    def _grow(self, size: int) -> None:
        self.release()  # first, since the device may not have room for both
        self._memory = self._driver.allocate(size)
        self._size = size

    def release(self) -> None:
        """Give the memory back; launches that use it still end well, the runtime sees to that."""
        self._parts.clear()
        self._memory, self._size = None, 0

    def _part(self, offset: int, nbytes: int) -> Any:
        if not nbytes:
            return None
        key = offset, nbytes
        if key not in self._parts:
            if len(self._parts) >= 1024:
                self._parts.clear()
            self._parts[key] = self._driver.part(self._memory, offset, nbytes)
        return self._parts[key]
