"""The shapes in which known answers are handed to tests."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# The largest absolute difference from the known answer that is right, by the dtype of the calculation.
EXACT = {"float64": 0.0, "float32": 0.0}
VELES = {"float64": 1e-8, "float32": 1e-4}  # the original tests' own
OUTPUT = {"float64": 1e-8, "float32": 2e-6}  # for outputs around 10
PRINTED = {"float64": 1e-8, "float32": 1e-5}  # answers known to nine or ten digits


def numbers(text: str, *shape: int) -> Array:
    """The array written as `text`, blanks, commas and bars between the numbers."""
    return frozen([float(word) for word in re.split(r"[\s,|]+", text.strip())], *shape)


def frozen(values: npt.ArrayLike, *shape: int) -> Array:
    """`values` as a read-only float64 array, so that no test can spoil another's data."""
    array = np.array(values, dtype=np.float64).reshape(shape or np.shape(values))
    array.setflags(write=False)
    return array


def plane(text: str) -> Array:
    """One image of one channel, (1, H, W, 1), or one such kernel; bars part the rows."""
    rows = text.split("|")
    return numbers(text, 1, len(rows), len(rows[0].split()), 1)


def known(answer: Array | None) -> Array:
    """An answer that is known, as the type checker cannot see."""
    assert answer is not None
    return answer


@dataclass(frozen=True, eq=False)
class Golden:
    """A name for test ids, and arrays that can be had in another dtype."""

    name: str

    def __str__(self) -> str:
        return self.name

    def cast(self, dtype: npt.DTypeLike) -> Self:
        """The same with every float64 array as a fresh, writable one of `dtype`."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        floats = {k: v for k, v in values.items() if isinstance(v, np.ndarray) and v.dtype == np.float64}
        recast: dict[str, Any] = {k: v.astype(dtype) for k, v in floats.items()}
        return dataclasses.replace(self, **recast)


@dataclass(frozen=True, eq=False)
class ConvGolden(Golden):
    """A convolution: x (N, H, W, C), weights (K, ky, kx, C // groups), err_output and output (N, OH, OW, K).

    Answers that are None are not known. `output` is the answer of the forward pass and what the factor of the
    activation is taken from, unless `output_given` names other numbers for that.
    """

    x: Array
    weights: Array
    err_output: Array
    bias: Array | None = None
    output: Array | None = None
    output_given: Array | None = None
    err_input: Array | None = None
    gradient_weights: Array | None = None
    gradient_bias: Array | None = None
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    sliding: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    activation: str = "linear"
    tolerance: Mapping[str, float] = field(default_factory=lambda: EXACT)
    forward_tolerance: Mapping[str, float] | None = None

    @property
    def window(self) -> dict[str, Any]:
        """The keywords of the geometry."""
        keys = ("padding", "sliding", "dilation", "groups")
        return {key: getattr(self, key) for key in keys}

    @property
    def kernel(self) -> tuple[int, int]:
        """(kx, ky)."""
        return self.weights.shape[2], self.weights.shape[1]

    @property
    def flat_weights(self) -> Array:
        """The weights (K, ky * kx * C // groups) of a unit."""
        return self.weights.reshape(len(self.weights), -1)

    @property
    def output_for_factor(self) -> Array | None:
        """What to hand to the backward pass as output."""
        return self.output if self.output_given is None else self.output_given

    def allowed(self, dtype: npt.DTypeLike, *, forward: bool = False) -> float:
        """The largest right difference in a calculation of `dtype`."""
        wider = self.forward_tolerance if forward and self.forward_tolerance else self.tolerance
        return wider[np.dtype(dtype).name]


@dataclass(frozen=True, eq=False)
class PoolGolden(Golden):
    """A pooling of x (N, H, W, C). `offset` is flat into the whole of x; `err_input` answers `err_output`."""

    x: Array
    kind: str
    kernel: tuple[int, int]
    output: Array
    offset: npt.NDArray[np.int64] | None = None
    err_output: Array | None = None
    err_input: Array | None = None
    sliding: tuple[int, int] | None = None
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    ceil: bool = True
    count_include_pad: bool = False
    tolerance: Mapping[str, float] = field(default_factory=lambda: EXACT)

    @property
    def window(self) -> dict[str, Any]:
        """The keywords of the geometry."""
        keys = ("sliding", "padding", "dilation", "ceil", "count_include_pad")
        return {key: getattr(self, key) for key in keys}


@dataclass(frozen=True, eq=False)
class StepGolden(Golden):
    """Runs with one unchanging raw gradient, and what the last leaves behind; buffers are zero before.

    `learning_rates` holds one rate per run, `keywords` the other hyper-parameters as the units call them, for
    weights (N, K) or a bias (N,) alike. `velocity` is also the last step.
    """

    weights: Array
    gradient: Array
    new_weights: Array
    velocity: Array | None = None
    accumulated: Array | None = None
    learning_rates: tuple[float, ...] = (0.1,)
    keywords: Mapping[str, Any] = field(default_factory=dict)
    tolerance: Mapping[str, float] = field(default_factory=lambda: {"float64": 1e-14, "float32": 1e-6})
