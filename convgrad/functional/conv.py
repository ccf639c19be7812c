"""Convolution and its gradients.

`x` (N, H, W, C); `weights` (n_kernels, ky, kx, C // groups); `bias` (n_kernels,); `err_output` and `output`
(N, OH, OW, n_kernels), `OH = floor((H + top + bottom - (ky - 1) * dilation_y - 1) / sliding_y) + 1`, OW
likewise. Gradients are sums over the batch, never means.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from convgrad.errors import BadFormatError
from convgrad.functional.calls import (
    COMMON,
    GRADIENTS,
    KEYWORDS,
    AnyArray,
    Call,
    Pair,
    Quad,
    check_activation,
    documented,
    wanted,
)
from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import option, pair, rank, whole, whole_numbers
from convgrad.interfaces import ACTIVATIONS, ConvGradients


@documented(__doc__, KEYWORDS, COMMON)
def conv_forward(
    x: AnyArray,
    weights: AnyArray,
    bias: AnyArray | None = None,
    *,
    padding: Quad = (0, 0, 0, 0),
    sliding: Pair = (1, 1),
    dilation: Pair = (1, 1),
    groups: int = 1,
    activation: str = "linear",
    backend: Any = None,
    numerics: str = "fast",
    algorithm: str | None = None,
) -> Any:
    """y (N, OH, OW, n_kernels) = activation(x cross-correlated with weights, + bias)."""
    call = Call(backend, numerics, ("bias",), x=x, weights=weights, bias=bias)
    option("activation", activation, ACTIVATIONS)
    window: Any = {"padding": padding, "sliding": sliding, "dilation": dilation, "groups": groups}
    geometry = ConvGeometry.of(x, weights, **window)
    geometry.check_bias(bias)
    out = call.empty((x.shape[0], *geometry.output_shape))
    call.operations.conv.forward(*call.buffers(), out, geometry, activation=activation, algorithm=algorithm)
    return call.result(out)


@documented(__doc__, KEYWORDS, COMMON)
def conv_backward(
    x: AnyArray,
    weights: AnyArray,
    err_output: AnyArray,
    *,
    output: AnyArray | None = None,
    need: Iterable[str] = GRADIENTS,
    padding: Quad = (0, 0, 0, 0),
    sliding: Pair = (1, 1),
    dilation: Pair = (1, 1),
    groups: int = 1,
    activation: str = "linear",
    backend: Any = None,
    numerics: str = "fast",
    algorithm: str | None = None,
) -> ConvGradients:
    """The gradients that `need` names, like x, like weights, and (n_kernels,); None for the others."""
    call = Call(backend, numerics, ("output",), x=x, weights=weights, err_output=err_output, output=output)
    check_activation(activation, output)
    window: Any = {"padding": padding, "sliding": sliding, "dilation": dilation, "groups": groups}
    geometry = ConvGeometry.of(x, weights, **window)
    _check_errors(geometry, err_output, output, x.shape[0])
    shapes = wanted(need, ConvGradients(x.shape, geometry.weights_shape, (geometry.n_kernels,)))
    options = {"activation": activation, "algorithm": algorithm}
    return call.gradients(call.operations.conv.backward, shapes, geometry, **options)


@documented(__doc__, KEYWORDS, COMMON)
def conv_input_gradient(
    err_output: AnyArray,
    weights: AnyArray,
    input_size: Pair,
    *,
    output: AnyArray | None = None,
    padding: Quad = (0, 0, 0, 0),
    sliding: Pair = (1, 1),
    dilation: Pair = (1, 1),
    groups: int = 1,
    activation: str = "linear",
    backend: Any = None,
    numerics: str = "fast",
    algorithm: str | None = None,
) -> Any:
    """err_input (N, H, W, C) with (H, W) = `input_size`, since several sizes lead to one err_output."""
    call = Call(
        backend, numerics, ("x", "output"), x=None, weights=weights, err_output=err_output, output=output
    )
    check_activation(activation, output)
    rank("weights", weights, "(n_kernels, ky, kx, C / groups)")
    size = whole_numbers("input_size", input_size, ("H", "W"), least=1)
    window: Any = {"padding": padding, "sliding": sliding, "dilation": dilation, "groups": groups}
    channels = weights.shape[3] * whole("groups", groups, least=1)
    geometry = ConvGeometry.of_sizes((*size, channels), weights, **window)
    _check_size(geometry, err_output)
    _check_errors(geometry, err_output, output, None)
    shapes = ConvGradients(err_input=(err_output.shape[0], *geometry.input_shape))
    options = {"activation": activation, "algorithm": algorithm}
    return call.gradients(call.operations.conv.backward, shapes, geometry, **options).err_input


@documented(__doc__, KEYWORDS, COMMON)
def conv_weight_gradient(
    x: AnyArray,
    err_output: AnyArray,
    kernel: Pair,
    *,
    output: AnyArray | None = None,
    padding: Quad = (0, 0, 0, 0),
    sliding: Pair = (1, 1),
    dilation: Pair = (1, 1),
    groups: int = 1,
    activation: str = "linear",
    backend: Any = None,
    numerics: str = "fast",
    algorithm: str | None = None,
) -> Any:
    """Gradient (n_kernels, ky, kx, C // groups) of the weights of a `kernel` = (x, y)."""
    call = Call(
        backend, numerics, ("weights", "output"), x=x, weights=None, err_output=err_output, output=output
    )
    check_activation(activation, output)
    rank("x", x, "(N, H, W, C)")
    rank("err_output", err_output, "(N, OH, OW, n_kernels)")
    window: Any = {"padding": padding, "sliding": sliding, "dilation": dilation, "groups": groups}
    sizes = (*x.shape[1:], err_output.shape[3], *pair("kernel", kernel))
    geometry = ConvGeometry(*sizes, **window)
    _check_errors(geometry, err_output, output, x.shape[0])
    shapes = ConvGradients(weights=geometry.weights_shape)
    options = {"activation": activation, "algorithm": algorithm}
    return call.gradients(call.operations.conv.backward, shapes, geometry, **options).weights


@documented(COMMON)
def bias_gradient(err_output: AnyArray, *, backend: Any = None, numerics: str = "fast") -> Any:
    """Gradient (channels,) of a bias: the sum of err_output (N, H, W, channels) over images and positions."""
    call = Call(backend, numerics, err_output=err_output)
    rank("err_output", err_output, "(N, H, W, channels)")
    out = call.empty(err_output.shape[3:])
    call.operations.conv.bias_gradient(*call.buffers(), out, batch=None)
    return call.result(out)


def _check_errors(
    geometry: ConvGeometry, err_output: AnyArray, output: AnyArray | None, batch: int | None
) -> None:
    geometry.check_output("err_output", err_output, batch)
    if output is not None:
        geometry.check_output("output", output, err_output.shape[0])


def _check_size(geometry: ConvGeometry, err_output: AnyArray) -> None:
    rank("err_output", err_output, "(N, OH, OW, n_kernels)")
    if err_output.shape[1:3] != geometry.output_shape[:2]:
        raise BadFormatError(
            f"input_size {geometry.input_shape[:2]} must lead to the size of err_output, "
            f"{err_output.shape[1:3]}; it leads to {geometry.output_shape[:2]}"
        )
