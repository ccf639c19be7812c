"""The contracts, declared with zope.interface: what a backend offers, what a unit is.

Words used below. A *buffer* is what a backend computes on: an object with `.shape` and `.dtype` that the
backend made itself, and `.reshape(shape)`, the same memory under another shape. On NumPy it is an ndarray:
inputs may have any strides and alignment, outputs are C-contiguous. Operations are stateless, overwrite
every output in full and never modify an input. They check nothing but the names of options: geometry, and
functional or the unit, have done so before any launch. float32 and float64; all buffers of a call share one
dtype.

`algorithm` names a provider of the operation, None = the first suitable; "im2col" exists on every backend.
`unpack_size`: at most this many images per sub-block, None = as many as suit the workspace; where a
backend sums over leaves of several images (docs/numerics.md), whole leaves.

`batch`: the number of images that count, None = all. Rows past it are neither read nor summed; in outputs
they become +0.0.

`weights_transposed`: weights and their gradient are stored as (C * ky * kx / groups, n_kernels), the
transpose of their logical 2-D shape (n_kernels, ky * kx * C / groups).
"""

# Interface methods have no self, as zope.interface wants them.
# ruff: noqa: N805
# mypy: disable-error-code="no-untyped-def, empty-body"

from __future__ import annotations

from typing import Any, NamedTuple

from zope.interface import Attribute, Interface

from convgrad.geometry.checks import NUMERICS as NUMERICS  # noqa: PLC0414  # part of the contracts

ACTIVATIONS = ("linear", "tanh", "sigmoid", "relu", "strict_relu")


class ConvGradients(NamedTuple):
    """What a backward call gives, or the buffers it writes; None for what was not asked for."""

    err_input: Any = None
    weights: Any = None
    bias: Any = None


class IConvOperations(Interface):
    """Convolution, its gradients, and the adjoint; fully connected layers are 1x1 convolutions of 1x1 images.

    x (N, H, W, C), weights (n_kernels, taps), bias (n_kernels,), y and err_output (N, OH, OW, n_kernels),
    with the sizes of `geometry`. `activation` is one of ACTIVATIONS; `output` is the forward's result, and
    is needed where the activation is not linear.
    """

    def forward(
        x,
        weights,
        bias,
        out,
        geometry,
        *,
        activation="linear",
        weights_transposed=False,
        batch=None,
        algorithm=None,
        unpack_size=None,
    ):
        """out = activation(conv(x, weights) + bias); bias may be None."""

    def backward(
        x,
        weights,
        err_output,
        output,
        gradients,
        geometry,
        *,
        activation="linear",
        alpha=1.0,
        beta=0.0,
        weights_transposed=False,
        batch=None,
        algorithm=None,
        unpack_size=None,
    ):
        """Write those of `gradients` (ConvGradients of buffers) that are not None.

        With d = err_output * factor(output): err_input = alpha * (adjoint of conv)(d, weights) + beta * old
        err_input (not read when beta is 0); weights = sum over images and positions of d by x; bias = sum
        of d. x may be None when the weights' gradient is not wanted, weights when err_input is not.
        """

    def deconv_forward(
        x,
        weights,
        bias,
        out,
        geometry,
        *,
        activation="linear",
        weights_transposed=False,
        batch=None,
        algorithm=None,
        unpack_size=None,
    ):
        """out (N, H, W, C) = activation((adjoint of conv)(x, weights) + bias), x (N, OH, OW, n_kernels)."""

    def deconv_backward(
        x,
        weights,
        err_output,
        output,
        gradients,
        geometry,
        *,
        activation="linear",
        alpha=1.0,
        beta=0.0,
        weights_transposed=False,
        batch=None,
        algorithm=None,
        unpack_size=None,
    ):
        """As backward, for deconv_forward: err_output and output (N, H, W, C), bias (C,)."""

    def bias_gradient(err_output, out, *, batch=None):
        """out (K,) = sum of err_output (N, OH, OW, K) over images and positions."""


class IPoolOperations(Interface):
    """Pooling: x (N, H, W, C) -> out (N, OH, OW, C), with the sizes of `geometry`.

    `kind` is "max", "maxabs" or "average". `offset` is an int64 buffer like out: the flat index of each
    winner in the whole of x. The first maximum in raster order wins; a NaN wins over numbers, the first
    NaN first; maxabs compares |x| and gives the signed value.
    """

    def forward(x, out, offset, geometry, kind, *, batch=None):
        """Write out, and offset unless it is None (as it is for "average")."""

    def backward(err_output, offset, err_input, geometry, kind, *, batch=None):
        """Give each cell of err_input the sum of err_output over the windows that it won (max, maxabs).

        For "average": the sum of err_output / area over the windows that hold it.
        """


class IUpdateOperations(Interface):
    """The training step of one parameter."""

    def step(parameter, gradient, rule, *, accumulator=None, velocity=None, weights_transposed=False):
        """Apply `rule` (UpdateRule) in its order; accumulator and velocity, when not None, are updated too.

        Either all of parameter, accumulator and velocity are updated or, on a fault, none.
        """


class IOperations(Interface):
    """What computes, in numerics of one kind."""

    conv = Attribute("IConvOperations")
    pool = Attribute("IPoolOperations")
    update = Attribute("IUpdateOperations")


class IBackend(IOperations):
    """A place to compute: NumPy, an OpenCL device, a CUDA device. Its own operations are fast."""

    name = Attribute("The name that `convgrad.backends.get` takes, such as 'numpy' or 'opencl:0:1'.")
    device = Attribute("The device in words.")
    workspace = Attribute("Bytes of scratch memory that one operation may use; may be set.")

    def operations(numerics):
        """IOperations that compute in these numerics; for "fast" the backend itself.

        Those of "fixed" take float32 alone. Raises BadFormatError for unknown numerics, BackendUnavailable
        where the device cannot keep fixed ones.
        """

    def supports(dtype):
        """Whether arrays of this NumPy dtype can be computed on."""

    def empty(shape, dtype):
        """A new buffer with undefined content."""

    def upload(host, buffer=None):
        """A buffer with the content of the ndarray `host`: `buffer` if given; NumPy's is `host` itself."""

    def download(buffer, host):
        """Copy the content of `buffer` into the ndarray `host`; waits for it."""

    def array(host):
        """A DeviceArray with a copy of the ndarray `host`."""

    def synchronize():
        """Wait until the device has done all that was asked of it."""


class IUnit(Interface):
    """A piece of a net that is set up once and run many times."""

    name = Attribute("What messages, layer dicts and snapshots call it.")

    def link_attrs(other, *names):
        """Share attributes of another unit: each of `names` is a name, or a pair (own name, other's name)."""

    def initialize(device=None, *, numerics="fast"):
        """Check what is linked, allocate; device is a backend, its name, or None = the default one."""

    def run():
        """Compute once; raises unless initialize has been called for the present shapes."""


class IForwardUnit(IUnit):
    """Computes `output` from `input`."""

    input = Attribute("Array (N, ...)")
    output = Attribute("Array (N, ...)")


class IBackwardUnit(IUnit):
    """Computes `err_input` from `err_output`, and the step of the forward unit's parameters if it has any."""

    err_output = Attribute("Array like the forward unit's output; never modified")
    err_input = Attribute("Array like the forward unit's input")
    need_err_input = Attribute("Whether err_input is computed")

    def link_forward(forward):
        """Link everything this unit needs of its forward twin; returns self."""
