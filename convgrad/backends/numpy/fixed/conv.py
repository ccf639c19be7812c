"""Convolution in the order of fixed numerics: exact fused operations, each for many results at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zope.interface import implementer

from convgrad.backends.numpy.fixed import activation as activations
from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import option
from convgrad.interfaces import ConvGradients, IConvOperations
from convgrad.numerics import chains, sums

ALGORITHMS = ("direct",)
BLOCK = 2**15  # results of a block of images, about, as in convgrad/numerics/sums.py
Floats = NDArray[Any]
Pass = Callable[[Floats, Floats, ConvGeometry], Floats]


@implementer(IConvOperations)
class FixedConv:
    """IConvOperations on float32 ndarrays; neither blocks nor `unpack_size` change a bit."""

    def forward(
        self,
        x: Floats,
        weights: Floats,
        bias: Floats | None,
        out: Floats,
        geometry: ConvGeometry,
        *,
        activation: str = "linear",
        weights_transposed: bool = False,
        batch: int | None = None,
        algorithm: str | None = None,
        unpack_size: int | None = None,
    ) -> None:
        """See IConvOperations."""
        kernels = _kernels(weights, geometry, weights_transposed)
        _layer(chains.forward, x, kernels, bias, out, geometry, activation, batch, algorithm)

    def deconv_forward(
        self,
        x: Floats,
        weights: Floats,
        bias: Floats | None,
        out: Floats,
        geometry: ConvGeometry,
        *,
        activation: str = "linear",
        weights_transposed: bool = False,
        batch: int | None = None,
        algorithm: str | None = None,
        unpack_size: int | None = None,
    ) -> None:
        """See IConvOperations."""
        kernels = _kernels(weights, geometry, weights_transposed)
        _layer(chains.adjoint, x, kernels, bias, out, geometry, activation, batch, algorithm)

    def backward(
        self,
        x: Floats | None,
        weights: Floats | None,
        err_output: Floats,
        output: Floats | None,
        gradients: ConvGradients,
        geometry: ConvGeometry,
        *,
        activation: str = "linear",
        alpha: float = 1.0,
        beta: float = 0.0,
        weights_transposed: bool = False,
        batch: int | None = None,
        algorithm: str | None = None,
        unpack_size: int | None = None,
    ) -> None:
        """See IConvOperations."""
        d = _errors(err_output, output, activation, batch, algorithm)
        if gradients.err_input is not None:
            kernels = _kernels(weights, geometry, weights_transposed)
            _input_gradient(chains.adjoint, d, kernels, gradients.err_input, geometry, alpha, beta)
        if gradients.weights is not None:
            assert x is not None
            _weight_gradient(x[: len(d)], d, gradients.weights, geometry, weights_transposed)
        if gradients.bias is not None:
            _bias_gradient(d, gradients.bias)

    def deconv_backward(
        self,
        x: Floats | None,
        weights: Floats | None,
        err_output: Floats,
        output: Floats | None,
        gradients: ConvGradients,
        geometry: ConvGeometry,
        *,
        activation: str = "linear",
        alpha: float = 1.0,
        beta: float = 0.0,
        weights_transposed: bool = False,
        batch: int | None = None,
        algorithm: str | None = None,
        unpack_size: int | None = None,
    ) -> None:
        """See IConvOperations."""
        d = _errors(err_output, output, activation, batch, algorithm)
        if gradients.err_input is not None:
            kernels = _kernels(weights, geometry, weights_transposed)
            _input_gradient(chains.forward, d, kernels, gradients.err_input, geometry, alpha, beta)
        if gradients.weights is not None:
            assert x is not None  # the two have changed places
            _weight_gradient(d, x[: len(d)], gradients.weights, geometry, weights_transposed)
        if gradients.bias is not None:
            _bias_gradient(d, gradients.bias)

    def bias_gradient(self, err_output: Floats, out: Floats, *, batch: int | None = None) -> None:
        """See IConvOperations."""
        _bias_gradient(err_output[:batch], out)


def _layer(
    by: Pass,
    x: Floats,
    kernels: Floats,
    bias: Floats | None,
    out: Floats,
    geometry: ConvGeometry,
    activation: str,
    batch: int | None,
    algorithm: str | None,
) -> None:
    _check(algorithm)
    count = len(x) if batch is None else batch
    out[count:] = 0
    for images in _blocks(count, out):
        block = _by_groups(by, x[images], kernels, geometry, out.shape[3])
        out[images] = activations.forward(activation, block if bias is None else block + bias)


def _input_gradient(
    by: Pass, d: Floats, kernels: Floats, out: Floats, geometry: ConvGeometry, alpha: float, beta: float
) -> None:
    out[len(d) :] = 0
    with np.errstate(all="ignore"):  # Inf and NaN are values here
        for images in _blocks(len(d), out):
            new = np.float32(alpha) * _by_groups(by, d[images], kernels, geometry, out.shape[3])
            out[images] = new + np.float32(beta) * out[images] if beta else new


def _by_groups(by: Pass, x: Floats, kernels: Floats, geometry: ConvGeometry, outputs: int) -> Floats:
    """The pass for each group, side by side."""
    parts = np.split(x.astype(np.float64), geometry.groups, axis=3)
    found = [by(part, some, geometry) for part, some in zip(parts, kernels, strict=True)]
    assert sum(part.shape[3] for part in found) == outputs
    return np.concatenate(found, axis=3)


def _weight_gradient(x: Floats, d: Floats, out: Floats, geometry: ConvGeometry, transposed: bool) -> None:
    logical = out.T if transposed else out.reshape(geometry.n_kernels, geometry.taps)
    inputs, errors = (np.split(array.astype(np.float64), geometry.groups, axis=3) for array in (x, d))
    step, zero = geometry.group_kernels, np.zeros(geometry.weights_shape[1:], np.float32)
    for group, (some, their) in enumerate(zip(inputs, errors, strict=True)):
        total = sums.weight_nodes(some, their, geometry).total(np.broadcast_to(zero, (step, *zero.shape)))
        logical[group * step : (group + 1) * step] = total.reshape(step, -1) + np.float32(0)


def _bias_gradient(d: Floats, out: Floats) -> None:
    with np.errstate(all="ignore"):
        out[...] = sums.bias_nodes(d).total(np.zeros_like(out)) + np.float32(0)


def _errors(
    err_output: Floats, output: Floats | None, activation: str, batch: int | None, algorithm: str | None
) -> Floats:
    """err_output of the images that count, times the factor of the activation."""
    _check(algorithm)
    count = len(err_output) if batch is None else batch
    return activations.scaled(activation, err_output[:count], None if output is None else output[:count])


def _kernels(weights: Floats | None, geometry: ConvGeometry, transposed: bool) -> Floats:
    """(groups, kernels, ky, kx, channels) in float64."""
    assert weights is not None
    logical = weights.T if transposed else weights
    shape = geometry.groups, geometry.group_kernels, geometry.ky, geometry.kx, geometry.group_channels
    return logical.reshape(shape).astype(np.float64)


def _blocks(count: int, out: Floats) -> Iterator[slice]:
    each = max(1, BLOCK * len(out) // max(1, out.size))
    return (slice(start, min(start + each, count)) for start in range(0, count, each))


def _check(algorithm: str | None) -> None:
    if algorithm is not None:
        option("algorithm, under fixed numerics,", algorithm, ALGORITHMS)
