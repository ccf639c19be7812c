"""From layer dicts to linked units."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError
from convgrad.units.base import unknown_keyword
from convgrad.units.dense import All2AllSoftmax
from convgrad.units.evaluator import Evaluator, EvaluatorMSE, EvaluatorSoftmax
from convgrad.units.layers import Backward, Forward
from convgrad.units.pairing import Pairing, standard_pairing

Layers = Sequence[Mapping[str, Any]]


class Net:
    """The units of a net, linked to each other and to `source`.

    source: has `input` and `targets` (Arrays), `batch_size` and `random`. pairing: what types of layers there
    are, None = those of the package.
    """

    def __init__(self, layers: Layers, loss: str, source: Any, pairing: Pairing | None = None) -> None:
        pairing = pairing or standard_pairing()
        if isinstance(layers, (str, Mapping)) or not isinstance(layers, Sequence):
            raise BadFormatError(f"layers must be a list of dicts, got {layers!r}")
        plans = [_Plan(number, layer, pairing) for number, layer in enumerate(layers)]
        _check_names([plan.name for plan in plans])
        self.forwards = _forwards(plans, source)
        self.evaluator = _evaluator(loss, self.forwards[-1], source)
        self.gds = _gds(plans, self.forwards, self.evaluator)

    @property
    def errors(self) -> float:
        """Samples that the evaluator last found wrong, or the sum of their root mean square errors."""
        if isinstance(self.evaluator, EvaluatorSoftmax):
            return self.evaluator.n_err
        assert isinstance(self.evaluator, EvaluatorMSE)
        self.evaluator.metrics.map_read()
        return float(self.evaluator.metrics.plain[0])


def keywords(name: str, value: Any, known: Collection[str] | None = None) -> dict[str, Any]:
    """`value`, a dict whose keys are strings (those that are `known`, if given), as one of its own."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise BadFormatError(f"{name} must be a dict of keywords, got {value!r}")
    for key in value:
        if known is not None and key not in known:
            raise unknown_keyword(name, key, known)
    return dict(value)


def check_targets(loss: str, targets: NDArray[Any]) -> None:
    """Refuse targets of a loader that are of another kind than this loss wants."""
    kind, wanted, other = {
        "softmax": (np.integer, "integer labels", 'floats are for loss="mse"'),
        "mse": (np.floating, "floats", 'labels are for loss="softmax"'),
    }[loss]
    if not np.issubdtype(targets.dtype, kind):
        raise BadFormatError(
            f'loader: targets must be {wanted} for loss="{loss}", got {targets.dtype}; {other}'
        )


class _Plan:
    """What one layer dict asks for: two classes, and the keywords of each."""

    def __init__(self, number: int, layer: Mapping[str, Any], pairing: Pairing) -> None:
        if not isinstance(keywords(f"layer {number}", layer).get("type"), str):
            raise BadFormatError(f'layer {number} must have a "type", a string; got {dict(layer)!r}')
        self.name = layer.get("name", f"{layer['type']}_{number}")
        if not isinstance(self.name, str):
            raise BadFormatError(f"the name of layer {number} must be a string, got {self.name!r}")
        self._layer = layer
        self.forward_class = pairing.forward_class(layer["type"])
        self.backward_class = pairing.backward_class(self.forward_class)
        known = self.forward_class.keywords() | self.backward_class.keywords()
        keywords(f"layer {self.name!r}", self._shared(), known)

    def forward(self) -> Forward:
        return self.forward_class(name=f"{self.name}_forward", **self._keywords("->", self.forward_class))

    def backward(self) -> Backward:
        return self.backward_class(
            name=f"gd_{self.name}_backward", **self._keywords("<-", self.backward_class)
        )

    def _shared(self) -> dict[str, Any]:
        return {key: value for key, value in self._layer.items() if key not in ("type", "name", "->", "<-")}

    def _keywords(self, arrow: str, owner: type[Forward | Backward]) -> dict[str, Any]:
        shared = {key: value for key, value in self._shared().items() if key in owner.keywords()}
        own = keywords(f"{arrow!r} of layer {self.name!r}", self._layer.get(arrow, {}))
        self._check_own(arrow, own, owner)
        given = shared | own
        if missing := [key for key in _required(owner) if key not in given]:
            raise TypeError(
                f"layer {self.name!r} must have {' and '.join(missing)}, keywords of {owner.__name__}"
            )
        return given

    def _check_own(self, arrow: str, own: Mapping[str, Any], owner: type[Forward | Backward]) -> None:
        """Refuse what is no keyword of `owner`, before what is missing is looked for."""
        other = {"->": "<-", "<-": "->"}[arrow]
        of_other = {"->": self.backward_class, "<-": self.forward_class}[arrow].keywords()
        for name in own.keys() - owner.keywords():
            error = unknown_keyword(f"{owner.__name__} of layer {self.name!r}", name, owner.keywords())
            raise TypeError(f"{error}; it belongs in {other!r}") if name in of_other else error


def _required(owner: type[Forward | Backward]) -> list[str]:
    """Names of the keywords without a default."""
    return [key.name for key in fields(owner) if key.default is key.default_factory is MISSING]


def _check_names(names: list[str]) -> None:
    if not names:
        raise BadFormatError("layers must hold one layer at least, got none")
    for name in names:
        if names.count(name) > 1:
            raise BadFormatError(
                f"layers must have different names, {name!r} is there {names.count(name)} times"
            )


def _forwards(plans: Sequence[_Plan], source: Any) -> list[Forward]:
    forwards = [plan.forward() for plan in plans]
    for forward in forwards:
        forward.link_attrs(source, "batch_size")
        if "rand" in forward.keywords() and getattr(forward, "rand", None) is None:
            forward.link_attrs(source, ("rand", "random"))
    forwards[0].link_attrs(source, "input")
    for before, forward in pairwise(forwards):
        forward.link_attrs(before, ("input", "output"))
    return forwards


def _evaluator(loss: str, last: Forward, source: Any) -> Evaluator:
    evaluator: Evaluator
    if loss == "softmax":
        if not isinstance(last, All2AllSoftmax):
            raise BadFormatError(f'loss="softmax" needs a last layer of type "softmax", got {last!r}')
        evaluator = EvaluatorSoftmax(name="evaluator").link_attrs(last, "max_idx")
        evaluator.link_attrs(source, ("labels", "targets"))
    elif loss == "mse":
        evaluator = EvaluatorMSE(name="evaluator").link_attrs(source, ("target", "targets"))
    else:
        raise BadFormatError(f'loss must be "softmax" or "mse", got {loss!r}')
    return evaluator.link_attrs(last, "output").link_attrs(source, "batch_size")


def _gds(plans: Sequence[_Plan], forwards: Sequence[Forward], evaluator: Evaluator) -> list[Backward]:
    gds = [plan.backward().link_forward(forward) for plan, forward in zip(plans, forwards, strict=True)]
    gds[-1].link_attrs(evaluator, "err_output")
    for gd, after in pairwise(gds):
        gd.link_attrs(after, ("err_output", "err_input"))
    gds[0].need_err_input = False
    return gds
