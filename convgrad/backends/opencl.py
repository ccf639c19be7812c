"""OpenCL devices through pyopencl: the only module that imports it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.backends.device.backend import DeviceBackend
from convgrad.backends.device.driver import CPU, GPU, OutOfDeviceMemory, Profile, Triple
from convgrad.errors import BackendUnavailable, KernelBuildError

os.environ.setdefault("POCL_AFFINITY", "1")  # without it PoCL's workers may share a core
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # its cache turns a bad build option into a KeyError
try:
    import pyopencl as cl
except ImportError as error:
    raise BackendUnavailable(f"pyopencl cannot be imported ({error}); pip install 'convgrad[opencl]'") from None


class OpenCLDriver:
    def __init__(self, name: str, device: Any, shape: str | None = None) -> None:
        self.name = name
        self._device = device
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.device = f"{device.name.strip()} ({device.platform.name}, {device.driver_version})"
        self.identity = f"{device.platform.version}, {device.name}, {device.driver_version}"
        self.profile = _profile(device, shape)

    def allocate(self, nbytes: int) -> Any:
        try:
            memory = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)
            cl.enqueue_migrate_mem_objects(self._queue, [memory])
        except (cl.MemoryError, cl.LogicError, cl.RuntimeError) as error:
            raise OutOfDeviceMemory(nbytes, self.profile.memory) from error
        return memory

    def part(self, memory: Any, offset: int, nbytes: int) -> Any:
        return memory.get_sub_region(offset, nbytes)

    def upload(self, host: NDArray[Any], memory: Any) -> None:
        cl.enqueue_copy(self._queue, memory, host, is_blocking=True)

    def download(self, memory: Any, host: NDArray[Any]) -> None:
        cl.enqueue_copy(self._queue, host, memory, is_blocking=True)

    def build(self, source: str, options: Sequence[str]) -> Any:
        try:
            return cl.Program(self._context, source).build(options=list(options))
        except cl.RuntimeError as error:
            numbered = "\n".join(f"{n:4} {line}" for n, line in enumerate(source.splitlines(), 1))
            raise KernelBuildError(f"{error}\n{numbered}") from None

    def kernel(self, program: Any, name: str) -> Any:
        return cl.Kernel(program, name)

    def launch(self, kernel: Any, groups: Triple, items: Triple, arguments: Sequence[Any]) -> Any:
        cells = tuple(g * i for g, i in zip(groups, items, strict=True))
        kernel.set_args(*arguments)
        return cl.enqueue_nd_range_kernel(self._queue, kernel, cells, items)

    def seconds(self, event: Any) -> float:
        event.wait()
        return 1e-9 * float(event.profile.end - event.profile.start)

    def synchronize(self) -> None:
        self._queue.finish()


def _profile(device: Any, shape: str | None) -> Profile:
    is_cpu = bool(device.type & cl.device_type.CPU)
    return Profile(
        shape=shape or os.environ.get("CONVGRAD_SHAPE") or (CPU if is_cpu else GPU),
        vector=int(device.native_vector_width_float),
        units=int(device.max_compute_units),
        memory=int(device.global_mem_size),
        max_allocation=int(device.max_mem_alloc_size),
        local_memory=int(device.local_mem_size),
        alignment=max(128, int(device.mem_base_addr_align) // 8),
        float64="cl_khr_fp64" in device.extensions,
    )


def open_backend(name: str, shape: str | None = None) -> DeviceBackend:
    """The backend called "opencl" (the best device there is) or "opencl:PLATFORM:DEVICE"."""
    devices = [(p, d, device) for p, platform in enumerate(cl.get_platforms()) for d, device in enumerate(platform.get_devices())]
    p, d, device = devices[0]
    return DeviceBackend(OpenCLDriver(f"opencl:{p}:{d}", device, shape))
