"""Convolution on devices."""

from __future__ import annotations

from functools import partial
from typing import Any

from zope.interface import implementer

from convgrad.backends.device.buffers import Buffer
from convgrad.backends.device.conv_plans import Task, Wanted, backward_plan, forward_plan
from convgrad.backends.device.images import Device
from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import option
from convgrad.interfaces import ConvGradients, IConvOperations

ALGORITHMS = ("direct", "im2col")  # the first is the one that suits everywhere


@implementer(IConvOperations)
class DeviceConv:
    """IConvOperations on a device."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def forward(
        self,
        x: Buffer,
        weights: Buffer,
        bias: Buffer | None,
        out: Buffer,
        geometry: ConvGeometry,
        *,
        activation: str = "linear",
        weights_transposed: bool = False,
        batch: int | None = None,
        algorithm: str | None = None,
        unpack_size: int | None = None,
    ) -> None:
        """See IConvOperations."""
        task = self._task(geometry, False, x, activation, weights_transposed, batch, algorithm, unpack_size)
        self._forward(task, x, weights, bias, out)

    def backward(
        self,
        x: Buffer | None,
        weights: Buffer | None,
        err_output: Buffer,
        output: Buffer | None,
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
        options = activation, weights_transposed, batch, algorithm, unpack_size
        task = self._task(geometry, False, err_output, *options)
        self._backward(task, x, weights, err_output, output, gradients, alpha, beta)

    def deconv_forward(
        self,
        x: Buffer,
        weights: Buffer,
        bias: Buffer | None,
        out: Buffer,
        geometry: ConvGeometry,
        *,
        activation: str = "linear",
        weights_transposed: bool = False,
        batch: int | None = None,
        algorithm: str | None = None,
        unpack_size: int | None = None,
    ) -> None:
        """See IConvOperations."""
        task = self._task(geometry, True, x, activation, weights_transposed, batch, algorithm, unpack_size)
        self._forward(task, x, weights, bias, out)

    def deconv_backward(
        self,
        x: Buffer | None,
        weights: Buffer | None,
        err_output: Buffer,
        output: Buffer | None,
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
        options = activation, weights_transposed, batch, algorithm, unpack_size
        task = self._task(geometry, True, err_output, *options)
        self._backward(task, x, weights, err_output, output, gradients, alpha, beta)

    def bias_gradient(self, err_output: Buffer, out: Buffer, *, batch: int | None = None) -> None:
        """See IConvOperations."""
        if out.size == 0:
            return
        rows, columns, outputs = (max(1, size) for size in err_output.shape[1:])
        geometry = ConvGeometry(rows, columns, 1, outputs, 1, 1)  # any that has this output
        images = batch if err_output.size else 0
        task = self._task(geometry, False, err_output, "linear", False, images, None, None)
        self._backward(task, None, None, err_output, None, ConvGradients(bias=out), 1.0, 0.0)

    def _task(
        self,
        geometry: ConvGeometry,
        adjoint: bool,
        array: Buffer,
        activation: str,
        transposed: bool,
        batch: int | None,
        algorithm: str | None,
        unpack_size: int | None,
    ) -> Task:
        algorithm = ALGORITHMS[0] if algorithm is None else self._provider(algorithm)
        rows = len(array)
        images = rows if batch is None else batch
        device = Device(self._backend.driver.profile, array.dtype)
        return Task(device, geometry, adjoint, rows, images, activation, transposed, algorithm, unpack_size)

    def _provider(self, algorithm: str) -> str:
        """`algorithm` where there is such a one."""
        return option("algorithm", algorithm, ALGORITHMS)

    def _forward(self, task: Task, x: Buffer, weights: Buffer, bias: Buffer | None, out: Buffer) -> None:
        planner = partial(forward_plan, task, bias is not None)
        self._run(planner, x=x, weights=weights, bias=bias, out=out)

    def _backward(
        self,
        task: Task,
        x: Buffer | None,
        weights: Buffer | None,
        err_output: Buffer,
        output: Buffer | None,
        gradients: ConvGradients,
        alpha: float,
        beta: float,
    ) -> None:
        err_input, weight_gradient, bias = (gradient is not None for gradient in gradients)
        wanted = Wanted(err_input, weight_gradient, bias, float(alpha), float(beta))
        self._run(
            partial(backward_plan, task, wanted),
            x=x,
            weights=weights,
            err_output=err_output,
            output=output,
            err_input=gradients.err_input,
            weight_gradient=gradients.weights,
            bias_gradient=gradients.bias,
        )

    def _run(self, planner: Any, **buffers: Buffer | None) -> None:
        self._backend.executor.run(planner, self._backend.workspace, **buffers)
