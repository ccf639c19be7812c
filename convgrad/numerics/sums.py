"""Gradients of weights and biases: chains over the positions of a leaf, leaves summed as a tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convgrad.geometry import ConvGeometry
from convgrad.numerics.chains import add_product, seen
from convgrad.numerics.fma import Doubles, Singles
from convgrad.numerics.leaves import Leaves
from convgrad.numerics.tree import Nodes

BLOCK = 2**15  # results that are computed at once: the few temporaries should stay in a core's cache


def weight_nodes(x: Doubles, d: Doubles, geometry: ConvGeometry, first: int = 0) -> Nodes:
    """The nodes, (K, ky, kx, C) each, of images of one group: x (N, H, W, C), d (N, OH, OW, K).

    first: number of the first unit among those of the whole batch.
    """
    leaves, nodes = Leaves(len(d), geometry.y.output, geometry.x.output), Nodes(first)
    each = max(1, BLOCK // max(1, d.shape[3] * geometry.ky * geometry.kx * x.shape[3]))
    for units in _runs(leaves.units, each):
        images = slice(units.start * leaves.leaf_images, units.stop * leaves.leaf_images)
        for value in _weights_of(x[images], d[images], geometry, leaves):
            nodes.push(value)
    return nodes


def _weights_of(x: Doubles, d: Doubles, geometry: ConvGeometry, leaves: Leaves) -> Singles:
    """(units, K, ky, kx, C): the sum over the bands of each unit."""
    units, kernels, step = -(-len(d) // leaves.leaf_images), d.shape[3], leaves.leaf_images
    shape = (units, kernels, geometry.ky, geometry.kx, x.shape[3])
    nodes, rows, columns = (
        Nodes(),
        *([seen(axis, o) for o in range(axis.output)] for axis in (geometry.y, geometry.x)),
    )
    for band in range(leaves.bands):
        sums = np.zeros(shape, np.float64)
        for image in range(step):
            for row in leaves.rows_of(band):
                for column in range(leaves.columns):
                    (ky, y), (kx, x_cells) = rows[row], columns[column]
                    seen_here, errors = x[image::step, None, y, x_cells], d[image::step, row, column]
                    part = sums[: len(errors), :, ky, kx]
                    _add_by_kernels(part, seen_here, errors[:, :, None, None, None])
        nodes.push(sums.astype(np.float32))
    return nodes.total(np.zeros(shape, np.float32))


def _add_by_kernels(sums: Doubles, seen_here: Doubles, errors: Doubles) -> None:
    """A term of each sum; some kernels at once."""
    each = max(1, BLOCK * sums.shape[1] // max(1, sums.size))
    for kernels in _runs(sums.shape[1], each):
        some = slice(kernels.start, kernels.stop)
        add_product(sums[:, some], seen_here, errors[:, some])


def bias_nodes(d: Singles, first: int = 0) -> Nodes:
    """The nodes, (K,) each, of errors (N, rows, columns, K); `first` as in weight_nodes."""
    leaves, nodes = Leaves(*d.shape[:3]), Nodes(first)
    step, shape = leaves.leaf_images, (leaves.units, d.shape[3])
    bands = Nodes()
    for band in range(leaves.bands):
        sums = np.zeros(shape, np.float32)
        for image in range(step):
            for row in leaves.rows_of(band):
                for column in range(leaves.columns):
                    errors = d[image::step, row, column]
                    sums[: len(errors)] += errors
        bands.push(sums)
    for value in bands.total(np.zeros(shape, np.float32)):
        nodes.push(value)
    return nodes


def _runs(count: int, each: int) -> Iterator[range]:
    return (range(start, min(start + each, count)) for start in range(0, count, each))
