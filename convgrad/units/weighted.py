"""Forward units with weights and bias.

Fully connected layers are convolutions of one-cell images, so one way leads through all of them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import common_dtype, shape_of
from convgrad.prng import Random
from convgrad.units.base import unit
from convgrad.units.filling import filled, generator
from convgrad.units.images import as_images
from convgrad.units.layers import Forward
from convgrad.units.links import ArrayAttribute


@unit
class WeightedForward(Forward):
    """output = activation(input by weights + bias).

    Weights are (n_kernels, K), one row per kernel or neuron; bias is (n_kernels,). Where they are empty
    initialize fills them; what is assigned before that, or left from an earlier time, is kept.
    """

    ACTIVATION: ClassVar[str] = "linear"
    # Largest magnitude to be expected in output: the next layer scales its first weights by it.
    MAX_SUPPOSED: ClassVar[float] = 1.0
    FIXED: ClassVar[tuple[str, ...]] = ("weights_transposed", "include_bias")

    # "uniform" in [-stddev, stddev), "gaussian" cut at 5 * stddev, or "constant" = stddev.
    weights_filling: str = "uniform"
    # None = from the sizes of the layer.
    weights_stddev: float | None = None
    bias_filling: str = "uniform"
    # None = as weights_stddev.
    bias_stddev: float | None = None
    # Keep the weights as (K, n_kernels), the transpose.
    weights_transposed: bool = False
    include_bias: bool = True
    # Where fillings are drawn from: a generator, or the seed of one; None = seed 1. So layers of one
    # shape begin alike, unless they share a generator, as in a workflow, or have seeds of their own.
    rand: Random | int | None = None

    weights = ArrayAttribute(persistent=True)
    bias = ArrayAttribute(persistent=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.output.max_supposed = self.MAX_SUPPOSED

    def _geometry(self) -> ConvGeometry:
        raise NotImplementedError

    def _output_shape(self) -> tuple[int, ...]:
        """Shape of one sample of output."""
        return self.geometry.output_shape

    def _unpack_size(self) -> int | None:
        """Images per sub-block, None = as many as suit the workspace."""
        return None

    def _default_stddev(self) -> float:
        raise NotImplementedError

    def _setup(self) -> None:
        self.geometry = self._geometry()
        common_dtype({"input": self.input})
        self._fill()
        bias = {"bias": self.bias} if self.include_bias else {}
        common_dtype({"input": self.input, "weights": self.weights, **bias})
        check_parameters(self)

    def _fill(self) -> None:
        rand, shape = generator(self.rand), (self.geometry.n_kernels, self.geometry.taps)
        stddev = self._default_stddev() if self.weights_stddev is None else self.weights_stddev
        if self.weights.host is None:
            values = filled("weights", self.weights_filling, shape, stddev, rand)
            self.weights.reset(self._as_input(values.T if self.weights_transposed else values))
        if self.bias.host is None and self.include_bias:
            bias_stddev = stddev if self.bias_stddev is None else self.bias_stddev
            self.bias.reset(self._as_input(filled("bias", self.bias_filling, shape[:1], bias_stddev, rand)))

    def _as_input(self, values: Any) -> Any:
        return np.ascontiguousarray(values, dtype=self.input.dtype)

    def _allocate(self, backend: Any) -> None:
        self._ready(backend, "output", (len(self.input), *self._output_shape()), self.input.dtype)

    def _compute(self) -> None:
        rows, geometry = len(self.input), self.geometry
        self.operations.conv.forward(
            as_images(self.input.read_buffer(), rows, geometry.input_shape),
            self.weights.read_buffer(),
            self.bias.read_buffer() if self.include_bias else None,
            as_images(self.output.write_buffer(keep=False), rows, geometry.output_shape),
            geometry,
            activation=self.ACTIVATION,
            weights_transposed=self.weights_transposed,
            batch=self._batch(),
            algorithm=None,
            unpack_size=self._unpack_size(),
        )


def check_parameters(owner: Any) -> None:
    """Refuse weights or bias of a unit that do not belong to its geometry."""
    geometry: ConvGeometry = owner.geometry
    shape, axes = (geometry.n_kernels, geometry.taps), "(n_kernels, ky * kx * C)"
    if owner.weights_transposed:
        shape, axes = (geometry.taps, geometry.n_kernels), "(ky * kx * C, n_kernels)"
    shape_of("weights", owner.weights, shape, axes)
    geometry.check_bias(owner.bias if owner.include_bias else None)
