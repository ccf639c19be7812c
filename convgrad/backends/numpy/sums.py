"""What a gradient is made of, block by block: errors with their factor, and sums over workers."""

from __future__ import annotations

import numpy as np

from convgrad.backends.numpy import activation as activations
from convgrad.backends.numpy.blocks import Blocks
from convgrad.backends.numpy.products import Floats, Product, Scratch, SumOfProducts

Index = tuple[slice, slice]


class Errors:
    """err_output times the factor of the activation, block by block, C-contiguous."""

    def __init__(self, err_output: Floats, output: Floats | None, activation: str) -> None:
        self._err_output = err_output
        self._output = output
        self._activation = activation

    def size(self, images: int, rows: int) -> int:
        """Elements of scratch for `rows` rows of each of `images` images.

        Counts the rows' sums of Part.add_rows, and twice the block, which may be computed or copied.
        """
        width, channels = self._err_output.shape[2:]
        sums: int = images * rows * channels
        return sums + 2 * sums * int(width)

    def work(self, taps: int) -> int:
        """Multiply-adds of one product in which every error meets `taps` weights."""
        return self._err_output.size * taps

    def block(self, index: Index, scratch: Scratch) -> Floats:
        """The block at `index` (images, rows)."""
        errors = self._err_output[index]
        if self._activation == "linear":
            return scratch.contiguous("errors", errors)
        assert self._output is not None  # functional and units have checked that it is given
        scaled = scratch.take("errors", errors.size).reshape(errors.shape)
        activations.scale(self._activation, errors, self._output[index], scaled)
        return scaled


class Part:
    """One worker's sums of the gradients of weights (groups, m, n) and bias (k,); None = not wanted."""

    def __init__(self, products: SumOfProducts | None, bias: Floats | None) -> None:
        self._products = products
        self._bias = bias

    def add_product(self, left: Floats, right: Floats) -> None:
        """Add (groups, m, P) @ (groups, P, n) to the weights' gradient."""
        if self._products is not None:
            self._products.add(left, right)

    def add_rows(self, block: Floats) -> None:
        """Add the sum over all but the last axis of `block` (n, rows, w, k) to the bias' gradient.

        Along a row of cells first, so that long sums are cut into short ones.
        """
        if self._bias is not None:
            self._bias += block.sum(axis=2).sum(axis=(0, 1))


class Sums:
    """The gradients of weights and bias as one part per worker, added up in the order of the workers.

    `weights` (groups, m, n) and `bias` (k,) take the sums and are the first worker's part.
    """

    def __init__(self, weights: Floats | None, bias: Floats | None, blocks: Blocks, slice_rows: int) -> None:
        self._weights = _parts(weights, blocks.workers)
        self._bias = _parts(bias, blocks.workers)
        self._slice_rows = slice_rows
        for part in self._bias if blocks.batch else self._bias + self._weights:
            part[...] = 0

    def of_worker(self, worker: int, multiply: Product) -> Part:
        """What the worker adds its blocks to."""
        weights = self._weights[worker] if self._weights else None
        products = None if weights is None else SumOfProducts(weights, self._slice_rows, multiply)
        return Part(products, self._bias[worker] if self._bias else None)

    def finish(self) -> None:
        """Add up."""
        with np.errstate(all="ignore"):  # as in the tasks that made the parts
            for parts in (self._weights, self._bias):
                for part in parts[1:]:
                    parts[0] += part


def _parts(total: Floats | None, workers: int) -> list[Floats]:
    return [] if total is None else [total, *(np.empty_like(total) for _ in range(1, workers))]
