"""What an operation on a device is made of: correlations, gradients of weights and of biases, each for some images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from convgrad.backends.device import correlation, elementwise, products, sums
from convgrad.backends.device.correlation import SEGMENT, Correlation, Reach, Strides
from convgrad.backends.device.driver import CPU, Profile, scalars
from convgrad.backends.device.leaves import Chunks, Leaves, chosen
from convgrad.backends.device.plan import Argument, Kernel, Launch, Parts
from convgrad.backends.device.products import Finish, Weights
from convgrad.geometry import ConvGeometry

Dtype = np.dtype[Any]
SMALL = (
    16  # channels: with fewer of them a chain over the taps of one row is worth a padded copy of the image
)


@dataclass(frozen=True)
class Device:
    """What plans depend on besides the layer."""

    profile: Profile
    dtype: Dtype

    @property
    def define(self) -> str:
        """The element type, to compile with."""
        return f"DOUBLE={int(self.dtype.itemsize == 8)}"

    def zeros(self, role: str, start: int, count: int) -> tuple[Launch, ...]:
        """Clear `count` elements of a buffer from `start` on."""
        return elementwise.fill(role, start, count, self.dtype, self.profile).launches


@dataclass(frozen=True)
class Images:
    """A range of images of an array, and where it lies: `role`, whose first image is number `first`."""

    role: str
    images: range
    first: int = 0

    def place(self, strides: Strides) -> Strides:
        """Where the range begins."""
        return strides._replace(start=strides.start + (self.images.start - self.first) * strides.image)


@dataclass(frozen=True)
class Products:
    """The correlations with the weights of `geometry`: its forward pass (`straight`) or the adjoint."""

    device: Device
    geometry: ConvGeometry
    weights: Weights
    straight: bool

    @property
    def wholes(self) -> list[Correlation]:
        """What has to be computed, for no image yet."""
        if self.straight:
            return [correlation.forward(self.geometry, 0)]
        return list(correlation.adjoint(self.geometry, 0))

    def scratch(self) -> Parts:
        """Packed weights of each correlation."""
        return tuple(
            (role, products.packed_bytes(whole, self._tile(whole), self.device.dtype))
            for role, whole in self._named(self.wholes)
        )

    def prepare(self) -> Iterator[Launch]:
        """Pack the weights."""
        for role, whole in self._named(self.wholes):
            if whole.taps:
                yield products.pack(
                    whole, self._tile(whole), self.device.dtype, self.weights, "weights", role
                )

    def launches(self, source: Images, target: str, finish: Finish) -> Iterator[Launch]:
        """Compute these images."""
        for role, whole in self._named(self._read()):
            place = Images(target, source.images).place(whole.target)
            part = replace(whole, images=len(source.images), source=source.place(whole.source), target=place)
            yield products.correlate(
                part, self._tile(whole), self.device.dtype, finish, source.role, role, target
            )

    def _read(self) -> list[Correlation]:
        return self.wholes

    def _tile(self, whole: Correlation) -> products.Tile:
        return products.tile_of(self.device.profile, self.device.dtype, whole.outputs)

    def _named(self, wholes: list[Correlation]) -> Iterator[tuple[str, Correlation]]:
        return ((f"packed{number}", whole) for number, whole in enumerate(wholes))


class MergedProducts(Products):
    """The forward pass over a padded copy of x: a row of the window and its few channels make one chain.

    This is so where all taps are of one segment.
    """

    @staticmethod
    def suits(device: Device, geometry: ConvGeometry) -> bool:
        """Whether that is worth while."""
        few = geometry.groups == 1 and geometry.channels < SMALL and geometry.taps <= SEGMENT
        return few and geometry.x.dilation == 1 and geometry.kx > 1 and device.profile.shape == CPU

    @property
    def image_bytes(self) -> int:
        """A padded image; 0 where there is no padding, and no copy."""
        g = self.geometry
        if g.padding == (0, 0, 0, 0):
            return 0
        return g.y.padded * g.x.padded * g.channels * self.device.dtype.itemsize

    def pad(self, images: range, role: str) -> Launch:
        """Copy these images of x, with their padding, into memory of this role."""
        g = self.geometry
        y, x = (Reach(axis.padded, axis.size, 1, -axis.before, 1, 1, 0, 1) for axis in (g.y, g.x))
        place = Images("x", images).place(Strides.of(*g.input_shape))
        return unpack(self.device, ("x", role), place, y, x, len(images), g.channels, 1, g.channels)

    def _read(self) -> list[Correlation]:
        g, [whole] = self.geometry, self.wholes
        return [
            replace(
                whole,
                y=whole.y._replace(size=g.y.padded, start=0),
                x=Reach(g.x.output, g.x.padded, g.x.stride, 0, 1, 1, 0, 1),
                source=Strides.of(g.y.padded, g.x.padded, g.channels),
                inputs=g.kx * g.channels,
                window=(g.ky, 1),
            )
        ]


def unpack(
    device: Device,
    roles: tuple[str, str],
    place: Strides,
    y: Reach,
    x: Reach,
    images: int,
    channels: int,
    groups: int,
    width: int,
) -> Launch:
    """Columns of `width` elements for each group of `channels` and each of the cells of y and x."""
    arguments: tuple[Argument, ...] = (
        *roles,
        *(np.int64(place.start), np.int64(place.image), np.int64(place.row)),
        *scalars(place.column, y.size, x.size, channels),
        *scalars(y.taps, x.taps, y.step, x.step, y.start, x.start, y.tap, x.tap),
        *scalars(images, y.cells, x.cells, groups, width),
    )
    count = images * y.cells * x.cells * groups * y.taps
    return Launch(
        Kernel("unpack.cl", "unpack", (device.define,)), (-(-count // 64), 1, 1), (64, 1, 1), arguments
    )


@dataclass(frozen=True)
class WeightSums:
    """The gradient of the weights of `geometry`: x (images, H, W, C) under the windows of errors (images, OH, OW, K)."""

    device: Device
    geometry: ConvGeometry
    images: int
    transposed: bool
    budget: int
    error_bytes: int  # that are made of each image of errors before it is read

    @property
    def size(self) -> int:
        """Elements of the gradient."""
        return self.geometry.n_kernels * self.geometry.taps

    @property
    def unpacks(self) -> bool:
        """Whether x is unpacked first: its channels do not fill vectors, taps times channels do."""
        if self.device.profile.shape != CPU:
            return False
        lanes, channels = sums.lanes_of(self.device.profile, self.device.dtype), self.geometry.group_channels
        return channels < lanes or (channels < 2 * lanes and channels % lanes != 0)

    @property
    def width(self) -> int:
        """Elements of a column of one group."""
        lanes = sums.lanes_of(self.device.profile, self.device.dtype)
        return -(-self.geometry.taps // lanes) * lanes

    @property
    def leaves(self) -> Leaves:
        """The leaves of the sum."""
        return Leaves(self.images, *self.geometry.output_shape[:2])

    @cached_property
    def chunks(self) -> Chunks:
        """How the sum is cut."""
        return chosen(self.leaves, self._cost, self.budget)

    def _cost(self, chunks: Chunks) -> int:
        """Scratch memory that such chunks take at least."""
        nodes = chunks.count * self.size * self.device.dtype.itemsize if chunks.count > 1 else 0
        columns = self.column_bytes * chunks.images // chunks.parts if self.unpacks else 0
        return nodes + columns + chunks.images * self.error_bytes

    @property
    def column_bytes(self) -> int:
        """Columns of one image."""
        rows, columns, _ = self.geometry.output_shape
        return rows * columns * self.geometry.groups * self.width * self.device.dtype.itemsize

    def scratch(self) -> Parts:
        """Nodes, and columns of as many chunks as are computed at once."""
        chunks, itemsize = self.chunks, self.device.dtype.itemsize
        nodes = (("nodes", chunks.count * self.size * itemsize),) if chunks.count > 1 else ()
        if not self.unpacks:
            return nodes
        return (*nodes, ("columns", self._block_bytes(range(chunks.count))))

    def _block_bytes(self, chunks: range) -> int:
        _, width, _ = self.geometry.output_shape
        spans = (self.chunks.span(*block) for block in self._blocks(chunks))
        cells = max((len(images) * len(rows) for images, rows in spans), default=0)
        return max(1, cells * width * self.geometry.groups * self.width * self.device.dtype.itemsize)

    def _blocks(self, chunks: range) -> Iterator[tuple[int, int]]:
        limit = len(chunks)
        if self.unpacks:
            chunk_bytes = self.column_bytes * self.chunks.images // self.chunks.parts
            limit = max(1, self.budget // 2 // max(1, chunk_bytes))
        return self.chunks.blocks(limit, chunks)

    def launches(self, x: Images, errors: Images, target: str) -> Iterator[Launch]:
        """The nodes of the chunks that hold these images, which are whole chunks; for a single chunk the gradient."""
        chunks = self.chunks
        role = "nodes" if chunks.count > 1 else target
        first, last = chunks_of(chunks, errors.images)
        for block in self._blocks(range(first, last)):
            if self.unpacks:
                yield self._unpack(x, *chunks.span(*block))
            yield self._sum(block, x, errors, role)

    def _unpack(self, x: Images, images: range, rows: range) -> Launch:
        g = self.geometry
        y = Reach(
            len(rows), g.height, g.y.stride, rows.start * g.y.stride - g.y.before, g.ky, g.y.dilation, 0, 1
        )
        columns = Reach(g.x.output, g.width, g.x.stride, -g.x.before, g.kx, g.x.dilation, 0, 1)
        place = Images(x.role, images, x.first).place(Strides.of(*g.input_shape))
        size = len(images), g.group_channels, g.groups, self.width
        return unpack(self.device, (x.role, "columns"), place, y, columns, *size)

    def _sum(self, block: tuple[int, int], x: Images, errors: Images, target: str) -> Launch:
        g = self.geometry
        source = self._columns(*self.chunks.span(*block)) if self.unpacks else self._straight(x)
        weights = Weights.of(g.n_kernels, g.ky * g.kx, g.group_channels, g.groups, transposed=self.transposed)
        tile = sums.tile_of(self.device.profile, self.device.dtype, source.width)
        # The kernel counts images over the whole batch.
        place = Strides.of(*g.output_shape)
        place = place._replace(start=-errors.first * place.image)
        roles = "columns" if self.unpacks else x.role, errors.role, target
        return sums.weight_gradient(
            source, place, weights, g.group_kernels, g.groups, self.chunks, block, tile, self.size, roles
        )

    def _straight(self, x: Images) -> sums.Source:
        g = self.geometry
        place = Strides.of(*g.input_shape)
        y = Reach(g.y.output, g.height, g.y.stride, -g.y.before, g.ky, g.y.dilation, 0, 1)
        columns = Reach(g.x.output, g.width, g.x.stride, -g.x.before, g.kx, g.x.dilation, 0, 1)
        place = place._replace(start=-x.first * place.image)
        return sums.Source(place, y, columns, g.group_channels, g.group_channels)

    def _columns(self, images: range, rows: range) -> sums.Source:
        g = self.geometry
        place = Strides.of(len(rows), g.x.output, g.groups * self.width)
        place = place._replace(start=-images.start * place.image - rows.start * place.row)
        y, x = (Reach(axis.output, axis.output, 1, 0, 1, 1, 0, 1) for axis in (g.y, g.x))
        return sums.Source(place, y, x, self.width, g.taps)

    def finish(self, target: str) -> Iterator[Launch]:
        """The sum of all nodes."""
        if self.chunks.count > 1:
            yield sums.tree(self.chunks, self.size, self.device.profile, self.device.dtype, ("nodes", target))


@dataclass(frozen=True)
class BiasSums:
    """The sum over images and positions of errors (images, rows, columns, outputs)."""

    device: Device
    images: int
    shape: tuple[int, int, int]
    budget: int
    error_bytes: int  # as in WeightSums

    @cached_property
    def chunks(self) -> Chunks:
        """How the sum is cut."""
        return chosen(Leaves(self.images, *self.shape[:2]), self._cost, self.budget)

    def _cost(self, chunks: Chunks) -> int:
        nodes = chunks.count * self.shape[2] * self.device.dtype.itemsize if chunks.count > 1 else 0
        return nodes + chunks.images * self.error_bytes

    def scratch(self) -> Parts:
        """Nodes."""
        count = self.chunks.count
        return (("bias_nodes", count * self.shape[2] * self.device.dtype.itemsize),) if count > 1 else ()

    def launches(self, errors: Images, target: str) -> Iterator[Launch]:
        """The nodes of the chunks that hold these images, which are whole chunks; for a single chunk the sum."""
        role = "bias_nodes" if self.chunks.count > 1 else target
        place = Strides.of(*self.shape)
        place = place._replace(start=-errors.first * place.image)
        chunks, profile, dtype = self.chunks, self.device.profile, self.device.dtype
        first, last = chunks_of(chunks, errors.images)
        for part in chunks.blocks(last - first, range(first, last)):
            roles = errors.role, role
            yield sums.bias_gradient(place, self.shape[2], chunks, part, profile, dtype, roles)

    def finish(self, target: str) -> Iterator[Launch]:
        """The sum of all nodes."""
        if self.chunks.count > 1:
            yield sums.tree(
                self.chunks, self.shape[2], self.device.profile, self.device.dtype, ("bias_nodes", target)
            )


def chunks_of(chunks: Chunks, images: range) -> tuple[int, int]:
    """The chunks that hold these images."""
    assert images.start % chunks.images == 0
    return images.start // chunks.images * chunks.parts, -(-images.stop // chunks.images) * chunks.parts
