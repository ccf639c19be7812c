"""The backend of a device, whichever driver it has."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from zope.interface import implementer

from convgrad.backends.device.buffers import Buffer
from convgrad.backends.device.conv import DeviceConv
from convgrad.backends.device.driver import Driver
from convgrad.backends.device.execution import Executor, Timing
from convgrad.backends.device.fixed import FixedOperations
from convgrad.backends.device.pooling import DevicePool
from convgrad.backends.device.update import DeviceUpdate
from convgrad.backends.settings import workspace_from_environment
from convgrad.geometry.checks import DTYPES, check_numerics, whole
from convgrad.interfaces import IBackend
from convgrad.memory import DeviceArray


@implementer(IBackend)
class DeviceBackend:
    """Operations are enqueued in order and run while the host goes on, until it copies or waits."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.executor = Executor(driver)
        self.name, self.device = driver.name, driver.device
        self.workspace = workspace_from_environment()
        self.conv = DeviceConv(self)
        self.pool = DevicePool(self)
        self.update = DeviceUpdate(self)

    def operations(self, numerics: str) -> Any:
        """See IBackend; the first time that fixed is asked for, a device that is new here is checked."""
        return self if check_numerics(numerics) == "fast" else self._fixed

    @cached_property
    def _fixed(self) -> FixedOperations:
        return FixedOperations(self)

    @property
    def workspace(self) -> int:
        """See IBackend."""
        return self._workspace

    @workspace.setter
    def workspace(self, size: int) -> None:
        self._workspace = whole("workspace", size, least=1)

    def supports(self, dtype: DTypeLike) -> bool:
        """See IBackend."""
        wanted = np.dtype(dtype)
        return wanted in DTYPES and (wanted == np.float32 or self.driver.profile.float64)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Buffer:
        """See IBackend."""
        self.executor.check_process()
        buffer = Buffer(None, shape, dtype)
        if buffer.nbytes:
            buffer.memory = self.driver.allocate(buffer.nbytes)
        return buffer

    def upload(self, host: NDArray[Any], buffer: Buffer | None = None) -> Buffer:
        """See IBackend."""
        if buffer is None:
            buffer = self.empty(host.shape, host.dtype)
        assert (host.shape, host.dtype) == (buffer.shape, buffer.dtype)
        self.executor.check_process()
        if buffer.nbytes:
            self.driver.upload(np.ascontiguousarray(host), buffer.memory)
        return buffer

    def download(self, buffer: Buffer, host: NDArray[Any]) -> None:
        """See IBackend."""
        self.executor.check_process()
        if not buffer.nbytes:
            return
        straight = host if host.flags.c_contiguous else np.empty(host.shape, host.dtype)
        self.driver.download(buffer.memory, straight)
        if straight is not host:
            np.copyto(host, straight)

    def array(self, host: NDArray[Any]) -> DeviceArray:
        """A copy of an ndarray for the functions of convgrad.functional; `get()` brings it back."""
        return DeviceArray(self, self.upload(host))

    def synchronize(self) -> None:
        """See IBackend."""
        self.executor.check_process()
        self.driver.synchronize()

    def timing(self) -> AbstractContextManager[Timing]:
        """Collect (kernel, seconds on the device) of each launch within; filled in when it ends."""
        return self.executor.timing()

    def __repr__(self) -> str:
        return f"DeviceBackend({self.name}, {self.device})"
