"""Transposed convolution: the adjoint of the convolution with the same weights and keywords.

`x` (N, h, w, n_kernels) -> y (N, H, W, C); `weights` (n_kernels, ky, kx, C // groups); `bias` (C,);
`err_output` and `output` (N, H, W, C).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
from convgrad.geometry import DeconvGeometry
from convgrad.geometry.checks import option, rank
from convgrad.interfaces import ACTIVATIONS, ConvGradients


@documented(__doc__, KEYWORDS, COMMON)
def deconv_forward(
    x: AnyArray,
    weights: AnyArray,
    bias: AnyArray | None = None,
    *,
    output_size: Pair | None = None,
    padding: Quad = (0, 0, 0, 0),
    sliding: Pair = (1, 1),
    dilation: Pair = (1, 1),
    groups: int = 1,
    activation: str = "linear",
    backend: Any = None,
    numerics: str = "fast",
    algorithm: str | None = None,
) -> Any:
    """y (N, H, W, C) = activation((adjoint of the convolution)(x) + bias).

    `output_size` (H, W) is any size that the convolution leads back to x's; None = the smallest,
    `sliding * (n - 1) + dilation * (k - 1) + 1 - pads`.
    """
    call = Call(backend, numerics, ("bias",), x=x, weights=weights, bias=bias)
    option("activation", activation, ACTIVATIONS)
    window: Any = {"padding": padding, "sliding": sliding, "dilation": dilation, "groups": groups}
    geometry = DeconvGeometry.of(x, weights, output_size=output_size, **window)
    geometry.check_bias(bias)
    out = call.empty((x.shape[0], *geometry.output_shape))
    options = {"activation": activation, "algorithm": algorithm}
    call.operations.conv.deconv_forward(*call.buffers(), out, geometry.conv, **options)
    return call.result(out)


@documented(__doc__, KEYWORDS, COMMON)
def deconv_backward(
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
    """The gradients that `need` names, like x, like weights, and (C,); None for the others.

    The output size is err_output's.
    """
    call = Call(backend, numerics, ("output",), x=x, weights=weights, err_output=err_output, output=output)
    check_activation(activation, output)
    rank("err_output", err_output, "(N, H, W, C)")
    window: Any = {"padding": padding, "sliding": sliding, "dilation": dilation, "groups": groups}
    _, height, width, _ = err_output.shape
    size: Any = {"output_size": (height, width), "size_name": "the size of err_output"}
    geometry = DeconvGeometry.of(x, weights, **size, **window)
    geometry.check_output("err_output", err_output, x.shape[0])
    if output is not None:
        geometry.check_output("output", output, x.shape[0])
    shapes = wanted(need, ConvGradients(x.shape, geometry.conv.weights_shape, (geometry.conv.channels,)))
    options = {"activation": activation, "algorithm": algorithm}
    return call.gradients(call.operations.conv.deconv_backward, shapes, geometry.conv, **options)
