"""What the tests of units share: pairs of units set up from arrays, and a backend with memory of its own."""

from __future__ import annotations

import numpy as np
from zope.interface import implementer

from convgrad.interfaces import IBackend
from convgrad.units import conv, dense, pooling

DTYPES = ("float64", "float32")
ACTIVATIONS = ("linear", "tanh", "sigmoid", "relu", "strict_relu")
CONVS = {
    "linear": (conv.Conv, conv.GradientDescentConv),
    "tanh": (conv.ConvTanh, conv.GDTanhConv),
    "sigmoid": (conv.ConvSigmoid, conv.GDSigmoidConv),
    "relu": (conv.ConvRELU, conv.GDRELUConv),
    "strict_relu": (conv.ConvStrictRELU, conv.GDStrictRELUConv),
}
DENSES = {
    "linear": (dense.All2All, dense.GradientDescent),
    "tanh": (dense.All2AllTanh, dense.GDTanh),
    "sigmoid": (dense.All2AllSigmoid, dense.GDSigmoid),
    "relu": (dense.All2AllRELU, dense.GDRELU),
    "strict_relu": (dense.All2AllStrictRELU, dense.GDStrictRELU),
}
POOLS = {
    "max": (pooling.MaxPooling, pooling.GDMaxPooling),
    "maxabs": (pooling.MaxAbsPooling, pooling.GDMaxAbsPooling),
    "average": (pooling.AvgPooling, pooling.GDAvgPooling),
}
PLAIN = {"learning_rate": -1.0, "weights_decay": 0.0}  # with these a step is the raw gradient


def host(array):
    """A copy of the content of an Array."""
    array.map_read()
    return array.mem.copy()


def nan(shape, dtype="float64"):
    return np.full(shape, np.nan, dtype)


def ready(unit, backend, **attributes):
    """The unit with these attributes, initialized."""
    for name, value in attributes.items():
        setattr(unit, name, value)
    unit.initialize(backend)
    return unit


def ran(unit, backend, **attributes):
    """The unit with these attributes, initialized and run once."""
    ready(unit, backend, **attributes).run()
    return unit


def conv_twins(backend, x, weights, bias=None, *, activation="linear", backward=None, **window):
    """A forward unit that has run on these arrays, and its backward unit; weights (n_kernels, ky, kx, C)."""
    forward_class, backward_class = CONVS[activation]
    n_kernels, ky, kx, _ = weights.shape
    keywords = {"n_kernels": n_kernels, "kx": kx, "ky": ky, "include_bias": bias is not None} | window
    flat = weights.reshape(n_kernels, -1)
    stored = np.ascontiguousarray(flat.T) if window.get("weights_transposed") else flat.copy()
    forward = ran(forward_class(**keywords), backend, input=x, weights=stored, bias=_copy(bias))
    return forward, backward_class(**(backward or {})).link_forward(forward)


def dense_twins(backend, x, weights, bias=None, *, activation="linear", backward=None, **keywords):
    """The same for fully connected units; weights (neurons, inputs)."""
    forward_class, backward_class = DENSES[activation]
    keywords = {"output_sample_shape": len(weights), "include_bias": bias is not None} | keywords
    stored = np.ascontiguousarray(weights.T) if keywords.get("weights_transposed") else weights.copy()
    forward = ran(forward_class(**keywords), backend, input=x, weights=stored, bias=_copy(bias))
    return forward, backward_class(**(backward or {})).link_forward(forward)


def _copy(array):
    return None if array is None else array.copy()  # a step changes weights and bias in place


@implementer(IBackend)
class Apart:
    """NumPy's operations on buffers that are not the host's memory, as on a device.

    What a unit forgets to hand over, or to bring back, shows: new buffers hold NaN.
    """

    name = "apart"

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def operations(self, numerics):
        return self

    def empty(self, shape, dtype):
        return np.full(shape, -77 if np.dtype(dtype).kind in "iu" else np.nan, dtype)

    def upload(self, host, buffer=None):
        if buffer is None:
            return host.copy()
        buffer[...] = host
        return buffer
