"""Compiled programs of one device, and their kernel objects."""

from __future__ import annotations

import threading
from typing import Any

from convgrad.backends.device.driver import Driver
from convgrad.backends.device.plan import Kernel
from convgrad.errors import KernelBuildError
from convgrad.kernel_source import kernel_text

_Program = tuple[str, tuple[str, ...]]


class Programs:
    """Builds each program once; `built` counts them.

    A kernel object keeps the arguments that were set last, so whoever sets them and launches has to keep
    other threads away meanwhile. One for each thread would need no such care, but runtimes do not give back
    all memory of an object when its thread has ended.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._programs: dict[_Program, Any] = {}
        self._kernels: dict[Kernel, Any] = {}

    @property
    def built(self) -> int:
        """Number of programs that were compiled."""
        return len(self._programs)

    def kernel(self, wanted: Kernel) -> Any:
        """The kernel object, always the same."""
        if wanted in self._kernels:
            return self._kernels[wanted]
        with self._lock:
            if wanted not in self._kernels:
                program = self._program(wanted.file, wanted.defines)
                self._kernels[wanted] = self._driver.kernel(program, wanted.name)
            return self._kernels[wanted]

    def _program(self, file: str, defines: tuple[str, ...]) -> Any:
        key = file, defines
        if key not in self._programs:
            self._programs[key] = self._built(file, [f"-D{define}" for define in defines])
        return self._programs[key]

    def _built(self, file: str, options: list[str]) -> Any:
        try:
            return self._driver.build(kernel_text(file), options)
        except KernelBuildError as error:
            raise KernelBuildError(f"kernels/{file} with {' '.join(options)}: {error}") from None
