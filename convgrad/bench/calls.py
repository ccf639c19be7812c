"""Who is timed: a backend of convgrad, or PyTorch in one of its layouts.

Each takes the operands of a layer in, makes calls without arguments of them, and gives results back by name.
A call allocates its results, as a user's call does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from convgrad import functional
from convgrad.bench.direct import Floats
from convgrad.bench.layers import Layer

OPERATIONS = ("forward", "err_input", "weights", "backward")  # the last is all gradients in one call
NEEDS = {"err_input": ("err_input",), "weights": ("weights",), "backward": ("err_input", "weights", "bias")}
LAYOUTS = {"NCHW": "contiguous_format", "NHWC": "channels_last"}  # in PyTorch's words

Results = dict[str, Any]
Call = Callable[[], Results]


class Contestant(Protocol):
    """`tolerance` is that of `direct.check`."""

    name: str
    tolerance: float

    def upload(self, given: dict[str, Floats]) -> dict[str, Any]:
        """The operands as arrays of its own."""

    def call(self, layer: Layer, operation: str, given: dict[str, Any]) -> Call:
        """One of OPERATIONS on what `upload` gave."""

    def download(self, results: Results) -> dict[str, Floats]:
        """The results of a call as ndarrays (N, H, W, C)."""


class OnBackend:
    """Device arrays of a backend, so that no copy to or from it is timed; a call waits for the device."""

    name = "convgrad"
    tolerance = 0.0

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def upload(self, given: dict[str, Floats]) -> dict[str, Any]:
        """See Contestant."""
        return {name: self._backend.array(array) for name, array in given.items()}

    def call(self, layer: Layer, operation: str, given: dict[str, Any]) -> Call:
        """See Contestant."""
        window: dict[str, Any] = {"padding": layer.geometry.padding, "sliding": layer.geometry.sliding}
        if operation == "forward":
            arrays = given["x"], given["weights"], given["bias"]
            function = partial(functional.conv_forward, *arrays, **window)
            return lambda: {"output": self._finished(function())}
        arrays = given["x"], given["weights"], given["err_output"]
        function = partial(functional.conv_backward, *arrays, need=NEEDS[operation], **window)
        return lambda: _asked_for(self._finished(function()))

    def _finished(self, results: Any) -> Any:
        self._backend.synchronize()
        return results

    def download(self, results: Results) -> dict[str, Floats]:
        """See Contestant."""
        return {name: array.get() for name, array in results.items()}


class InTorch:
    """PyTorch on the CPU with `threads` threads, all tensors in one of LAYOUTS."""

    tolerance = 1e-5  # it may choose algorithms that are not exact on whole numbers

    def __init__(self, layout: str, threads: int) -> None:
        self._torch: Any = import_module("torch")  # by name: the type checker need not have it
        self._torch.set_num_threads(threads)
        self._format = getattr(self._torch, LAYOUTS[layout])
        self.name = layout

    @staticmethod
    def version() -> str | None:
        """PyTorch's version; None where it is not installed."""
        return str(import_module("torch").__version__) if find_spec("torch") else None

    def upload(self, given: dict[str, Floats]) -> dict[str, Any]:
        """See Contestant."""
        return {name: self._tensor(array) for name, array in given.items()}

    def _tensor(self, array: Floats) -> Any:
        tensor = self._torch.from_numpy(array)
        if array.ndim == 1:
            return tensor
        return tensor.permute(0, 3, 1, 2).contiguous(memory_format=self._format)

    def call(self, layer: Layer, operation: str, given: dict[str, Any]) -> Call:
        """See Contestant."""
        left, top, right, bottom = layer.geometry.padding
        assert (left, top) == (right, bottom), "PyTorch pads both sides alike"
        options = [*reversed(layer.geometry.sliding)], [top, left], [1, 1], False, [0, 0], 1
        aten = self._torch.ops.aten
        if operation == "forward":
            function = partial(aten.convolution, given["x"], given["weights"], given["bias"], *options)
            return lambda: {"output": function()}
        arrays = given["err_output"], given["x"], given["weights"], [layer.geometry.n_kernels]
        wanted = [name in NEEDS[operation] for name in NEEDS["backward"]]
        function = partial(aten.convolution_backward, *arrays, *options, wanted)
        return lambda: _asked_for(function())

    def download(self, results: Results) -> dict[str, Floats]:
        """See Contestant."""
        arrays = {name: tensor.numpy() for name, tensor in results.items()}
        return {name: a if a.ndim == 1 else np.moveaxis(a, 1, 3) for name, a in arrays.items()}


def _asked_for(gradients: Any) -> Results:
    pairs = zip(NEEDS["backward"], gradients, strict=True)
    return {name: gradient for name, gradient in pairs if gradient is not None}
