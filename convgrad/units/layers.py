"""What forward units, and what backward units, have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from zope.interface import implementer

from convgrad.errors import BadFormatError
from convgrad.geometry.checks import whole
from convgrad.interfaces import IBackwardUnit, IForwardUnit
from convgrad.units.base import Unit, unit
from convgrad.units.links import ArrayAttribute, name_of
from convgrad.units.statistics import log_statistics


@implementer(IForwardUnit)
@unit
class Forward(Unit):
    """Computes `output` from `input`; rows past `batch_size` are not read, their output is zero."""

    # Types in layer dicts that mean this class.
    MAPPING: ClassVar[frozenset[str]] = frozenset()

    # Rows of input that count; None = all.
    batch_size: int | None = None

    input = ArrayAttribute()
    output = ArrayAttribute(result=True)

    def _demands(self) -> tuple[str, ...]:
        return ("input",)

    def _batch(self) -> int | None:
        return checked_batch(self.batch_size, len(self.input))


@implementer(IBackwardUnit)
@unit
class Backward(Unit):
    """Computes `err_input` from `err_output`, which it never changes; rows past `batch_size` do not count.

    It works alone, with all its arrays assigned, or linked to its forward twin by `link_forward`.
    """

    # Types in layer dicts that mean this class.
    MAPPING: ClassVar[frozenset[str]] = frozenset()
    # What link_forward takes over.
    OF_FORWARD: ClassVar[tuple[str, ...]] = ("input",)
    # Name of the class attribute that must be the same in both; empty = there is none.
    ALIKE: ClassVar[str] = ""

    # Rows that count, later rows of err_input being zero; None = the linked forward unit's, else all.
    batch_size: int | None = None
    # False: err_input is not computed and has no memory.
    need_err_input: bool = True
    # Log statistics of errors, parameters and gradients after each run (logger "convgrad.units", level INFO).
    debug: bool = False

    input = ArrayAttribute()
    err_output = ArrayAttribute()
    err_input = ArrayAttribute(result=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.forward_batch_size: int | None = None

    def link_forward(self, forward: Any) -> Self:
        """Link everything this unit needs of its forward twin; nothing is copied. Returns self.

        Raises BadFormatError when the twin is for another activation or kind of pooling.
        """
        mine, found = (getattr(unit, self.ALIKE, None) for unit in (self, forward))
        if found != mine:
            what, twin = self.ALIKE.lower(), name_of(forward)
            raise BadFormatError(f"{self.name} is for {what} {mine!r}, {twin} has {found!r}")
        return self.link_attrs(forward, *self.OF_FORWARD, ("forward_batch_size", "batch_size"))

    def _demands(self) -> tuple[str, ...]:
        return "input", "err_output"

    def run(self) -> None:
        """Compute once, from what the arrays hold now."""
        super().run()
        if self.debug:
            self._log_statistics()

    def _batch(self) -> int | None:
        batch = self.forward_batch_size if self.batch_size is None else self.batch_size
        return checked_batch(batch, len(self.input))

    def _allocate(self, backend: Any) -> None:
        if self.need_err_input:
            self._ready(backend, "err_input", self.input.shape, self.input.dtype)

    def _log_statistics(self) -> None:
        for name in ("err_output", "err_input", "weights", "bias", "gradient_weights", "gradient_bias"):
            array = getattr(self, name, None)
            if array:
                array.map_read()
                log_statistics(self.name, name, array.mem)


def checked_batch(batch: Any, rows: int) -> int | None:
    """`batch`, None or a number of rows from 0 to `rows`."""
    if batch is None:
        return None
    number = whole("batch_size", batch, least=0)
    if number > rows:
        raise BadFormatError(f"batch_size must be at most {rows}, the rows of the arrays; got {number}")
    return number
