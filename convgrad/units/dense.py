"""Fully connected layers, linear, with four activations and with softmax, and their gradients."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import whole
from convgrad.numerics import elementary
from convgrad.numerics.softmax import softmax
from convgrad.units.base import unit
from convgrad.units.descent import GradientDescentBase
from convgrad.units.images import check_samples
from convgrad.units.links import ArrayAttribute
from convgrad.units.weighted import WeightedForward

LARGEST_STDDEV = 0.5


@unit
class All2All(WeightedForward):
    """output (N, *output_sample_shape) = input (N, ...), flattened, by weights + bias."""

    MAPPING = frozenset({"all2all"})
    # The weights begin within sqrt(GAIN / (inputs + neurons)).
    GAIN: ClassVar[float] = 10.0
    FIXED: ClassVar[tuple[str, ...]] = (*WeightedForward.FIXED, "output_sample_shape")

    # Shape of one sample of output; an integer is a number of neurons. Must be set by initialize.
    output_sample_shape: int | tuple[int, ...] | None = None

    def _demands(self) -> tuple[str, ...]:
        return (*super()._demands(), "output_sample_shape")

    def _output_shape(self) -> tuple[int, ...]:
        shape = self.output_sample_shape
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        return tuple(whole("output_sample_shape", size, least=1) for size in sizes)

    def _geometry(self) -> ConvGeometry:
        return _geometry(self.input.sample_size, math.prod(self._output_shape()))

    def _default_stddev(self) -> float:
        magnitude = math.sqrt(self.GAIN / (self.geometry.channels + self.geometry.n_kernels))
        return min(magnitude / 3 if self.weights_filling == "gaussian" else magnitude, LARGEST_STDDEV)


class All2AllTanh(All2All):
    """All2All with 1.7159 * tanh(0.6666 * s)."""

    MAPPING = frozenset({"all2all_tanh"})
    ACTIVATION = "tanh"
    MAX_SUPPOSED = 1.7159
    GAIN = 9.0


class All2AllSigmoid(All2All):
    """All2All with 1 / (1 + exp(-s))."""

    MAPPING = frozenset({"all2all_sigmoid"})
    ACTIVATION = "sigmoid"
    GAIN = 1.0


class All2AllRELU(All2All):
    """All2All with log(1 + exp(s)), the smooth relative of max(s, 0)."""

    MAPPING = frozenset({"all2all_relu"})
    ACTIVATION = "relu"
    MAX_SUPPOSED = 10.0


class All2AllStrictRELU(All2All):
    """All2All with max(s, 0)."""

    MAPPING = frozenset({"all2all_str"})
    ACTIVATION = "strict_relu"
    MAX_SUPPOSED = 10.0


class All2AllSoftmax(All2All):
    """All2All with softmax over all neurons; `max_idx` (N,) int64 is each sample's first largest output."""

    MAPPING = frozenset({"softmax"})

    max_idx = ArrayAttribute(result=True)

    def _allocate(self, backend: object) -> None:
        super()._allocate(backend)
        self._ready(backend, "max_idx", (len(self.input),), np.int64)

    def _compute(self) -> None:
        super()._compute()
        self.output.map_write()
        self.max_idx.map_invalidate()
        batch = self._batch()
        outputs, max_idx = self.output.matrix[:batch], self.max_idx.plain
        softmax(outputs, out=outputs, exp=elementary.exp if self.numerics == "fixed" else np.exp)
        max_idx[...] = 0
        max_idx[:batch] = outputs.argmax(axis=1)


@unit
class GradientDescent(GradientDescentBase):
    """Gradients and step of All2All; err_output is (N, ...) with as many elements as there are neurons."""

    MAPPING = frozenset({"all2all"})

    def _geometry(self) -> ConvGeometry:
        shape = self.weights.shape
        return _geometry(self.input.sample_size, shape[-1] if self.weights_transposed else shape[0])

    def _check_samples(self, name: str) -> None:
        check_samples(name, getattr(self, name), len(self.input), self.geometry.n_kernels)


class GDTanh(GradientDescent):
    """Gradients and step of All2AllTanh."""

    MAPPING = frozenset({"all2all_tanh"})
    ACTIVATION = "tanh"


class GDSigmoid(GradientDescent):
    """Gradients and step of All2AllSigmoid."""

    MAPPING = frozenset({"all2all_sigmoid"})
    ACTIVATION = "sigmoid"


class GDRELU(GradientDescent):
    """Gradients and step of All2AllRELU."""

    MAPPING = frozenset({"all2all_relu"})
    ACTIVATION = "relu"


class GDStrictRELU(GradientDescent):
    """Gradients and step of All2AllStrictRELU."""

    MAPPING = frozenset({"all2all_str"})
    ACTIVATION = "strict_relu"


class GDSoftmax(GradientDescent):
    """Gradients and step of All2AllSoftmax; err_output is that of the sums before the softmax."""

    MAPPING = frozenset({"softmax"})


def _geometry(inputs: int, neurons: int) -> ConvGeometry:
    """A fully connected layer as a convolution of images of one cell, the inputs being its channels."""
    return ConvGeometry(1, 1, inputs, neurons, 1, 1)
