"""Random numbers that are the same on every platform, for every backend and NumPy version.

The raw 64-bit words come from the counter-based generator Philox 4x64 with 10 rounds (J. Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", 2011), keyed by (seed, stream). NumPy's own distributions may
change from version to version, and log or cos differ in the last bit between platforms; so words become
numbers here, by exact operations alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError

_WORDS_PER_COUNT = 4  # Philox turns one value of its counter into four words


class Random:
    """A stream of random numbers: the same for the same `seed` and `stream`, unrelated for any others.

    seed, stream: integers in [0, 2**64).
    """

    def __init__(self, seed: int, *, stream: int = 0) -> None:
        self._seed = _word("seed", seed)
        self._stream = _word("stream", stream)
        self._go_to(0)

    @classmethod
    def from_state(cls, state: Sequence[int]) -> Random:
        """The generator that `state` was taken from, at the place where it stood then."""
        if not isinstance(state, Sequence) or len(state) != 3:
            raise BadFormatError(f"state must be three integers (seed, stream, words drawn), got {state!r}")
        random = cls(state[0], stream=state[1])
        random._go_to(_word("words drawn", state[2]))
        return random

    def state(self) -> list[int]:
        """Seed, stream and number of words drawn so far."""
        return [self._seed, self._stream, self._drawn]

    def uniform(self, low: float, high: float, shape: int | tuple[int, ...] = ()) -> NDArray[np.float64]:
        """Float64 numbers in [low, high), `low` when both are equal; one word each, its upper 53 bits."""
        if not (low <= high and math.isfinite(high - low)):
            raise BadFormatError(f"low must be at most high, and their difference finite; got {low}, {high}")
        numbers = low + (high - low) * self._unit(shape)
        # the sum may round up to high
        return np.asarray(np.minimum(numbers, np.nextafter(high, low)), dtype=np.float64)

    def gaussian(self, mean: float, stddev: float, shape: int | tuple[int, ...] = ()) -> NDArray[np.float64]:
        """Float64 numbers, nearly normal: the sum of twelve uniform numbers, which ends at 6 stddev.

        The textbook transforms need log and cos, whose last bits depend on the platform.
        """
        deviate = self._unit(shape) - 6
        for _ in range(11):
            deviate = deviate + self._unit(shape)
        return np.asarray(mean + stddev * deviate, dtype=np.float64)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """The numbers 0 to n - 1 in random order: the order in which n words, taken as keys, sort."""
        return np.argsort(self._words(_word("n", n)), kind="stable").astype(np.int64)

    def _unit(self, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        given = shape if isinstance(shape, Iterable) else (shape,)
        sizes = tuple(_word("shape", size) for size in given)
        numbers = (self._words(math.prod(sizes)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return numbers.reshape(sizes)

    def _words(self, count: int) -> NDArray[np.uint64]:
        self._drawn += count
        return np.asarray(self._philox.random_raw(count), dtype=np.uint64)

    def _go_to(self, drawn: int) -> None:
        counts, rest = divmod(drawn, _WORDS_PER_COUNT)
        self._philox = np.random.Philox(key=self._seed | self._stream << 64, counter=counts)
        self._philox.random_raw(rest)
        self._drawn = drawn


def _word(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise BadFormatError(f"{name} must be an integer, got {value!r}") from None
    if not 0 <= number < 2**64:
        raise BadFormatError(f"{name} must be in [0, 2**64), got {value}")
    return number
