"""What every plan of convolution speaks of: the device, and ranges of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convgrad.backends.device import elementwise
from convgrad.backends.device.correlation import Reach, Strides
from convgrad.backends.device.driver import Profile, scalars
from convgrad.backends.device.plan import Argument, Launch

Dtype = np.dtype[Any]
UNPACKED = 64  # positions that an item unpacks


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
    each = elementwise.items(device.profile) * UNPACKED
    kernel = elementwise.kernel("unpack.cl", "unpack", device.dtype, device.profile)
    groups = -(-images * y.cells * x.cells // each)
    return elementwise.launch(kernel, device.profile, groups, *arguments, *scalars(each))
