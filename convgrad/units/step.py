"""Backward units with parameters: the numbers of their training step, and the step itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

from convgrad.errors import BadFormatError
from convgrad.memory import Array
from convgrad.units.base import unit, unknown_keyword
from convgrad.units.layers import Backward
from convgrad.units.links import ArrayAttribute
from convgrad.update_rule import UpdateRule, finite

AS_WEIGHTS: Any = None  # default of a bias's own number: that of the weights, as it is when the unit is made
_OWN = ("learning_rate", "weights_decay", "l1_vs_l2", "gradient_moment")  # a bias has its own
_SHARED = ("acc_alpha", "acc_beta", "gd_alpha", "gd_beta", "apply_gradient")


@unit
class Learner(Backward):
    """Changes weights and bias by their raw gradients; `UpdateRule` has the formulas."""

    FIXED: ClassVar[tuple[str, ...]] = ("weights_transposed", "include_bias")
    # What initialize may set anew.
    OVERRIDES: ClassVar[tuple[str, ...]] = (
        *("learning_rate", "weights_decay", "gradient_moment"),
        *("learning_rate_bias", "weights_decay_bias", "gradient_moment_bias"),
    )

    # Length of the step; positive goes down.
    learning_rate: float = 0.01
    learning_rate_bias: float = AS_WEIGHTS
    # Strength of the pull towards zero; the learning rate scales it too.
    weights_decay: float = 0.00005
    weights_decay_bias: float = 0.0
    # What kind of pull: 0 = by the weight itself (L2), 1 = by half its sign (L1), between = a mixture.
    l1_vs_l2: float = 0.0
    l1_vs_l2_bias: float = AS_WEIGHTS
    # Part of the last step that is added to this one.
    gradient_moment: float = 0.0
    gradient_moment_bias: float = AS_WEIGHTS
    # Strength with which the kernels (not the bias) are pulled towards being orthogonal.
    factor_ortho: float = 0.0
    # Gather steps: accumulator = acc_alpha * step + acc_beta * accumulator, then
    # step = gd_beta * step + gd_alpha * accumulator.
    accumulate_gradient: bool = False
    acc_alpha: float = 0.0
    acc_beta: float = 0.0
    gd_alpha: float = 0.0
    gd_beta: float = 1.0
    # False: compute everything, but leave weights and bias as they are.
    apply_gradient: bool = True
    # False: err_input only; no gradients of weights and bias, no steps.
    need_gradient_weights: bool = True
    # As in the forward unit, from which link_forward takes them.
    weights_transposed: bool = False
    include_bias: bool = True

    weights = ArrayAttribute(persistent=True)
    bias = ArrayAttribute(persistent=True)
    gradient_weights = ArrayAttribute(result=True)
    gradient_bias = ArrayAttribute(result=True)
    accumulated_gradient_weights = ArrayAttribute(persistent=True)
    accumulated_gradient_bias = ArrayAttribute(persistent=True)
    gradient_weights_with_moment = ArrayAttribute(persistent=True)
    gradient_bias_with_moment = ArrayAttribute(persistent=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _OWN:
            if getattr(self, f"{name}_bias") is AS_WEIGHTS:
                setattr(self, f"{name}_bias", getattr(self, name))

    def initialize(self, device: Any = None, *, numerics: str = "fast", **overrides: float) -> None:
        """As for every unit; `overrides` are new values of those of OVERRIDES that are given."""
        for name, value in overrides.items():
            if name not in self.OVERRIDES:
                raise unknown_keyword(f"{type(self).__name__}.initialize", name, self.OVERRIDES)
            setattr(self, name, value)
        super().initialize(device, numerics=numerics)

    def _demands(self) -> tuple[str, ...]:
        return (*super()._demands(), *self._parameters())

    def _parameters(self) -> tuple[str, ...]:
        return ("weights", "bias") if self.include_bias else ("weights",)

    def _learned(self) -> tuple[str, ...]:
        return self._parameters() if self.need_gradient_weights else ()

    def _allocate(self, backend: Any) -> None:
        super()._allocate(backend)
        for parameter in self._learned():
            like: Array = getattr(self, parameter)
            for name in self._buffers(parameter):
                self._ready(backend, name, like.shape, like.dtype)
                self._check_writable(name)
            if self.apply_gradient:
                self._check_writable(parameter)

    def _check_writable(self, name: str) -> None:
        memory = getattr(self, name).host
        if memory is not None and not memory.flags.writeable:
            raise BadFormatError(f"{name} must be writable: the step changes it in place")

    def _buffers(self, parameter: str) -> Iterator[str]:
        """The arrays besides itself that a parameter's step needs; a velocity, once there, is kept up."""
        yield f"gradient_{parameter}"
        if self.accumulate_gradient:
            yield f"accumulated_gradient_{parameter}"
        velocity = f"gradient_{parameter}_with_moment"
        if self._own(parameter, "gradient_moment") != 0 or getattr(self, velocity).host is not None:
            yield velocity

    def _own(self, parameter: str, name: str) -> Any:
        own = name if parameter == "weights" else f"{name}_bias"
        return finite(own, getattr(self, own))

    def _rules(self) -> dict[str, UpdateRule]:
        """How each learned parameter is to be changed; raises before any is."""
        shared = {name: getattr(self, name) for name in _SHARED}
        return {
            parameter: UpdateRule(
                **{name: self._own(parameter, name) for name in _OWN},
                **shared,
                factor_ortho=self.factor_ortho if parameter == "weights" else 0.0,
            )
            for parameter in self._learned()
        }

    def _step(self, parameter: str, rule: UpdateRule) -> Callable[[], None]:
        """The step of a parameter, ready to be made: all memory that it needs is there."""
        accumulated: Array = getattr(self, f"accumulated_gradient_{parameter}")
        velocity: Array = getattr(self, f"gradient_{parameter}_with_moment")
        return partial(
            self.operations.update.step,
            getattr(self, parameter).write_buffer(keep=True),
            getattr(self, f"gradient_{parameter}").read_buffer(),
            rule,
            accumulator=accumulated.write_buffer(keep=True) if self.accumulate_gradient else None,
            velocity=velocity.write_buffer(keep=True) if velocity.host is not None else None,
            weights_transposed=self.weights_transposed and parameter == "weights",
        )
