"""Which class a type in a layer dict means, and which backward unit belongs to a forward unit."""

from __future__ import annotations

from convgrad.errors import BadFormatError
from convgrad.units import conv, dense, pooling
from convgrad.units.layers import Backward, Forward


class Pairing:
    """The classes of forward and backward units by their MAPPING strings."""

    def __init__(self) -> None:
        self._forwards: dict[str, type[Forward]] = {}
        self._backwards: dict[str, type[Backward]] = {}

    @property
    def types(self) -> tuple[str, ...]:
        """All known types, in order."""
        return tuple(sorted(self._forwards))

    def register(self, forward: type[Forward], backward: type[Backward]) -> None:
        """Make a pair known under each string of the forward class's MAPPING, which the backward's holds too.

        Raises ValueError when a string is taken or MAPPINGs do not agree.
        """
        if not forward.MAPPING or forward.MAPPING != backward.MAPPING:
            pair = f"{forward.__name__} and {backward.__name__}"
            raise ValueError(f"MAPPING of {pair} must be the same, and not empty")
        for string in forward.MAPPING:
            if string in self._forwards:
                raise ValueError(f"type {string!r} is taken by {self._forwards[string].__name__}")
        for string in forward.MAPPING:
            self._forwards[string], self._backwards[string] = forward, backward

    def forward_class(self, string: str) -> type[Forward]:
        """The forward class that a type means."""
        if string not in self._forwards:
            raise BadFormatError(f"type must be one of {', '.join(self.types)}; got {string!r}")
        return self._forwards[string]

    def backward_class(self, forward: type[Forward]) -> type[Backward]:
        """The backward class that belongs to a forward class or to what it is derived from."""
        for string in forward.MAPPING:
            if string in self._backwards:
                return self._backwards[string]
        raise BadFormatError(f"no backward unit is registered for {forward.__name__}")


def standard_pairing() -> Pairing:
    """A new table of convgrad's own units."""
    pairing = Pairing()
    for forward, backward in _PAIRS:
        pairing.register(forward, backward)
    return pairing


_PAIRS: tuple[tuple[type[Forward], type[Backward]], ...] = (
    (conv.Conv, conv.GradientDescentConv),
    (conv.ConvTanh, conv.GDTanhConv),
    (conv.ConvSigmoid, conv.GDSigmoidConv),
    (conv.ConvRELU, conv.GDRELUConv),
    (conv.ConvStrictRELU, conv.GDStrictRELUConv),
    (dense.All2All, dense.GradientDescent),
    (dense.All2AllTanh, dense.GDTanh),
    (dense.All2AllSigmoid, dense.GDSigmoid),
    (dense.All2AllRELU, dense.GDRELU),
    (dense.All2AllStrictRELU, dense.GDStrictRELU),
    (dense.All2AllSoftmax, dense.GDSoftmax),
    (pooling.MaxPooling, pooling.GDMaxPooling),
    (pooling.MaxAbsPooling, pooling.GDMaxAbsPooling),
    (pooling.AvgPooling, pooling.GDAvgPooling),
)
