"""Arrays that live on the host and, where there is one, on a device.

`DeviceArray` is a result on a device, owned by its backend. `Array` is what units share: a host array
and a device buffer with a record of which of the two is current.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from convgrad.errors import BadFormatError


class DeviceArray:
    """An array on a backend's device; `get` brings it to the host."""

    __slots__ = ("backend", "buffer")

    def __init__(self, backend: Any, buffer: Any) -> None:
        self.backend = backend
        self.buffer = buffer

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""
        return tuple(self.buffer.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        dtype: np.dtype[Any] = self.buffer.dtype
        return dtype

    def get(self) -> NDArray[Any]:
        """A new ndarray with the content; waits for the device."""
        host = np.empty(self.shape, self.dtype)
        self.backend.download(self.buffer, host)
        return host

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """What `numpy.asarray(array)` gives: `get()`."""
        if copy is False:
            raise ValueError("an array on a device cannot be an ndarray without a copy")
        return self.get().astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"DeviceArray({self.shape}, {self.dtype}, on {self.backend.name})"


class Array:
    """A host array `mem` and its copy on the device that units run on.

    Reading `mem` brings the newest content. Before the host changes it, it maps: `map_write` to change some,
    `map_invalidate` to overwrite all; until then what `mem` gives is read-only where the device has a copy
    that would not see the change. `unmap` hands the content back to the device. Operations take `read_buffer`
    and `write_buffer`, which unmap by themselves. On NumPy both copies are one memory and all of this costs
    nothing. `host` is the host's memory as it is, newest or not.

    Truthy when there is content. `max_supposed` is the largest magnitude that the array's producer can give;
    consumers scale their initial weights by it. With `shallow_pickle` only shape and dtype are pickled and
    come back as zeros: outputs and err_input are made anew by the next run.
    """

    def __init__(self, mem: NDArray[Any] | None = None, *, shallow_pickle: bool = False) -> None:
        self.shallow_pickle = shallow_pickle
        self.max_supposed = 1.0
        self._backend: Any = None
        self.reset(mem)

    def reset(self, mem: NDArray[Any] | None = None) -> None:
        """Take `mem` as the content, without copying; the device copy is dropped."""
        if mem is not None and not isinstance(mem, np.ndarray):
            raise BadFormatError(f"mem must be a numpy.ndarray or None, got {type(mem).__name__}")
        self.host = mem
        self._device: Any = None
        self._host_current = True
        self._device_current = False

    @property
    def mem(self) -> NDArray[Any] | None:
        """The content, brought to the host if the device has a newer one; None when empty."""
        self.map_read()
        if self.host is None or not self._device_current or self._shared:
            return self.host
        view = self.host.view()
        view.flags.writeable = False  # the device would not see what is written
        return view

    @mem.setter
    def mem(self, mem: NDArray[Any] | None) -> None:
        self.reset(mem)

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Have content of this shape and dtype: what is there if it fits, else zeros."""
        if self.host is None or self.host.shape != tuple(shape) or self.host.dtype != np.dtype(dtype):
            self.reset(np.zeros(shape, dtype))

    def initialize(self, backend: Any) -> None:
        """Live on `backend` from now on; content on another one is brought to the host first."""
        if backend is not self._backend:
            self.map_write()
            self._device, self._device_current = None, False
            self._backend = backend

    def map_read(self) -> None:
        """Make the host's memory current, to read it."""
        if not self._host_current:
            self._backend.download(self._device, self.host)
            self._host_current = True

    def map_write(self) -> None:
        """Make the host's memory current and `mem` writable, to change some of it."""
        self.map_read()
        self._device_current = self._shared

    def map_invalidate(self) -> None:
        """Make `mem` writable without bringing the content, to overwrite all of it."""
        self._host_current = True
        self._device_current = self._shared

    def unmap(self) -> None:
        """Make the device copy current."""
        if self._backend is not None and self.host is not None and not self._device_current:
            self._device = self._backend.upload(self.host, self._device)
            self._device_current = True

    def read_buffer(self) -> Any:
        """The backend's buffer with the present content, for an operation that reads it; None when empty."""
        self.unmap()
        return self._device

    def write_buffer(self, *, keep: bool) -> Any:
        """The backend's buffer for an operation that changes it (`keep`) or overwrites all of it."""
        if keep or self._shared or self._device is None:  # the first upload also finds out what is shared
            self.unmap()
        self._device_current = True
        self._host_current = self._shared
        return self._device

    @property
    def _shared(self) -> bool:
        return self._device is not None and self._device is self.host

    def _current(self) -> NDArray[Any]:
        mem = self.mem
        return self._content() if mem is None else mem

    def _content(self) -> NDArray[Any]:
        if self.host is None:
            raise BadFormatError("the Array is empty")
        return self.host

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""
        return self._content().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._content().dtype

    @property
    def size(self) -> int:
        """Number of elements; 0 when empty."""
        return 0 if self.host is None else self.host.size

    @property
    def sample_size(self) -> int:
        """Elements of one sample."""
        return math.prod(self.shape[1:])

    @property
    def plain(self) -> NDArray[Any]:
        """`mem` as one axis."""
        return self._current().reshape(-1)

    @property
    def matrix(self) -> NDArray[Any]:
        """`mem` as (samples, sample_size)."""
        return self._current().reshape(self.shape[0], self.sample_size)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """What `numpy.asarray(array)` gives: `mem`, made current."""
        self.map_read()
        return np.array(self._content(), dtype, copy=copy)

    def __len__(self) -> int:
        return 0 if self.host is None else len(self.host)

    def __bool__(self) -> bool:
        return self.size > 0

    def __repr__(self) -> str:
        return "Array()" if self.host is None else f"Array({self.shape}, {self.dtype})"

    def __getstate__(self) -> dict[str, Any]:
        self.map_read()
        shallow = self.shallow_pickle and self.host is not None
        return {
            "mem": (self.shape, self.dtype) if shallow else self.host,
            "shallow_pickle": self.shallow_pickle,
            "max_supposed": self.max_supposed,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        mem = state["mem"]
        self.__init__(np.zeros(*mem) if isinstance(mem, tuple) else mem)  # type: ignore[misc]  # same set-up
        self.shallow_pickle = state["shallow_pickle"]
        self.max_supposed = state["max_supposed"]
