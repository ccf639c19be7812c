"""Gradients of weights and of biases: sums over any images of a batch, in chunks of leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from convgrad.backends.device import sums
from convgrad.backends.device.correlation import Reach, Strides
from convgrad.backends.device.driver import CPU
from convgrad.backends.device.images import Device, Images, unpack
from convgrad.backends.device.leaves import Chunks, chosen
from convgrad.backends.device.plan import Launch, Parts
from convgrad.backends.device.products import Weights
from convgrad.geometry import ConvGeometry
from convgrad.numerics.leaves import Leaves


@dataclass(frozen=True)
class WeightSums:
    """The gradient of the weights: x (images, H, W, C) by errors (images, OH, OW, n_kernels)."""

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
        """The nodes of these images, which are whole chunks; where there is one chunk, the gradient."""
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
        """The nodes of these images, which are whole chunks; where there is one chunk, the sum."""
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
