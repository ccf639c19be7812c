"""Gradients of a batch that is cut into ranges of images, as over several ranks, to the bits of the whole.

Each range gives the nodes of its part of the tree of fixed numerics (docs/numerics.md); merging them gives
the gradients of all. A node is a float32 array with its place, to be sent as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError
from convgrad.functional.calls import Pair, Quad, documented
from convgrad.functional.conv import conv_backward
from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import whole
from convgrad.interfaces import ConvGradients
from convgrad.numerics.leaves import Leaves
from convgrad.numerics.tree import Node, Nodes

WINDOW = """- padding: (left, top, right, bottom) cells around the image; sliding, dilation: (x, y) cells;
- groups: consecutive groups of channels, each seen by its own n_kernels // groups kernels."""
OPTIONS = """- activation: as in conv_backward; all but "linear" need `output`, the forward's result;
- backend: a name, a backend object, or None: the default one. Numerics are fixed."""


class GradientNodes(NamedTuple):
    """Nodes of the gradients of weights (n_kernels, ky, kx, C // groups) and of bias (n_kernels,)."""

    weights: tuple[Node, ...]
    bias: tuple[Node, ...]


@documented(WINDOW)
def images_together(
    x: NDArray[Any],
    weights: NDArray[Any],
    *,
    padding: Quad = (0, 0, 0, 0),
    sliding: Pair = (1, 1),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> int:
    """The number of images, 1 to 16, at whose multiples ranges must begin.

    x (any number of images, H, W, C), weights (n_kernels, ky, kx, C // groups).
    """
    window: Any = {"padding": padding, "sliding": sliding, "dilation": dilation, "groups": groups}
    return _leaves(x, ConvGeometry.of(x, weights, **window)).leaf_images


@documented(WINDOW, OPTIONS)
def gradient_nodes(
    x: NDArray[Any],
    weights: NDArray[Any],
    err_output: NDArray[Any],
    *,
    first: int = 0,
    output: NDArray[Any] | None = None,
    padding: Quad = (0, 0, 0, 0),
    sliding: Pair = (1, 1),
    dilation: Pair = (1, 1),
    groups: int = 1,
    activation: str = "linear",
    backend: Any = None,
) -> GradientNodes:
    """The nodes of a range of images, of which `first` is the first one's number in the whole batch.

    x, weights, err_output and output are those of `conv_backward`, as ndarrays of float32 and of these images
    alone. `first` is a multiple of `images_together`, and so is the number of images, but in the last range.
    """
    window: Any = {"padding": padding, "sliding": sliding, "dilation": dilation, "groups": groups}
    leaves = _leaves(x, ConvGeometry.of(x, weights, **window))
    if whole("first", first, least=0) % leaves.leaf_images:
        raise BadFormatError(f"first must be a multiple of {leaves.leaf_images} for this layer, got {first}")
    options: Any = {"activation": activation, "backend": backend, "numerics": "fixed", **window}
    start, nodes = first // leaves.leaf_images, GradientNodes((), ())
    for level, place in _subtrees(start, start + leaves.units):
        ends = ((unit << level) - start for unit in (place, place + 1))
        images = slice(*(end * leaves.leaf_images for end in ends))
        arrays = x[images], weights, err_output[images]
        some = None if output is None else output[images]
        part = conv_backward(*arrays, output=some, need=("weights", "bias"), **options)
        weight, bias = Node(level, place, part.weights), Node(level, place, part.bias)
        nodes = GradientNodes((*nodes.weights, weight), (*nodes.bias, bias))
    return nodes


def merge_gradient_nodes(ranges: Iterable[GradientNodes]) -> ConvGradients:
    """The gradients of weights and bias of a whole batch, from the nodes of its ranges in ascending order.

    Raises ValueError where a range is missing or there twice.
    """
    ranges = list(ranges)
    weights, bias = (_merged([part[i] for part in ranges]) for i in range(2))
    return ConvGradients(None, weights, bias)


def _merged(parts: list[tuple[Node, ...]]) -> NDArray[np.float32]:
    nodes = Nodes()
    for part in parts:
        nodes.merge(part)
    if not list(nodes):
        raise ValueError("ranges must hold an image at least")
    return nodes.total(np.zeros((), np.float32)) + np.float32(0)


def _leaves(x: NDArray[Any], geometry: ConvGeometry) -> Leaves:
    return Leaves(len(x), geometry.y.output, geometry.x.output)


def _subtrees(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """(level, place) of the largest whole subtrees that make up the leaves from `start` to `stop`."""
    while start < stop:
        level = (stop - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        yield level, start >> level
        start += 1 << level
