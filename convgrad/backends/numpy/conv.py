"""Convolution on NumPy: unpack, multiply, in blocks spread over threads.

Two ways lead to the gradients. *Packed*: the columns of x give the weights' gradient, and the columns of
err_input, a product, are packed back. *Gathered*: the columns of err_output under the adjoint's windows
(steps of one cell only) give err_input itself by a product with the turned kernels, and the weights'
gradient; nothing is packed. The transposed convolution uses the same two.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from zope.interface import implementer

from convgrad.backends.numpy import activation as activations
from convgrad.backends.numpy import weights as kernels
from convgrad.backends.numpy.columns import columns_of_errors, columns_of_x, columns_to_pack, gathers
from convgrad.backends.numpy.passes import (
    Call,
    ErrInput,
    Gradients,
    correlate,
    gather_gradients,
    pack_gradients,
    sum_rows,
)
from convgrad.backends.numpy.products import Floats
from convgrad.backends.numpy.sums import Errors
from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import option
from convgrad.interfaces import ConvGradients, IConvOperations

ALGORITHMS = ("im2col",)


@implementer(IConvOperations)
class NumpyConv:
    """IConvOperations on NumPy.

    Weights that BLAS does not take as they lie in memory are copied once per call, beside the workspace.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend

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
        call = self._call(x, batch, algorithm, unpack_size)
        straight = kernels.by_group(weights, geometry, weights_transposed)
        finish = partial(_finish, bias, activation)
        out = _cut(out, call.batch)
        correlate(call, columns_of_x(geometry), x, straight.transpose(0, 2, 1), out, finish)

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
        call = self._call(err_output, batch, algorithm, unpack_size, geometry)
        errors = Errors(err_output[: call.batch], output, activation)
        straight = _straight(weights, geometry, weights_transposed)
        gradient = _gradient(gradients, geometry, weights_transposed)
        x = None if gradient is None else x
        if not gathers(geometry, call.turned_room()):
            err_input = _err_input(gradients, call, straight, alpha, beta)
            wanted = Gradients(err_input, x, gradient, gradients.bias)
            pack_gradients(call, columns_to_pack(geometry), errors, wanted)
            return
        turned = None if straight is None else kernels.turned(straight, geometry)
        total = None if gradient is None else kernels.turned_gradient(gradient, geometry)
        err_input = _err_input(gradients, call, turned, alpha, beta)
        wanted = Gradients(err_input, x, total, gradients.bias)
        gather_gradients(
            call.reserving(geometry), columns_of_errors(geometry), errors, wanted, geometry.channels
        )
        if gradient is not None and total is not None:
            kernels.turn_back(total, gradient, geometry)

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
        call = self._call(x, batch, algorithm, unpack_size)
        straight = kernels.by_group(weights, geometry, weights_transposed)
        finish = partial(_finish, bias, activation)
        out = _cut(out, call.batch)
        if gathers(geometry, call.turned_room()):
            turned = kernels.turned(straight, geometry)
            correlate(call.reserving(geometry), columns_of_errors(geometry), x, turned, out, finish)
        else:
            errors = Errors(x[: call.batch], None, "linear")
            pack_gradients(
                call, columns_to_pack(geometry), errors, Gradients(ErrInput(out, straight)), finish
            )

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
        call = self._call(err_output, batch, algorithm, unpack_size, geometry)
        errors = Errors(err_output[: call.batch], output, activation)
        straight = _straight(weights, geometry, weights_transposed)
        gradient = _gradient(gradients, geometry, weights_transposed)
        matrix = None if straight is None else straight.transpose(0, 2, 1)
        err_input = _err_input(gradients, call, matrix, alpha, beta)
        wanted = Gradients(err_input, None if gradient is None else x, gradient, gradients.bias)
        gather_gradients(call, columns_of_x(geometry), errors, wanted, geometry.n_kernels)

    def bias_gradient(self, err_output: Floats, out: Floats, *, batch: int | None = None) -> None:
        """See IConvOperations."""
        call = self._call(err_output, batch)
        errors = Errors(err_output[: call.batch], None, "linear")
        sum_rows(call, errors, out, err_output.shape[1])

    def _call(
        self,
        array: Floats,
        batch: int | None,
        algorithm: str | None = None,
        unpack_size: int | None = None,
        summed: ConvGeometry | None = None,
    ) -> Call:
        """`summed`: the geometry whose weights' gradient may be asked for."""
        if algorithm is not None:
            option("algorithm", algorithm, ALGORITHMS)
        count = len(array) if batch is None else batch
        weights_size = 0 if summed is None else summed.n_kernels * summed.taps
        threads, workspace = self._backend.threads, self._backend.workspace
        return Call(count, array.dtype, workspace, threads, unpack_size, weights_size)


def _straight(weights: Floats | None, geometry: ConvGeometry, transposed: bool) -> Floats | None:
    return None if weights is None else kernels.by_group(weights, geometry, transposed)


def _gradient(gradients: ConvGradients, geometry: ConvGeometry, transposed: bool) -> Floats | None:
    if gradients.weights is None:
        return None
    assert gradients.weights.flags.c_contiguous  # else what follows would be a copy, and lost
    return kernels.by_group(gradients.weights, geometry, transposed)


def _err_input(
    gradients: ConvGradients, call: Call, matrix: Floats | None, alpha: float, beta: float
) -> ErrInput | None:
    if gradients.err_input is None or matrix is None:
        return None
    return ErrInput(_cut(gradients.err_input, call.batch), matrix, alpha, beta)


def _cut(out: Floats, batch: int) -> Floats:
    """The rows of an output that count; the others become zero."""
    assert out.flags.c_contiguous
    out[batch:] = 0
    return out[:batch]


def _finish(bias: Floats | None, activation: str, block: Floats) -> None:
    if bias is not None:
        block += bias
    activations.forward(activation, block, block)
