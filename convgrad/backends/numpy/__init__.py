"""The NumPy backend: vectorised NumPy and BLAS, spread over threads."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from zope.interface import implementer

from convgrad.backends.numpy.conv import NumpyConv
from convgrad.backends.numpy.pooling import NumpyPool
from convgrad.backends.numpy.threads import Threads
from convgrad.backends.numpy.update import NumpyUpdate
from convgrad.backends.settings import workspace_from_environment
from convgrad.geometry.checks import DTYPES, check_numerics, whole
from convgrad.interfaces import IBackend
from convgrad.memory import DeviceArray


@implementer(IBackend)
class NumpyBackend:
    """Buffers are ndarrays on the host; `threads` None = CONVGRAD_THREADS, else all cores."""

    name = "numpy"

    def __init__(self, *, threads: int | None = None) -> None:
        self.threads = Threads(None if threads is None else whole("threads", threads, least=1))
        self.workspace = workspace_from_environment()
        self.device = f"CPU, {self.threads.count} threads, NumPy {np.__version__}"
        self.conv = NumpyConv(self)
        self.pool = NumpyPool(self)
        self.update = NumpyUpdate(self)

    def operations(self, numerics: str) -> Any:
        """See IBackend."""
        return self if check_numerics(numerics) == "fast" else self._fixed

    @cached_property
    def _fixed(self) -> Any:
        from convgrad.backends.numpy.fixed import FixedOperations

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
        return np.dtype(dtype) in DTYPES

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """See IBackend."""
        return np.empty(shape, dtype)

    def upload(self, host: NDArray[Any], buffer: NDArray[Any] | None = None) -> NDArray[Any]:
        """See IBackend."""
        return host

    def download(self, buffer: NDArray[Any], host: NDArray[Any]) -> None:
        """See IBackend."""
        np.copyto(host, buffer)

    def array(self, host: NDArray[Any]) -> DeviceArray:
        """A copy of an ndarray for the functions of convgrad.functional; `get()` brings it back."""
        return DeviceArray(self, np.array(host, order="C"))

    def synchronize(self) -> None:
        """See IBackend; NumPy has always done what was asked of it."""

    def __repr__(self) -> str:
        return f"NumpyBackend({self.device})"
