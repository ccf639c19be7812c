"""All cases, in the order in which they are run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from convgrad.checking import activations, convolution, digests, pooling, probe, update
from convgrad.checking.cases import Case

FAMILIES = ("device", *convolution.FAMILIES, "activation", "pool", "update", digests.FAMILY)


def cases() -> list[Case]:
    """Every case."""
    modules = (probe, convolution, activations, pooling, update, digests)
    return list(chain.from_iterable(module.cases() for module in modules))


def suiting(backend: Any) -> dict[str, list[Case]]:
    """The cases that mean something on a backend, by family."""
    found: dict[str, list[Case]] = {family: [] for family in FAMILIES}
    for case in cases():
        if case.suits(backend):
            found[case.family].append(case)
    return {family: some for family, some in found.items() if some}


def verdicts(backend: Any) -> Iterator[tuple[str, str | None]]:
    """(family, None) before each family is run, then (family, complaint), "" where there is none."""
    for family, some in suiting(backend).items():
        yield family, None
        complaints = [complaint for case in some if (complaint := case.complaint(backend))]
        yield family, _told(family, complaints)


def _told(family: str, complaints: list[str]) -> str:
    """The first complaint, and how many more there are; of digests, which tell little else, every title."""
    if family == digests.FAMILY:
        return "; ".join(complaints)
    more = f" (and {len(complaints) - 1} more)" if complaints[1:] else ""
    return complaints[0] + more if complaints else ""
