"""Learning rates that change while a net learns, as functions of the number of minibatches trained so far.

A policy is written as a dict: its name under "type", its numbers beside it, such as
{"type": "inv", "gamma": 1e-4, "pow_ratio": 0.75}. `base` below is the learning rate in the layer's dict.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from convgrad.errors import BadFormatError
from convgrad.geometry.checks import option, whole
from convgrad.training.building import keywords
from convgrad.update_rule import finite

Policy = Callable[[float, int], float]  # (base, iteration) -> learning rate


def fixed() -> Policy:
    """`base`, always."""
    return lambda base, _: base


def exp(gamma: float, a_ratio: float = 1.0) -> Policy:
    """`base * gamma ** (a_ratio * iteration)`."""
    return lambda base, iteration: base * gamma ** (a_ratio * iteration)


def step_exp(gamma: float, step: int) -> Policy:
    """`base * gamma ** floor(iteration / step)`."""
    return lambda base, iteration: base * gamma ** (iteration // step)


def inv(gamma: float, pow_ratio: float) -> Policy:
    """`base * (1 + gamma * iteration) ** -pow_ratio`, as in Caffe."""
    return lambda base, iteration: base * (1 + gamma * iteration) ** -pow_ratio


def arbitrary_step(steps: Sequence[tuple[float, int]]) -> Policy:
    """`base * coefficient` for each (coefficient, iterations) in turn; 0 after the last."""

    def policy(base: float, iteration: int) -> float:
        end = 0
        for coefficient, length in steps:
            end += length
            if iteration < end:
                return base * coefficient
        return 0.0

    return policy


_POLICIES: dict[str, Callable[..., Policy]] = {
    policy.__name__: policy for policy in (fixed, exp, step_exp, inv, arbitrary_step)
}


class Rates:
    """The learning rates of backward units; those they have when this is made are the base."""

    def __init__(self, units: Sequence[Any], lr_policy: Mapping[str, Any] | None) -> None:
        self._policies = pair(lr_policy)
        learners = [unit for unit in units if hasattr(unit, "learning_rate")]
        self._bases = [(unit, unit.learning_rate, unit.learning_rate_bias) for unit in learners]

    def set(self, iteration: int) -> None:
        """Give every unit its rates for this iteration."""
        weights, bias = self._policies
        for unit, base, bias_base in self._bases:
            unit.learning_rate = weights(base, iteration)
            unit.learning_rate_bias = bias(bias_base, iteration)


def pair(lr_policy: Mapping[str, Any] | None) -> tuple[Policy, Policy]:
    """The policies of weights and of bias.

    lr_policy: one dict for both; or {"weights": dict, "bias": dict}, one left out = fixed; None = both fixed.
    """
    if lr_policy is None:
        return fixed(), fixed()
    lr_policy = keywords("lr_policy", lr_policy)
    if "type" in lr_policy:
        return _policy(lr_policy), _policy(lr_policy)
    unknown = set(lr_policy) - {"weights", "bias"}
    if unknown:
        raise BadFormatError(f'lr_policy must have "type", or "weights" and "bias", got {sorted(unknown)}')
    weights, bias = (_policy(lr_policy.get(name) or {"type": "fixed"}) for name in ("weights", "bias"))
    return weights, bias


def _policy(spec: Mapping[str, Any]) -> Policy:
    numbers = keywords("lr_policy", spec)
    name = option("lr_policy: type", numbers.pop("type", None), tuple(_POLICIES))
    signature = inspect.signature(_POLICIES[name])
    try:
        signature.bind(**numbers)
    except TypeError as error:
        raise BadFormatError(f"lr_policy: {name} wants {', '.join(signature.parameters)}: {error}") from None
    return _POLICIES[name](**{key: _checked(key, value) for key, value in numbers.items()})


def _checked(key: str, value: Any) -> Any:
    """The value of a policy's keyword; nothing that could end a training later by a division by zero."""
    name = f"lr_policy: {key}"
    if key == "steps":
        return _steps(name, value)
    if key == "step":
        return whole(name, value, 1)
    number = finite(name, value)
    if key != "pow_ratio" and number < 0:
        raise BadFormatError(f"{name} must be at least 0, got {value!r}")
    return number


def _steps(name: str, steps: Any) -> list[tuple[float, int]]:
    try:
        pairs = [(coefficient, iterations) for coefficient, iterations in steps]
    except (TypeError, ValueError):
        raise BadFormatError(f"{name} must be pairs (coefficient, iterations), got {steps!r}") from None
    return [(finite(name, coefficient), whole(name, iterations, 0)) for coefficient, iterations in pairs]
