"""Compiled programs of one device, and each thread's kernel objects."""

from __future__ import annotations

import threading
from typing import Any

from convgrad.backends.device.driver import Driver
from convgrad.backends.device.plan import Kernel
from convgrad.errors import KernelBuildError
from convgrad.kernel_source import kernel_text

_Program = tuple[str, tuple[str, ...]]


class Programs:
    """Builds each program once; `built` counts them. A kernel object belongs to the thread that asks."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._programs: dict[_Program, Any] = {}
        self._local = threading.local()

    @property
    def built(self) -> int:
        """Number of programs that were compiled."""
        return len(self._programs)

    def kernel(self, wanted: Kernel) -> Any:
        """The kernel object of this thread."""
        mine = self._local.__dict__.setdefault("kernels", {})
        if wanted not in mine:
            mine[wanted] = self._driver.kernel(self._program(wanted.file, wanted.defines), wanted.name)
        return mine[wanted]

    def _program(self, file: str, defines: tuple[str, ...]) -> Any:
        key = file, defines
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self._built(file, [f"-D{define}" for define in defines])
            return self._programs[key]

    def _built(self, file: str, options: list[str]) -> Any:
        try:
            return self._driver.build(kernel_text(file), options)
        except KernelBuildError as error:
            raise KernelBuildError(f"kernels/{file} with {' '.join(options)}: {error}") from None
