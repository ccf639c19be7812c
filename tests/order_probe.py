"""The tree that a sum of float32 is computed as, seen from outside: two terms are large, and cancel.

All other terms are 1. Of these, those that meet a large term before the other large term does are lost. So
the result is the number of terms that are not below the node where the two meet; for enough pairs of terms
this tells the tree (Xie et al., "FPRev: Revealing Floating-Point Accumulation Order", 2024).

A tree is nested lists: a list is summed from left to right, a number is a term.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from convgrad.geometry import ConvGeometry
from convgrad.interfaces import ConvGradients
from tests import operations

LARGE = np.float32(2**40)  # up to 2**16 ones are lost beside it
LEAF_IMAGES = (16, 8, 4, 2, 1)
Tree = Any


class Difference(NamedTuple):
    """Two terms meet in a node of `found` terms instead of `wanted`."""

    pair: tuple[int, int]
    found: int
    wanted: int


def pairs_of(terms: int) -> list[tuple[int, int]]:
    """All pairs of few terms; of many each with its neighbour, some with the first, the last and others."""
    if terms <= 40:
        return [(i, j) for j in range(terms) for i in range(j)]
    random = np.random.default_rng(terms)
    some = [sorted(random.choice(terms, 2, replace=False).tolist()) for _ in range(100)]
    near = [(j - 1, j) for j in range(1, terms)]
    far = [*((0, j) for j in range(2, terms, 7)), *((j, terms - 1) for j in range(1, terms - 2, 11))]
    return [*near, *far, *((i, j) for i, j in some)]


def probes(pairs: list[tuple[int, int]], terms: int) -> np.ndarray:
    """(pairs, terms): the terms of each sum."""
    values = np.ones((len(pairs), terms), np.float32)
    first, second = np.array(pairs).T
    values[np.arange(len(pairs)), first] = LARGE
    values[np.arange(len(pairs)), second] = -LARGE
    return values


def differences(sums: np.ndarray, pairs: list[tuple[int, int]], tree: Tree) -> list[Difference]:
    """Where sums (pairs, results) of `probes` show another tree than this one."""
    paths = dict(ways(tree))
    found = [
        Difference(pair, len(paths) - int(value), meeting(*(paths[term] for term in pair)))
        for pair, row in zip(pairs, sums, strict=True)
        for value in row
    ]
    return [difference for difference in found if difference.found != difference.wanted]


Step = tuple[int, int]  # which part of a list, terms of it and of the parts before it


def ways(tree: Tree) -> Iterator[tuple[int, list[Step]]]:
    """Each term of a tree and the steps to it."""
    if not isinstance(tree, list):
        yield tree, []
        return
    terms = 0
    for number, part in enumerate(tree):
        below = [*ways(part)]
        terms += len(below)
        yield from ((term, [(number, terms), *steps]) for term, steps in below)


def meeting(first: list[Step], second: list[Step]) -> int:
    """How many terms are below the node where two meet."""
    return next(max(one[1], two[1]) for one, two in zip(first, second, strict=False) if one[0] != two[0])


# --- the trees of the contract (docs/numerics.md), by its words


def segmented(places: list[tuple[int, int]], entries: int) -> Tree:
    """Of terms (tap in nominal order, channel or kernel of it): segments of 256 terms at most."""
    segments: dict[tuple[int, int], list[int]] = {}
    for number, (tap, entry) in enumerate(places):
        segment = (tap // (256 // entries), 0) if entries < 256 else (tap, entry // 256)
        segments.setdefault(segment, []).append(number)
    return list(segments.values())


def pairwise(nodes: list[Tree]) -> Tree:
    """v[i] = v[2i] + v[2i + 1], an odd last one passes through."""
    while len(nodes) > 1:
        nodes = [nodes[i : i + 2] if i + 1 < len(nodes) else nodes[i] for i in range(0, len(nodes), 2)]
    return nodes[0]


def over_positions(images: int, rows: int, columns: int) -> Tree:
    """Of all positions: leaves of some images or some rows, and the trees of them."""
    numbers = np.arange(images * rows * columns).reshape(images, rows, columns)
    size = rows * columns
    if size > 256:
        height = max(1, 256 // columns)
        bands = [[n[row : row + height] for row in range(0, rows, height)] for n in numbers]
        return pairwise([pairwise([band.ravel().tolist() for band in image]) for image in bands])
    together = next(n for n in LEAF_IMAGES if n * size <= 256)
    return pairwise([numbers[n : n + together].ravel().tolist() for n in range(0, images, together)])


# --- the sums of a backend's operations; each gives what differs, from each of its results


class Window(NamedTuple):
    """A kernel over an image, of which one output sees the rows and columns that are in the image."""

    channels: int
    kernel: tuple[int, int] = (1, 1)  # (x, y)
    outside: tuple[int, int] = (0, 0)  # columns to the left and rows above that the output does not see
    others: int = 2  # kernels in a forward pass, channels in an input gradient

    @property
    def places(self) -> Iterator[tuple[int, int]]:
        """Terms in nominal order."""
        width, height = self.kernel
        for ky in range(self.outside[1], height):
            for kx in range(self.outside[0], width):
                yield from ((ky * width + kx, c) for c in range(self.channels))


def forward(place: Any, window: Window) -> list[Difference]:
    """Of a forward pass: taps ascending, channels ascending."""
    (kx, ky), (left, top) = window.kernel, window.outside
    size = ky - top, kx - left, window.channels
    geometry = ConvGeometry(*size, window.others, kx, ky, padding=(left, top, 0, 0))
    places = [*window.places]
    pairs = pairs_of(len(places))
    x = probes(pairs, len(places)).reshape(-1, *size)
    y = operations.conv_forward(place, x, np.ones(geometry.weights_shape, np.float32), None, geometry)
    return differences(y.reshape(len(pairs), -1), pairs, segmented(places, window.channels))


def input_gradient(place: Any, window: Window) -> list[Difference]:
    """Of the gradient of a cell that has no outputs to the left and above: outputs ascending."""
    (kx, ky), (left, top) = window.kernel, window.outside
    padding = kx - 1 - left, ky - 1 - top, kx - 1, ky - 1
    geometry = ConvGeometry(1, 1, window.others, window.channels, kx, ky, padding=padding)
    places = [*window.places]
    pairs = pairs_of(len(places))
    d = probes(pairs, len(places)).reshape(-1, *geometry.output_shape)
    weights = np.ones(geometry.weights_shape, np.float32)
    found = gradients(
        place, None, weights, d, geometry, ((len(d), 1, 1, window.others), None, None)
    ).err_input
    return differences(found.reshape(len(pairs), -1), pairs, segmented(places, window.channels))


def over_images(place: Any, images: int, rows: int, columns: int) -> list[Difference]:
    """Of the gradients of weights and bias."""
    tree, terms = over_positions(images, rows, columns), images * rows * columns
    pairs = pairs_of(terms)
    geometry = ConvGeometry(rows, columns, 2, len(pairs), 1, 1)
    d = np.ascontiguousarray(probes(pairs, terms).T).reshape(images, rows, columns, len(pairs))
    x = np.ones((images, *geometry.input_shape), np.float32)
    found = gradients(place, x, None, d, geometry, (None, geometry.weights_shape, (len(pairs),)))
    results = found.weights.reshape(len(pairs), -1), found.bias[:, None]
    return [difference for sums in results for difference in differences(sums, pairs, tree)]


def gradients(
    place: Any, x: Any, weights: Any, d: np.ndarray, geometry: ConvGeometry, shapes: tuple[Any, Any, Any]
) -> ConvGradients:
    """Those that have a shape."""
    wanted = ConvGradients(*(shape and operations.filled(place, shape, np.float32) for shape in shapes))
    place.conv.backward(*operations.uploaded(place, x, weights, d, None), wanted, geometry)
    return ConvGradients(*(operations.host(place, gradient) for gradient in wanted))
