"""Batches cut into ranges of images: the nodes of the ranges, merged, have the bits of the whole batch."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.functional import (
    conv_backward,
    conv_forward,
    gradient_nodes,
    images_together,
    merge_gradient_nodes,
)
from convgrad.numerics.tree import Node, Nodes
from tests.reference import order

LAYERS = {  # images; x, weights and window; the second has leaves of 8 images, the third bands of rows
    "one image": (11, (13, 11, 2), (3, 2, 3, 2), {"padding": (1, 2, 0, 1)}),
    "8 images": (61, (5, 6, 4), (6, 2, 2, 2), {"groups": 2, "dilation": (2, 1)}),
    "bands": (7, (24, 21, 2), (2, 3, 2, 2), {"sliding": (1, 1)}),
    "16 images": (70, (1, 1, 9), (5, 1, 1, 9), {}),
}


def drawn(name, rng):
    images, size, kernel, window = LAYERS[name]
    x, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((images, *size), kernel))
    y = conv_forward(x, weights, activation="tanh", numerics="fixed", backend="numpy", **window)
    return x, weights, rng.standard_normal(y.shape).astype(np.float32), y, window


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("cuts", [(), (1,), (1, 2), (3,), (1, 2, 3)], ids=str)
def test_merged_ranges_have_the_bits_of_the_whole(backend, layer, cuts, rng):
    x, weights, d, y, window = drawn(layer, rng)
    step = images_together(x, weights, **window)
    ends = [0, *(cut * step for cut in cuts if cut * step < len(x)), len(x)]
    options = {"activation": "tanh", "backend": backend, **window}
    ranges = [
        gradient_nodes(x[a:b], weights, d[a:b], output=y[a:b], first=a, **options) for a, b in pairwise(ends)
    ]
    found = merge_gradient_nodes(ranges)
    whole = conv_backward(x, weights, d, output=y, numerics="fixed", **options)
    assert found.weights.tobytes() == whole.weights.tobytes()
    assert found.bias.tobytes() == whole.bias.tobytes()


def test_a_range_holds_few_nodes(rng):
    x, weights, d, _, window = drawn("one image", rng)
    nodes = gradient_nodes(x[3:], weights, d[3:], first=3, backend="numpy", **window)
    assert [(node.level, node.place) for node in nodes.bias] == [(0, 3), (2, 1), (1, 4), (0, 10)]


def test_a_range_that_begins_inside_of_a_leaf_is_refused(rng):
    x, weights, d, _, window = drawn("16 images", rng)
    with pytest.raises(BadFormatError, match="first must be a multiple of 16 for this layer, got 8"):
        gradient_nodes(x[8:], weights, d[8:], first=8, backend="numpy", **window)


def test_a_missing_range_is_told(rng):
    x, weights, d, _, window = drawn("one image", rng)
    ranges = [
        gradient_nodes(x[a:b], weights, d[a:b], first=a, backend="numpy", **window)
        for a, b in ((0, 2), (3, 11))
    ]
    with pytest.raises(ValueError, match="leaf 2 must come next, got 3"):
        merge_gradient_nodes(ranges)
    with pytest.raises(ValueError, match="ranges must hold"):
        merge_gradient_nodes([])


@pytest.mark.parametrize("count", [*range(1, 20), 31, 32, 33, 100])
@pytest.mark.parametrize("cut", [0, 1, 2, 3, 5, 8, 13, 40])
def test_nodes_are_the_tree_wherever_they_are_cut(count, cut, rng):
    values = list(
        rng.standard_normal((count, 3)).astype(np.float32) * np.float32(2) ** rng.integers(0, 20, (count, 3))
    )
    values = [value.astype(np.float32) for value in values]
    first, second = Nodes(), Nodes(min(cut, count))
    for number, value in enumerate(values):
        (first if number < cut else second).push(value)
    first.merge(second)
    zero = np.zeros(3, np.float32)
    assert first.total(zero).tobytes() == order.tree(values, zero).tobytes()
    assert len(list(first)) <= max(1, 2 * count.bit_length())


def test_no_nodes_are_nothing():
    assert Nodes().total(np.zeros(2, np.float32)).tobytes() == bytes(8)
    [node] = Nodes(3, [Node(0, 3, np.ones(1, np.float32))])
    assert node.place == 3
