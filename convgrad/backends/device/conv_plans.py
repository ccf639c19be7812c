"""Plans of the operations of convolution: pure functions, whose results are remembered for the next step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from convgrad.backends.device import elementwise
from convgrad.backends.device.columns import ColumnProducts, ColumnSums
from convgrad.backends.device.correlating import MergedProducts, Products
from convgrad.backends.device.images import Device, Images
from convgrad.backends.device.narrow import NarrowProducts
from convgrad.backends.device.plan import Launch, Parts, Plan
from convgrad.backends.device.products import Finish, Weights
from convgrad.backends.device.summing import BiasSums, WeightSums
from convgrad.geometry import ConvGeometry

REMEMBERED = 1024  # plans

Shape = tuple[int, int, int]
Sources = list[tuple[Images, tuple[Launch, ...]]]  # images to read, and what makes them ready


@dataclass(frozen=True)
class Task:
    """What both directions have in common: `rows` of the arrays, of which `images` count.

    adjoint: the transposed convolution, from (OH, OW, n_kernels) to (H, W, C). transposed: how the weights
    are stored. algorithm: "direct" or "im2col". unpack_size: images of a sub-block at most.
    """

    device: Device
    geometry: ConvGeometry
    adjoint: bool
    rows: int
    images: int
    activation: str
    transposed: bool
    algorithm: str
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

    @property
    def error_bytes(self) -> int:
        """Of one image of err_output times the activation's factor; 0 where there is none."""
        return 0 if self.activation == "linear" else prod(self.output_shape) * self.device.dtype.itemsize

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
            yield from self.device.zeros(role, self.images * size, (self.rows - self.images) * size)


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
    launches = [*task.clear("out", task.output_shape)]
    if not task.images:
        return Plan(tuple(launches))
    products = _products(task, straight=not task.adjoint, budget=budget // 2)
    sources, scratch = _inputs(task, products, budget // 2)
    finish = Finish("bias" if bias else None, task.activation)
    launches += products.prepare()
    for source, before in sources:
        launches += [*before, *products.launches(source, "out", finish)]
    return Plan(tuple(launches), scratch + products.scratch())


def _products(task: Task, *, straight: bool, budget: int) -> Products | ColumnProducts:
    layer = task.device, task.geometry, task.weights
    if task.algorithm == "im2col":
        return ColumnProducts(*layer, straight, task.images, budget, task.unpack_size)
    if straight and not task.adjoint and MergedProducts.suits(task.device, task.geometry):
        return MergedProducts(*layer, straight)
    if not straight and NarrowProducts.suits(task.device, task.geometry):
        return NarrowProducts(*layer, straight, budget)
    return Products(*layer, straight)


def _inputs(task: Task, products: Products | ColumnProducts, budget: int) -> tuple[Sources, Parts]:
    """x as the products read it."""
    if not isinstance(products, MergedProducts) or not products.image_bytes:
        return [(Images("x", range(task.images)), ())], ()
    blocks = task.blocks(products.image_bytes, budget)
    sources: Sources = [
        (Images("padded", block, block.start), (products.pad(block, "padded"),)) for block in blocks
    ]
    return sources, (("padded", len(blocks[0]) * products.image_bytes),)


@lru_cache(REMEMBERED)
def backward_plan(task: Task, wanted: Wanted, budget: int) -> Plan:
    """The wanted gradients; each kind of scratch memory gets its part of the budget."""
    launches = [*task.clear("err_input", task.input_shape)] if wanted.err_input else []
    if not task.images:
        return Plan((*launches, *_zeros(task, wanted)))
    products = _products(task, straight=task.adjoint, budget=budget // 4)
    weights = _weight_sums(task, budget // 4)
    bias = BiasSums(task.device, task.images, task.output_shape, budget // 8, task.error_bytes)
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


def _weight_sums(task: Task, budget: int) -> WeightSums:
    layer = task.device, task.geometry, task.images, task.transposed, budget, task.error_bytes
    return ColumnSums(*layer, task.unpack_size) if task.algorithm == "im2col" else WeightSums(*layer)


def _zeros(task: Task, wanted: Wanted) -> Iterator[Launch]:
    """The gradients of no image."""
    if wanted.weights:
        size = task.geometry.n_kernels * task.geometry.taps
        yield from task.device.zeros("weight_gradient", 0, size)
    if wanted.bias:
        yield from task.device.zeros("bias_gradient", 0, task.output_shape[2])


def _errors(task: Task, budget: int, multiple: int) -> tuple[Sources, Parts]:
    """err_output times the activation's factor, block by block; itself where there is none."""
    if not task.error_bytes:
        return [(Images("err_output", block), ()) for block in task.blocks(0, budget, multiple)], ()
    blocks = task.blocks(task.error_bytes, budget, multiple)
    sources: Sources = [(Images("errors", block, block.start), _scaled(task, block)) for block in blocks]
    return sources, (("errors", len(blocks[0]) * task.error_bytes),)


def _scaled(task: Task, block: range) -> tuple[Launch, ...]:
    device, size = task.device, prod(task.output_shape)
    roles = "err_output", "output", "errors"
    start, count = block.start * size, len(block) * size
    return elementwise.scale(*roles, count, task.activation, device.dtype, device.profile, start).launches


def _operands(task: Task, errors: Images) -> tuple[Images, Images]:
    """Images in the places of x and of errors: a transposed convolution has them exchanged."""
    x = Images("x", errors.images, 0)
    return (errors, x) if task.adjoint else (x, errors)
