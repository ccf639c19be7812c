"""The passes over the blocks of a batch that every convolution is made of.

*correlate* unpacks images and multiplies: forward, and the adjoint where it can be gathered.
*gather_gradients* unpacks err_output and multiplies twice; *pack_gradients* unpacks x, multiplies twice
and packs. Each worker owns a range of images and its own partial sums; sums are added up in the order of
the workers, so the bits do not depend on which thread is faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from convgrad.backends.numpy.blocks import Blocks, plan_blocks
from convgrad.backends.numpy.columns import Columns, Pixels
from convgrad.backends.numpy.products import (
    Floats,
    Product,
    Scratch,
    SplitProduct,
    grouped,
    multiply_into,
    product,
)
from convgrad.backends.numpy.sums import Errors, Sums
from convgrad.backends.numpy.threads import Threads
from convgrad.geometry import ConvGeometry

NUMPY_BUFFERS = 512 << 10  # what ufuncs take by themselves for operands that need casts or copies
Finish = Callable[[Floats], None]  # what happens to a block of outputs once it is complete


class ErrInput(NamedTuple):
    """Where errors times `kernels` go: array = alpha * new + beta * old."""

    array: Floats
    kernels: Floats
    alpha: float = 1.0
    beta: float = 0.0


class Gradients(NamedTuple):
    """What a pass writes; None for what is not wanted. `weights` (groups, m, n) is summed from x."""

    err_input: ErrInput | None = None
    x: Floats | None = None
    weights: Floats | None = None
    bias: Floats | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """What the passes of one call share.

    How the batch is cut follows from these and the geometry alone: as if every gradient were wanted, and
    every operand had to be copied. So the bits of one gradient do not depend on which others are asked
    for, nor on how the operands lie in memory.
    """

    batch: int
    dtype: np.dtype[Any]
    workspace: int
    threads: Threads
    unpack_size: int | None = None
    weights_size: int = 0

    def turned_room(self) -> int:
        """Elements of the workspace that turned kernels and their gradient may have."""
        return self.workspace // 4 // self.dtype.itemsize

    def reserving(self, geometry: ConvGeometry) -> Call:
        """The same call with less workspace: turned kernels and their gradient have their share."""
        taken = 0 if geometry.pointwise else 2 * geometry.n_kernels * geometry.taps * self.dtype.itemsize
        return replace(self, workspace=self.workspace - taken)

    def plan(self, elements: Callable[[int, int], int], rows: int, work: int) -> Blocks:
        """Cut the batch; `elements(images, rows)` of scratch per block."""
        return self._blocks(elements, rows, work, 0, self.threads.count)

    def plan_sums(
        self, elements: Callable[[int, int], int], rows: int, work: int, gradients: Gradients
    ) -> tuple[Blocks, Sums]:
        """Cut the batch, with a sum and a product of the weights' gradient for each worker.

        Where these do not fit, one worker makes the products in slices of kernels, each product spread over
        the threads.
        """
        total, size = gradients.weights, self.weights_size * self.dtype.itemsize
        if 2 * size * self.threads.count <= self.workspace // 2:
            blocks, fraction = self._blocks(elements, rows, work, 2 * size, self.threads.count), 1.0
        else:
            fraction = min(1.0, self.workspace / (4 * size))
            blocks = self._blocks(elements, rows, work, int(size * fraction), 1)
        slice_rows = 1 if total is None else max(1, int(total.shape[1] * fraction))
        return blocks, Sums(total, gradients.bias, blocks, slice_rows)

    def product(self, blocks: Blocks) -> Product:
        """How a worker multiplies: alone, or with the help of the threads that have no images."""
        return SplitProduct(self.threads) if blocks.workers == 1 else product

    def run(self, blocks: Blocks, work: Callable[[int], None]) -> None:
        """Call `work(worker)` for every worker."""
        if self.batch:
            self.threads.run([partial(work, worker) for worker in range(blocks.workers)])

    def _blocks(
        self, elements: Callable[[int, int], int], rows: int, work: int, worker_bytes: int, threads: int
    ) -> Blocks:
        return plan_blocks(
            lambda images, band: elements(images, band) * self.dtype.itemsize,
            worker_bytes,
            batch=self.batch,
            rows=rows,
            work=work,
            budget=self.workspace - min(NUMPY_BUFFERS, self.workspace // 4),
            threads=threads,
            unpack_size=self.unpack_size,
        )


def correlate(
    call: Call, columns: Columns | Pixels, x: Floats, kernels: Floats, out: Floats, finish: Finish
) -> None:
    """out (N, rows, w, groups * m) = columns of x, times kernels (groups, taps, m), then `finish`."""

    def elements(images: int, band: int) -> int:
        return columns.size(images, band) + 2 * images * band * _row_size(out)  # 2: for the activation

    blocks = call.plan(elements, columns.y.output, out.size * columns.taps)
    multiply = call.product(blocks)

    def run(worker: int) -> None:
        scratch = Scratch(call.dtype)
        for images, band in blocks.of_worker(worker):
            target = out[images, band.start : band.stop]
            multiply_into(columns.unpack(x[images], band, scratch), kernels, target, scratch, multiply)
            finish(target)

    call.run(blocks, run)


def gather_gradients(
    call: Call, columns: Columns | Pixels, errors: Errors, gradients: Gradients, channels: int
) -> None:
    """err_input = columns of the errors times kernels; weights (groups, m, taps) = x by these columns.

    err_input and x are (N, rows, w, channels).
    """
    err_input, x = gradients.err_input, gradients.x
    unpacks = err_input is not None or x is not None

    def elements(images: int, band: int) -> int:
        cells = images * band * columns.x.output * channels
        x_and_product = 3 * cells  # a copy of x; with alpha or beta, the product and beta times the old
        return (
            columns.size(images, band) + x_and_product + errors.size(images, columns.most_source_rows(band))
        )

    work = errors.work(columns.taps)
    blocks, sums = call.plan_sums(elements, columns.y.output, work, gradients)
    multiply = call.product(blocks)

    def run(worker: int) -> None:
        scratch = Scratch(call.dtype)
        part = sums.of_worker(worker, multiply)
        for images, band in blocks.of_worker(worker):
            rows = columns.source_rows(band)
            block = errors.block((images, rows), scratch)
            part.add_rows(block[:, : columns.owned_rows(band)])
            if unpacks:
                here = images, slice(band.start, band.stop)
                matrix = columns.unpack(block, band, scratch, rows.start)
                if err_input is not None:
                    target, kernels, alpha, beta = err_input
                    multiply_into(matrix, kernels, target[here], scratch, multiply, alpha, beta)
                if x is not None:
                    left = grouped(scratch.contiguous("x", x[here]), columns.groups)
                    part.add_product(left.transpose(0, 2, 1), matrix)

    call.run(blocks, run)
    sums.finish()


def pack_gradients(
    call: Call, columns: Columns, errors: Errors, gradients: Gradients, finish: Finish | None = None
) -> None:
    """weights (groups, m, taps) = errors by columns of x; err_input = errors times kernels, packed.

    `finish` is called on each block of err_input.
    """
    err_input, x = gradients.err_input, gradients.x

    def elements(images: int, band: int) -> int:
        return columns.size(images, band) + errors.size(images, band)

    work = errors.work(columns.taps)
    blocks, sums = call.plan_sums(elements, columns.y.output, work, gradients)
    multiply = call.product(blocks)

    def run(worker: int) -> None:
        scratch = Scratch(call.dtype)
        part = sums.of_worker(worker, multiply)
        for images, band in blocks.of_worker(worker):
            block = errors.block((images, slice(band.start, band.stop)), scratch)
            matrix = grouped(block, columns.groups)
            part.add_rows(block)
            if x is not None:
                part.add_product(matrix.transpose(0, 2, 1), columns.unpack(x[images], band, scratch))
            if err_input is not None:
                _pack(columns, matrix, err_input, (images, band), scratch, multiply)
                if finish is not None and band.stop == columns.y.output:
                    finish(err_input.array[images])

    call.run(blocks, run)
    sums.finish()


def _pack(
    columns: Columns,
    errors: Floats,
    err_input: ErrInput,
    block: tuple[slice, range],
    scratch: Scratch,
    multiply: Product,
) -> None:
    images, band = block
    target = err_input.array[images]
    if band.start == 0:
        if err_input.beta == 0:
            target[...] = 0  # not a product: the old content may be NaN
        else:
            target *= err_input.beta
    multiply(errors, err_input.kernels, columns.matrix(scratch, len(target), len(band)))
    columns.pack(target, band, scratch, err_input.alpha)


def _row_size(array: Floats) -> int:
    """Elements of one row of cells of one image."""
    return math.prod(array.shape[2:])


def sum_rows(call: Call, errors: Errors, total: Floats, rows: int) -> None:
    """total (k,) = sum of the errors (N, rows, w, k) over all but the last axis."""
    blocks, sums = call.plan_sums(errors.size, rows, errors.work(1), Gradients(bias=total))

    def run(worker: int) -> None:
        scratch = Scratch(call.dtype)
        part = sums.of_worker(worker, product)
        for images, band in blocks.of_worker(worker):
            part.add_rows(errors.block((images, slice(band.start, band.stop)), scratch))

    call.run(blocks, run)
    sums.finish()
