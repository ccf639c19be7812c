"""Gradients of convolutional and fully connected layers."""

from __future__ import annotations

from typing import ClassVar

from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import common_dtype
from convgrad.interfaces import ConvGradients
from convgrad.units.base import unit
from convgrad.units.images import as_images
from convgrad.units.links import ArrayAttribute
from convgrad.units.step import Learner
from convgrad.units.weighted import check_parameters
from convgrad.update_rule import finite


@unit
class GradientDescentBase(Learner):
    """Gradients of a layer with weights and bias, and the step that changes these.

    In a run: err_output times the derivative of the activation; from that err_input, by the weights as they
    are before the step, and the raw gradients; then the steps of weights and bias. Gradients are sums over
    the batch: an evaluator's err_output makes them means. All numbers may be changed between runs. A fault
    while gradients are computed leaves weights and bias as they were.

    Afterwards `gradient_weights` holds the raw gradient; `gradient_weights_with_moment` the velocity, once
    gradient_moment has not been 0; `accumulated_gradient_weights` the accumulator, with
    accumulate_gradient; the same with bias in place of weights.
    """

    ACTIVATION: ClassVar[str] = "linear"
    ALIKE = "ACTIVATION"
    OF_FORWARD: ClassVar[tuple[str, ...]] = (
        "input",
        "output",
        "weights",
        "bias",
        "weights_transposed",
        "include_bias",
    )

    # err_input = err_input_alpha * what is computed + err_input_beta * what was there (not read when 0).
    err_input_alpha: float = 1.0
    err_input_beta: float = 0.0

    output = ArrayAttribute()

    def _demands(self) -> tuple[str, ...]:
        return (*super()._demands(), *self._output())

    def _output(self) -> tuple[str, ...]:
        return () if self.ACTIVATION == "linear" else ("output",)

    def _geometry(self) -> ConvGeometry:
        raise NotImplementedError

    def _check_samples(self, name: str) -> None:
        """Refuse an array that is not as many samples as input, each of the size of an output."""
        raise NotImplementedError

    def _unpack_size(self) -> int | None:
        """Images per sub-block, None = as many as suit the workspace."""
        return None

    def _setup(self) -> None:
        self.geometry = self._geometry()
        parts = ("input", *self._parameters(), "err_output", *self._output())
        common_dtype({name: getattr(self, name) for name in parts})
        check_parameters(self)
        for name in ("err_output", *self._output()):
            self._check_samples(name)
        self._factors()
        self._rules()

    def _factors(self) -> tuple[float, float]:
        """How err_input is scaled, and how much of the old one stays."""
        alpha, beta = self.err_input_alpha, self.err_input_beta
        return finite("err_input_alpha", alpha), finite("err_input_beta", beta)

    def _compute(self) -> None:
        rules = self._rules()
        if self.need_err_input or rules:
            self._compute_gradients()
        steps = [self._step(parameter, rule) for parameter, rule in rules.items()]
        for step in steps:  # when memory for all is there: a fault before leaves every parameter as it was
            step()

    def _compute_gradients(self) -> None:
        rows, geometry = len(self.input), self.geometry
        alpha, beta = self._factors()
        err_input = self.err_input.write_buffer(keep=beta != 0) if self.need_err_input else None
        gradients = {name: getattr(self, f"gradient_{name}") for name in self._learned()}
        wanted = {name: array.write_buffer(keep=False) for name, array in gradients.items()}
        self.operations.conv.backward(
            as_images(self.input.read_buffer(), rows, geometry.input_shape),
            self.weights.read_buffer(),
            as_images(self.err_output.read_buffer(), rows, geometry.output_shape),
            as_images(self.output.read_buffer(), rows, geometry.output_shape) if self._output() else None,
            ConvGradients(as_images(err_input, rows, geometry.input_shape), **wanted),
            geometry,
            activation=self.ACTIVATION,
            alpha=alpha,
            beta=beta,
            weights_transposed=self.weights_transposed,
            batch=self._batch(),
            algorithm=None,
            unpack_size=self._unpack_size(),
        )
