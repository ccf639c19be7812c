"""OpenCL devices through pyopencl: the only module that imports it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.backends import opencl_devices
from convgrad.backends.device.account import Account
from convgrad.backends.device.backend import DeviceBackend
from convgrad.backends.device.driver import (
    CPU,
    GPU,
    SHAPES,
    Description,
    OutOfDeviceMemory,
    Profile,
    Triple,
)
from convgrad.backends.device.process import Process
from convgrad.backends.settings import choice_from_environment
from convgrad.errors import BackendUnavailable, BadFormatError, KernelBuildError
from convgrad.geometry.checks import option, shown

os.environ.setdefault("POCL_AFFINITY", "1")  # without it two of PoCL's threads may share a core
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # its cache turns a bad build option into a KeyError
try:
    import pyopencl as cl
except ImportError as error:
    message = f"pyopencl cannot be imported ({error}); pip install 'convgrad[opencl]'"
    raise BackendUnavailable(message) from None

_NO_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_RESOURCES,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,  # more than the largest piece
)


class OpenCLDriver:
    """See Driver. `queue`, of `context`, is in order; `shape` names the kernels that the device shall run."""

    def __init__(self, name: str, context: Any, queue: Any, shape: str) -> None:
        device = queue.device
        self.name = name
        self.device, self.identity, self.profile = _description(device, shape)
        self._context, self._queue = context, queue
        self._account = Account(self.profile)
        self._is_cpu = bool(device.type & cl.device_type.CPU)

    def allocate(self, nbytes: int) -> Any:
        """See Driver."""
        try:
            return self._piece(nbytes)
        except OutOfDeviceMemory:
            self._queue.finish()  # launches may still use memory that nothing else refers to
            return self._piece(nbytes)

    def _piece(self, nbytes: int) -> Any:
        """Memory that is really there; on CPUs ALLOC_HOST_PTR sees to that, PoCL would abort at first use."""
        share = self._account.take(nbytes)
        host = cl.mem_flags.ALLOC_HOST_PTR if self._is_cpu else 0
        try:
            memory = cl.Buffer(self._context, cl.mem_flags.READ_WRITE | host, nbytes)
            if not self._is_cpu:
                cl.enqueue_migrate_mem_objects(self._queue, [memory])
        except cl.Error as error:
            if error.code in _NO_MEMORY:
                raise self._account.refusal(nbytes) from error
            raise
        memory.share = share  # ends with it
        return memory

    def part(self, memory: Any, offset: int, nbytes: int) -> Any:
        """See Driver."""
        return memory.get_sub_region(offset, nbytes)

    # CPUs get plain copies too: a shared array would show what is written to it later, and to map memory and
    # copy takes as long as this. Copies block: pyopencl keeps the host's memory by an event that waits, with
    # Python's lock held, when it is forgotten, and a forked process would wait for ever.

    def upload(self, host: NDArray[Any], memory: Any) -> None:
        """See Driver."""
        cl.enqueue_copy(self._queue, memory, host, is_blocking=True)

    def download(self, memory: Any, host: NDArray[Any]) -> None:
        """See Driver."""
        cl.enqueue_copy(self._queue, host, memory, is_blocking=True)

    def build(self, source: str, options: Sequence[str]) -> Any:
        """See Driver."""
        program = cl.Program(self._context, source)
        try:
            with warnings.catch_warnings():  # of a log without errors: some runtimes always write one
                warnings.simplefilter("ignore", cl.CompilerWarning)
                return program.build(["-cl-std=CL1.2", *options], devices=[self._queue.device])
        except cl.RuntimeError as error:
            numbered = "\n".join(f"{n:5} {line}" for n, line in enumerate(source.splitlines(), 1))
            raise KernelBuildError(f"{self.device} refuses this program:\n{numbered}\n{error}") from None

    def kernel(self, program: Any, name: str) -> Any:
        """See Driver."""
        return _Kernel(program, name)

    def launch(self, kernel: Any, groups: Triple, items: Triple, arguments: Sequence[Any]) -> Any:
        """See Driver."""
        kernel.set(arguments)
        return cl.enqueue_nd_range_kernel(self._queue, kernel.object, groups, items, g_times_l=True)

    def seconds(self, event: Any) -> float:
        """See Driver."""
        event.wait()
        return 1e-9 * float(event.profile.end - event.profile.start)

    def synchronize(self) -> None:
        """See Driver."""
        self._queue.finish()


class _Kernel:
    """A kernel object that learns the types of its arguments when they are first set.

    pyopencl takes 10 us for each number whose type it was not told before, and 0.2 us for others.
    """

    def __init__(self, program: Any, name: str) -> None:
        self.object = cl.Kernel(program, name)
        self._knows_types = False

    def set(self, arguments: Sequence[Any]) -> None:
        """Set all arguments."""
        if not self._knows_types:
            types = [argument.dtype if isinstance(argument, np.generic) else None for argument in arguments]
            self.object.set_scalar_arg_dtypes(types)
            self._knows_types = True
        self.object.set_args(*arguments)


def _description(device: Any, shape: str) -> Description:
    text = f"{device.name.strip()} ({device.platform.name}, {device.driver_version})"
    identity = f"{device.platform.version}, {device.name.strip()}, {device.driver_version}"
    return Description(text, identity, _profile(device, shape))


def _profile(device: Any, shape: str) -> Profile:
    return Profile(
        shape=shape,
        vector=int(device.native_vector_width_float),
        units=int(device.max_compute_units),
        memory=int(device.global_mem_size),
        max_allocation=int(device.max_mem_alloc_size),
        local_memory=int(device.local_mem_size),
        alignment=max(128, int(device.mem_base_addr_align) // 8),
        float64="cl_khr_fp64" in device.extensions,
    )


def _platforms() -> list[tuple[str, list[Any]]]:
    try:
        with opencl_devices.intel_from_pip():
            return [(platform.name, _devices_of(platform)) for platform in cl.get_platforms()]
    except cl.Error:  # the loader's way to say that there are none
        return []


def _devices_of(platform: Any) -> list[Any]:
    try:
        return list(platform.get_devices())
    except cl.Error:  # a runtime that is broken must not hide the others
        return []


_PROCESS = Process("OpenCL")
_DEVICES = opencl_devices.named(_platforms())


def names() -> list[str]:
    """Names of all devices, the best first."""
    _PROCESS.check()
    return opencl_devices.best_first(_DEVICES)


def full_name(name: str) -> str:
    """The name "opencl:PLATFORM:DEVICE" of what `name` means, which may be "opencl"."""
    _PROCESS.check()
    return opencl_devices.full_name(name, _DEVICES)


def described(name: str) -> Description:
    """What is known of a device without opening it."""
    device = _DEVICES[full_name(name)]
    return _description(device, _shape(device))


def open_backend(name: str, shape: str | None = None, queue: Any = None) -> DeviceBackend:
    """The backend called "opencl", which is the best device, or "opencl:PLATFORM:DEVICE".

    shape: which kernels it runs, "cpu" or "gpu"; None = what CONVGRAD_SHAPE says, else what suits the device.
    queue: a pyopencl.CommandQueue, to be used with its context and device; it must be in order, and have
    profiling enabled where launches are to be timed. Raises BackendUnavailable and BadFormatError.
    """
    _PROCESS.check()
    if queue is None:
        name = full_name(name)
        context, queue = _opened(name)
    else:
        name = _name_on(queue, name)
        context = queue.context
    shape = shape or _shape(queue.device)
    return DeviceBackend(OpenCLDriver(name, context, queue, option("shape", shape, SHAPES)))


def _shape(device: Any) -> str:
    """Of kernels: what the environment says, else what suits the device."""
    suiting = CPU if device.type & cl.device_type.CPU else GPU
    return choice_from_environment("CONVGRAD_SHAPE", SHAPES) or suiting


def _opened(name: str) -> tuple[Any, Any]:
    """A context and a queue; with Intel's runtime the queue does not keep the context."""
    try:
        context = cl.Context([_DEVICES[name]])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        return context, cl.CommandQueue(context, properties=profiling)
    except cl.Error as error:
        raise BackendUnavailable(f"{name} cannot be opened: {error}") from None


def _name_on(queue: Any, name: str) -> str:
    """The full name of the queue's device, if it is what `name` means and the queue can be used."""
    if not isinstance(queue, cl.CommandQueue):
        raise BadFormatError(f"queue must be a pyopencl.CommandQueue, got {shown(queue)}")
    if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise BadFormatError("queue must be in order, got one with OUT_OF_ORDER_EXEC_MODE_ENABLE")
    own = [known for known, device in _DEVICES.items() if device == queue.device]
    if not own or name not in ("opencl", *own):
        raise BadFormatError(f"queue must be one of {name}, got one of {', '.join(own) or queue.device}")
    return own[0]
