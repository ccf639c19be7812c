"""Windows drawn at random, one direction at a time, until the two cannot be taken for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.reference.conv import Pair, Quad


class Axis(NamedTuple):
    """One direction of a window. `rest` cells are left over behind the last step."""

    kernel: int
    step: int
    dilation: int
    before: int
    after: int
    rest: int

    def size(self, outputs: int) -> int:
        """Cells of an image that gives `outputs` outputs, or more where padding alone gives them."""
        extent = (self.kernel - 1) * self.dilation + 1
        return max(1, (outputs - 1) * self.step + extent + self.rest - self.before - self.after)


class Window(NamedTuple):
    """Two directions, as the layers name them, and the size (H, W) of the image."""

    size: Pair
    kernel: Pair
    sliding: Pair
    dilation: Pair
    padding: Quad


class Draw:
    """Whole numbers from a source of randomness, both ends included."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random

    def __call__(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def one_of(self, *pairs: Pair) -> Pair:
        return pairs[self(0, len(pairs) - 1)]

    def axis(self, kernel: int, step: int = 1, dilation: int = 1, pads: Pair = (0, 0), rest: int = 0) -> Axis:
        """The paddings between the two `pads`, at least `rest` cells left over."""
        return Axis(kernel, step, dilation, self(*pads), self(*pads), self(rest, step - 1))


def _wide_padding(draw: Draw) -> Axis:
    kernel = draw(1, 3)
    return draw.axis(kernel, draw(1, 3), draw(1, 2), (kernel, kernel + 2))


def _long_step(draw: Draw) -> Axis:
    kernel = draw(1, 3)
    return draw.axis(kernel, kernel + draw(1, 2), draw(1, 2), (0, 3))


def _own_step(draw: Draw) -> Axis:
    kernel = draw(2, 4)
    return draw.axis(kernel, kernel)


def _overlapping(draw: Draw) -> Axis:
    kernel = draw(2, 4)
    return draw.axis(kernel, draw(1, kernel - 1), pads=(0, kernel - 1))


AXES: dict[str, Callable[[Draw], Axis]] = {
    "plain": lambda draw: draw.axis(draw(1, 4), draw(1, 3), draw(1, 2), (0, 3)),
    "shared_factor": lambda draw: draw.axis(draw(2, 3), *draw.one_of((2, 2), (2, 4), (4, 2), (3, 3)), (0, 3)),
    "wide_padding": _wide_padding,
    "long_step": _long_step,
    "leftover": lambda draw: draw.axis(draw(2, 3), draw(2, 4), draw(1, 2), (0, 1), rest=1),
    "bare": lambda draw: draw.axis(draw(1, 4)),
    "pointwise_stride": lambda draw: draw.axis(1, 2),
    "pointwise_padded": lambda draw: draw.axis(1, draw(1, 2), pads=(1, 3)),
    "own_step": _own_step,
    "overlapping": _overlapping,
    "dilated": lambda draw: draw.axis(draw(2, 3), draw(1, 3), draw(2, 3), (0, 2)),
}
_POINTWISE = {"pointwise_stride", "pointwise_padded"}
_ONE_STEP = {"bare", *_POINTWISE}  # too few steps to choose from to ask for different ones


def _lopsided(kind: str, x: Axis, y: Axis, size: Pair) -> bool:
    pads = {(x.before, x.after), (y.before, y.after)}
    return (
        size[0] != size[1]
        and (kind in _POINTWISE or x.kernel != y.kernel)
        and (kind in _ONE_STEP or (x.step, x.dilation) != (y.step, y.dilation))
        and (len(pads) == 2 or pads == {(0, 0)})
    )


def draw_window(kind: str, random: np.random.Generator) -> Window:
    """A lopsided window of this kind over an image that gives about 1 to 4 outputs each way."""
    draw = Draw(random)
    while True:
        x, y = AXES[kind](draw), AXES[kind](draw)
        size = y.size(draw(1, 4)), x.size(draw(1, 4))
        if _lopsided(kind, x, y, size):
            padding = (x.before, y.before, x.after, y.after)
            return Window(size, (x.kernel, y.kernel), (x.step, y.step), (x.dilation, y.dilation), padding)
