"""Operations in the order of fixed numerics (docs/numerics.md): slow, and the judge of every device."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from convgrad.backends.numpy.fixed.conv import FixedConv
from convgrad.backends.numpy.fixed.pooling import FixedPool
from convgrad.interfaces import IOperations


@implementer(IOperations)
class FixedOperations:
    """What `NumpyBackend.operations("fixed")` gives; float32 only."""

    def __init__(self, backend: Any) -> None:
        self.conv = FixedConv()
        self.pool = FixedPool(backend)
        self.update = backend.update  # each of its operations rounds once, in the order of the contract
