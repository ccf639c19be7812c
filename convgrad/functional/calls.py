"""What all functions share: the backend of a call, its arrays on it, its options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from convgrad import backends
from convgrad.errors import BadFormatError
from convgrad.geometry.checks import (
    addressable,
    check_numerics,
    check_single,
    common_dtype,
    items,
    option,
    shown,
)
from convgrad.interfaces import ACTIVATIONS, ConvGradients
from convgrad.memory import DeviceArray

AnyArray = NDArray[Any] | DeviceArray
Pair = tuple[int, int]
Quad = tuple[int, int, int, int]
GRADIENTS = ConvGradients._fields

COMMON = """All arrays of a call are float32 or all float64, in native byte order; all are ndarrays (of any
strides) or all device arrays of one backend. Results are of the same kind and dtype, new and C-contiguous. No
argument is ever modified. What does not fit raises BadFormatError before anything is computed.

- backend: a name, a backend object, or None: that of the device arrays, else the default one;
- numerics: "fast", or "fixed": the same bits on every backend, float32 alone (docs/numerics.md)."""

KEYWORDS = """- padding: (left, top, right, bottom) cells around the image; sliding, dilation: (x, y) cells;
- groups: consecutive groups of channels, each seen by its own n_kernels // groups kernels;
- activation: "linear", "tanh" (1.7159 * tanh(0.6666 * s)), "sigmoid", "relu" (softplus, log(1 + exp(s))) or
  "strict_relu" (max(s, 0)); the gradients of all but the first need `output`, the forward's result;
- algorithm: the name of a provider, such as "im2col", or None for the first that is suitable; where numerics
  are fixed, one that keeps its order, such as "direct"."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def documented(*texts: str | None) -> Callable[[_Function], _Function]:
    """Append to a docstring what a function shares with others, so that help() tells it too."""

    def add(function: _Function) -> _Function:
        function.__doc__ = "\n\n".join(text.strip() for text in (function.__doc__, *texts) if text)
        return function

    return add


class Call:
    """One call on one backend. `arrays` by name, in the operation's order; `optional` ones may be None."""

    def __init__(self, backend: Any, numerics: str, optional: tuple[str, ...] = (), **arrays: Any) -> None:
        check_numerics(numerics)
        self._arrays = arrays
        given = {name: a for name, a in arrays.items() if a is not None or name not in optional}
        owner = _owner(given)
        self._on_device = owner is not None
        self.backend = owner if backend is None and self._on_device else backends.get(backend)
        if self._on_device and self.backend is not owner:
            raise BadFormatError(
                f"backend must be that of the arrays, {owner.name!r}, or None; got {self.backend.name!r}"
            )
        self.dtype = common_dtype({name: array for name, array in given.items() if name != "offset"})
        if not self.backend.supports(self.dtype):
            raise BadFormatError(f"arrays must have a dtype that {self.backend.device} has, got {self.dtype}")
        check_single(numerics, given)
        self.operations = self.backend.operations(numerics)

    def buffers(self) -> list[Any]:
        """The arrays as the backend's buffers; to be asked for when all checks are done."""
        return [None if array is None else self._buffer(array) for array in self._arrays.values()]

    def _buffer(self, array: AnyArray) -> Any:
        if isinstance(array, DeviceArray):
            return array.buffer
        return self.backend.upload(np.asarray(array))  # plain, since subclasses have rules of their own

    def empty(self, shape: tuple[int, ...], dtype: type[np.generic] | None = None) -> Any:
        """A buffer for a result."""
        addressable("the result", shape)
        return self.backend.empty(shape, self.dtype if dtype is None else np.dtype(dtype))

    def result(self, buffer: Any) -> Any:
        """The buffer as the kind of array that the caller works with; None stays None."""
        if buffer is None:
            return None
        if self._on_device:
            return DeviceArray(self.backend, buffer)
        return buffer if isinstance(buffer, np.ndarray) else DeviceArray(self.backend, buffer).get()

    def gradients(
        self, operation: Callable[..., None], shapes: ConvGradients, geometry: Any, **options: Any
    ) -> ConvGradients:
        """Those gradients whose shape is not None, by `operation`."""
        out = ConvGradients(*(None if shape is None else self.empty(shape) for shape in shapes))
        operation(*self.buffers(), out, geometry, **options)
        return ConvGradients(*map(self.result, out))


def check_activation(activation: str, output: AnyArray | None) -> None:
    """Refuse an unknown activation, and the gradients of one whose output is missing."""
    if option("activation", activation, ACTIVATIONS) != "linear" and output is None:
        raise BadFormatError(
            f"output must be the forward's result where activation is {activation!r}, got None"
        )


def wanted(need: Iterable[str], shapes: ConvGradients) -> ConvGradients:
    """The shapes of those gradients that `need` names; None for the others."""
    names = items(need)
    if not names or not all(isinstance(name, str) and name in GRADIENTS for name in names):
        known, got = ", ".join(GRADIENTS), need if names is None else names
        raise BadFormatError(f"need must be a tuple of names from {known}; got {shown(got)}")
    return ConvGradients(*(shape if name in names else None for name, shape in shapes._asdict().items()))


def _owner(arrays: dict[str, Any]) -> Any:
    """The backend whose device arrays these are; None when they are ndarrays."""
    first = next(iter(arrays))
    owner = _home(first, arrays[first])
    for name, array in arrays.items():
        if _home(name, array) is not owner:
            raise BadFormatError(f"{name} must be {_kind(arrays[first])}, as {first} is; got {_kind(array)}")
    return owner


def _home(name: str, array: Any) -> Any:
    if isinstance(array, DeviceArray):
        return array.backend
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise BadFormatError(f"{name} must be a numpy.ndarray or a device array, got {type(array).__name__}")
    return None


def _kind(array: AnyArray) -> str:
    return (
        f"a device array on {array.backend.name!r}" if isinstance(array, DeviceArray) else "a numpy.ndarray"
    )
