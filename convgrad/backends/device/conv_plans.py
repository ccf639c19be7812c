"""Plans of the operations of convolution: pure functions, remembered, since a training step asks for the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from convgrad.backends.device import elementwise
from convgrad.backends.device.passes import BiasSums, Device, Images, MergedProducts, Products, WeightSums
from convgrad.backends.device.plan import Launch, Plan
from convgrad.backends.device.products import Finish, Weights
from convgrad.geometry import ConvGeometry

REMEMBERED = 1024  # plans

Shape = tuple[int, int, int]
Sources = list[tuple[Images, tuple[Launch, ...]]]  # images to read, and what makes them ready


@dataclass(frozen=True)
class Task:
    """What both directions have in common: `rows` of the arrays, of which `images` count.

    adjoint: the transposed convolution, which leads from (OH, OW, n_kernels) to (H, W, C). transposed: how the
    weights are stored. unpack_size: images of a sub-block at most.
    """

    device: Device
    geometry: ConvGeometry
    adjoint: bool
    rows: int
    images: int
    activation: str
    transposed: bool
    unpack_size: int | None

    @property
    def input_shape(self) -> Shape:
        """Of one image."""
        return self.geometry.output_shape if self.adjoint else self.geometry.input_shape

    @property
    def output_shape(self) -> Shape:
        """Of one image."""
        return self.geometry.input_shape if self.adjoint else self.geometry.output_shape

    @property
    def weights(self) -> Weights:
        """How the weights lie."""
        g = self.geometry
        return Weights.of(g.n_kernels, g.ky * g.kx, g.group_channels, g.groups, transposed=self.transposed)

    def blocks(self, image_bytes: int, budget: int, multiple: int = 1) -> list[range]:
        """The images that count, in blocks that take at most `budget` bytes each, if that can be.

        All but the last hold a multiple of `multiple` images.
        """
        step = self.images if image_bytes == 0 else budget // image_bytes
        step = step if self.unpack_size is None else min(step, self.unpack_size)
        step = max(multiple, step // multiple * multiple)
        return [range(start, min(start + step, self.images)) for start in range(0, self.images, step)]

    def clear(self, role: str, shape: Shape) -> Iterator[Launch]:
        """Make the rows of an array that do not count zero."""
        size = prod(shape)
        if self.rows > self.images:
            yield elementwise.fill(self.device.dtype, role, self.images * size, (self.rows - self.images) * size)


@dataclass(frozen=True)
class Wanted:
    """Which gradients are wanted, and how err_input is scaled."""

    err_input: bool
    weights: bool
    bias: bool
    alpha: float
    beta: float


@lru_cache(REMEMBERED)
def forward_plan(task: Task, bias: bool, budget: int) -> Plan:
    """out = activation(x by weights + bias)."""
    launches, scratch = [*task.clear("out", task.output_shape)], ()
    if task.images:
        finish = Finish("bias" if bias else None, task.activation)
        products = _forward_products(task)
        sources, scratch = _padded(task, products, budget)
        scratch += products.scratch()
        launches += products.prepare()
        for source, before in sources:
            launches += [*before, *products.launches(source, "out", finish)]
    return Plan(tuple(launches), scratch)


def _forward_products(task: Task) -> Products:
    kind = Products
    if not task.adjoint and MergedProducts.suits(task.device, task.geometry):
        kind = MergedProducts
    return kind(task.device, task.geometry, task.weights, straight=not task.adjoint)


def _padded(task: Task, products: Products, budget: int) -> tuple[Sources, tuple[tuple[str, int], ...]]:
    """x as the products read it."""
    if not isinstance(products, MergedProducts) or not products.image_bytes:
        return [(Images("x", range(task.images)), ())], ()
    blocks = task.blocks(products.image_bytes, budget)
    sources = [
        (Images("padded", block, block.start), (products.pad(block, "padded"),)) for block in blocks
    ]
    return sources, (("padded", len(blocks[0]) * products.image_bytes),)


@lru_cache(REMEMBERED)
def backward_plan(task: Task, wanted: Wanted, budget: int) -> Plan:
    """The wanted gradients."""
    launches = [*task.clear("err_input", task.input_shape)] if wanted.err_input else []
    if not task.images:
        return Plan((*launches, *_zeros(task, wanted)))
    products = Products(task.device, task.geometry, task.weights, straight=task.adjoint)
    weights = WeightSums(task.device, task.geometry, task.images, task.transposed, budget // 2)
    bias = BiasSums(task.device, task.images, task.output_shape, budget // 8)
    sources, scratch = _errors(task, budget // 4, max(weights.chunks.images, bias.chunks.images))
    if wanted.err_input:
        launches += products.prepare()
        scratch += products.scratch()
    finish = Finish(alpha=wanted.alpha, beta=wanted.beta)
    for errors, before in sources:
        launches += before
        if wanted.err_input:
            launches += products.launches(errors, "err_input", finish)
        if wanted.weights:
            launches += weights.launches(*_operands(task, errors), "weight_gradient")
        if wanted.bias:
            launches += bias.launches(errors, "bias_gradient")
    if wanted.weights:
        launches += weights.finish("weight_gradient")
        scratch += weights.scratch()
    if wanted.bias:
        launches += bias.finish("bias_gradient")
        scratch += bias.scratch()
    return Plan(tuple(launches), scratch)


def _zeros(task: Task, wanted: Wanted) -> Iterator[Launch]:
    """The gradients of no image."""
    if wanted.weights:
        size = task.geometry.n_kernels * task.geometry.taps
        yield elementwise.fill(task.device.dtype, "weight_gradient", 0, size)
    if wanted.bias:
        yield elementwise.fill(task.device.dtype, "bias_gradient", 0, task.output_shape[2])


def _errors(task: Task, budget: int, multiple: int) -> tuple[Sources, tuple[tuple[str, int], ...]]:
    """err_output times the activation's factor, block by block; itself where there is none."""
    if task.activation == "linear":
        return [(Images("err_output", block), ()) for block in task.blocks(0, budget, multiple)], ()
    size, dtype = prod(task.output_shape), task.device.dtype
    blocks = task.blocks(size * dtype.itemsize, budget, multiple)
    sources = [
        (
            Images("errors", block, block.start),
            (
                elementwise.scale(
                    task.device.profile, dtype, task.activation, "errors", block.start * size, len(block) * size
                ),
            ),
        )
        for block in blocks
    ]
    return sources, (("errors", len(blocks[0]) * size * dtype.itemsize),)


def _operands(task: Task, errors: Images) -> tuple[Images, Images]:
    """Images in the places of x and of errors: a transposed convolution has them exchanged."""
    x = Images("x", errors.images, 0)
    return (errors, x) if task.adjoint else (x, errors)
