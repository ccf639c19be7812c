"""A case of the check: what a backend gives, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.backends.device.backend import DeviceBackend

Arrays = NDArray[Any]
SEED = 20


@dataclass(frozen=True)
class Case:
    """`run` gives (what came, what is right) on a backend; equal bits are wanted, or closeness in ulps.

    With `kernels_only` the case is about the order in which kernels compute, or about the device itself:
    it means nothing on NumPy, whose products have BLAS' order. With `digest` the arrays are the octets of
    digests, and where they are wrong says nothing.
    """

    family: str
    title: str
    run: Callable[[Any], tuple[Arrays, Arrays]]
    dtype: Any = np.float32
    ulps: float = 0.0
    kernels_only: bool = False
    digest: bool = False

    def suits(self, backend: Any) -> bool:
        """Whether the case means something on this backend."""
        runs = isinstance(backend, DeviceBackend) or not self.kernels_only
        return runs and bool(backend.supports(self.dtype))

    def complaint(self, backend: Any) -> str | None:
        """What is wrong, None where nothing is."""
        try:
            came, right = self.run(backend)
            assert came.shape == right.shape
        except Exception as error:  # noqa: BLE001  # whatever a runtime raises is a finding
            return f"{self.title}: {type(error).__name__}: {_line(error)}"
        wrong = np.argwhere(~_same(came, right, self.ulps))
        if not len(wrong):
            return None
        if self.digest:
            return f"{self.title}: other bits"
        place = tuple(int(i) for i in wrong[0])
        return (
            f"{self.title}: {len(wrong)} of {came.size} values are wrong, the first at {place}: "
            f"{came[place]} in place of {right[place]}"
        )


def _line(error: Exception) -> str:
    """The line that tells most: a compiler's first error, else the first."""
    lines = str(error).splitlines() or [""]
    return next((line for line in lines if "error:" in line), lines[0])


def _same(came: Arrays, right: Arrays, ulps: float) -> NDArray[np.bool_]:
    """Element by element; zeros must have the same sign, and a NaN is as good as another."""
    equal = (came == right) & (np.signbit(came) == np.signbit(right))
    with np.errstate(invalid="ignore"):  # Inf - Inf
        near = np.abs(came.astype(float) - right) <= ulps * np.spacing(np.abs(right)) if ulps else equal
    both_nan = np.isnan(came) & np.isnan(right)
    same: NDArray[np.bool_] = equal | near | both_nan
    return same


def content(backend: Any, buffer: Any) -> Arrays:
    """What a buffer holds."""
    host = np.empty(buffer.shape, buffer.dtype)
    backend.download(buffer, host)
    return host


def unwritten(backend: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A buffer full of NaN, or of -1: what is not overwritten shows."""
    return backend.upload(np.full(shape, np.nan if np.dtype(dtype).kind == "f" else -1, dtype))


def integers(dtype: Any, *shapes: tuple[int, ...]) -> list[Arrays]:
    """Arrays of integers from -3 to 3, the same in every run: their products add up exactly in any order."""
    draw = np.random.default_rng(SEED)
    return [draw.integers(-3, 4, shape).astype(dtype) for shape in shapes]


def reals(dtype: Any, *shapes: tuple[int, ...]) -> list[Arrays]:
    """Arrays of numbers with all their digits, so that another order of summation gives other bits."""
    draw = np.random.default_rng(SEED)
    return [draw.uniform(-1, 1, shape).astype(dtype) for shape in shapes]
