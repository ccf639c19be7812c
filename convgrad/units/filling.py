"""How weights and biases begin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError
from convgrad.geometry.checks import option
from convgrad.prng import Random
from convgrad.update_rule import finite

FILLINGS = ("uniform", "gaussian", "constant")


def filled(
    name: str, filling: str, shape: tuple[int, ...], stddev: float, rand: Random
) -> NDArray[np.float64]:
    """First values of the parameter `name`.

    Uniform in [-stddev, stddev), gaussian cut at 5 * stddev, or stddev, of either sign, everywhere.
    """
    option(f"{name}_filling", filling, FILLINGS)
    stddev = finite(f"{name}_stddev", stddev)
    if filling != "constant" and stddev < 0:
        raise BadFormatError(f"{name}_stddev must be at least 0 for {filling} values, got {stddev}")
    match filling:
        case "uniform":
            return rand.uniform(-stddev, stddev, shape)
        case "gaussian":
            return np.clip(rand.gaussian(0.0, stddev, shape), -5 * stddev, 5 * stddev)
        case _:
            return np.full(shape, stddev)


def generator(rand: Any) -> Random:
    """`rand` itself, or a new generator for a seed; None is seed 1."""
    if isinstance(rand, Random):
        return rand
    return Random(1 if rand is None else rand)
