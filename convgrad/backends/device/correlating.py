"""Forward passes and input gradients of any images of a batch, in terms of correlations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from convgrad.backends.device import correlation, products
from convgrad.backends.device.correlation import SEGMENT, Correlation, Reach, Strides
from convgrad.backends.device.driver import CPU
from convgrad.backends.device.images import Device, Images, unpack
from convgrad.backends.device.plan import Launch, Parts
from convgrad.backends.device.products import Finish, Weights
from convgrad.geometry import ConvGeometry

SMALL = (
    16  # channels: with fewer of them a chain over the taps of one row is worth a padded copy of the image
)


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
        y = Reach(g.y.padded, g.height, 1, -g.y.before, 1, 1, 0, 1)
        row = Reach(
            1, g.width, 1, -g.x.before, g.x.padded, 1, 0, 1
        )  # one column, of as many taps as it has cells
        place = Images("x", images).place(Strides.of(*g.input_shape))
        size = len(images), g.channels, 1, g.x.padded * g.channels
        return unpack(self.device, ("x", role), place, y, row, *size)

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
