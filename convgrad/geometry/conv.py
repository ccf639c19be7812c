"""Shapes of a convolution and of its adjoint, the transposed convolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from convgrad.errors import BadFormatError
from convgrad.geometry.axis import Axis
from convgrad.geometry.checks import (
    Shaped,
    addressable,
    four_paddings,
    pair,
    rank,
    shape_of,
    whole,
    whole_numbers,
)


@dataclass(frozen=True)
class ConvGeometry:
    """Every size of a convolution but the batch: x (N, H, W, C) -> y (N, OH, OW, n_kernels).

    `OH = floor((H + top + bottom - (ky - 1) * dilation_y - 1) / sliding_y) + 1`, OW likewise. Rows and
    columns that do not fill a step are dropped. padding = (left, top, right, bottom); sliding and
    dilation = (x, y). Groups are consecutive ranges of channels and of kernels.

    Raises BadFormatError for every combination that is not a convolution.
    """

    height: int
    width: int
    channels: int
    n_kernels: int
    kx: int
    ky: int
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    sliding: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels", "n_kernels", "kx", "ky", "groups"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1))
        object.__setattr__(self, "padding", four_paddings(self.padding))
        object.__setattr__(self, "sliding", pair("sliding", self.sliding))
        object.__setattr__(self, "dilation", pair("dilation", self.dilation))
        for name in ("channels", "n_kernels"):
            if getattr(self, name) % self.groups:
                raise BadFormatError(
                    f"groups must divide {name}: {getattr(self, name)} % {self.groups} is not 0"
                )
        # A kernel that does not fit is refused here, not at first use.
        addressable("the padded input", (self.y.padded, self.x.padded, self.channels))
        addressable("the weights", self.weights_shape)
        addressable("the output", self.output_shape)

    @cached_property
    def x(self) -> Axis:
        """The horizontal direction."""
        left, _, right, _ = self.padding
        return Axis("x", self.width, self.kx, self.sliding[0], self.dilation[0], left, right)

    @cached_property
    def y(self) -> Axis:
        """The vertical direction."""
        _, top, _, bottom = self.padding
        return Axis("y", self.height, self.ky, self.sliding[1], self.dilation[1], top, bottom)

    @property
    def group_channels(self) -> int:
        """Channels that one kernel sees."""
        return self.channels // self.groups

    @property
    def group_kernels(self) -> int:
        """Kernels of one group."""
        return self.n_kernels // self.groups

    @property
    def taps(self) -> int:
        """Weights of one kernel: ky * kx * C / groups."""
        return self.ky * self.kx * self.group_channels

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of one image."""
        return self.height, self.width, self.channels

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """(OH, OW, n_kernels) of one image."""
        return self.y.output, self.x.output, self.n_kernels

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """(n_kernels, ky, kx, C / groups)."""
        return self.n_kernels, self.ky, self.kx, self.group_channels

    @property
    def pointwise(self) -> bool:
        """Whether an output cell sees just the input cell at its own place (1x1, no step, no padding)."""
        return (self.kx, self.ky, self.sliding, self.padding) == (1, 1, (1, 1), (0, 0, 0, 0))

    @classmethod
    def of(cls, x: Shaped, weights: Shaped, **window: Any) -> ConvGeometry:
        """The geometry of a call with `x` (N, H, W, C) and `weights` (n_kernels, ky, kx, C / groups)."""
        rank("x", x, "(N, H, W, C)")
        return cls.of_sizes(x.shape[1:], weights, **window)

    @classmethod
    def of_sizes(cls, sample: tuple[int, ...], weights: Shaped, **window: Any) -> ConvGeometry:
        """The geometry of `weights` over images of shape `sample` (H, W, C)."""
        rank("weights", weights, "(n_kernels, ky, kx, C / groups)")
        n_kernels, ky, kx, _ = weights.shape
        height, width, channels = sample
        geometry = cls(height, width, channels, n_kernels, kx, ky, **window)
        geometry.check_weights(weights)
        return geometry

    def check_input(self, name: str, array: Shaped, batch: int | None = None) -> None:
        """Refuse an array that is not (N, H, W, C)."""
        shape_of(name, array, (batch, *self.input_shape), "(N, H, W, C)")

    def check_output(self, name: str, array: Shaped, batch: int | None = None) -> None:
        """Refuse an array that is not (N, OH, OW, n_kernels)."""
        shape_of(name, array, (batch, *self.output_shape), "(N, OH, OW, n_kernels)")

    def check_weights(self, weights: Shaped) -> None:
        """Refuse weights that are not (n_kernels, ky, kx, C / groups)."""
        shape_of("weights", weights, self.weights_shape, "(n_kernels, ky, kx, C / groups)")

    def check_bias(self, bias: Shaped | None) -> None:
        """Refuse a bias that is neither None nor (n_kernels,)."""
        if bias is not None:
            shape_of("bias", bias, (self.n_kernels,), "(n_kernels,)")


@dataclass(frozen=True)
class DeconvGeometry:
    """Every size of a transposed convolution but the batch: x (N, h, w, n_kernels) -> y (N, H, W, C).

    It is the adjoint of `conv`, which leads from its output back to its input. Several output sizes
    belong to one input size when the convolution steps over cells, so the output size is part of it.
    """

    conv: ConvGeometry

    @classmethod
    def of(
        cls,
        x: Shaped,
        weights: Shaped,
        *,
        output_size: tuple[int, int] | None = None,
        size_name: str = "output_size",
        groups: int = 1,
        **window: Any,
    ) -> DeconvGeometry:
        """The geometry of `x` (N, h, w, n_kernels) and `weights` (n_kernels, ky, kx, C / groups).

        `output_size` (H, W) None = the smallest, `sliding * (n - 1) + dilation * (k - 1) + 1 - pads`;
        `size_name` is what messages call it.
        """
        rank("x", x, "(N, h, w, n_kernels)")
        rank("weights", weights, "(n_kernels, ky, kx, C / groups)")
        n_kernels, ky, kx, group_channels = weights.shape
        channels = group_channels * whole("groups", groups, least=1)
        if output_size is None:
            output_size = smallest_output_size((x.shape[1], x.shape[2]), (kx, ky), **window)
        height, width = _output_size(output_size)
        conv = ConvGeometry(height, width, channels, n_kernels, kx, ky, groups=groups, **window)
        geometry = cls(conv)
        geometry._check_reachable(x, size_name)
        geometry.check_input("x", x)
        return geometry

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(h, w, n_kernels) of one image."""
        return self.conv.output_shape

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of one image."""
        return self.conv.input_shape

    def check_input(self, name: str, array: Shaped, batch: int | None = None) -> None:
        """Refuse an array that is not (N, h, w, n_kernels)."""
        shape_of(name, array, (batch, *self.input_shape), "(N, h, w, n_kernels)")

    def _check_reachable(self, x: Shaped, size_name: str) -> None:
        size, reached = tuple(x.shape[1:3]), self.input_shape[:2]
        if size != reached:
            raise BadFormatError(
                f"{size_name} {self.output_shape[:2]} must lead back to the size of x, {size}; "
                f"it leads to {reached}"
            )

    def check_output(self, name: str, array: Shaped, batch: int | None = None) -> None:
        """Refuse an array that is not (N, H, W, C)."""
        shape_of(name, array, (batch, *self.output_shape), "(N, H, W, C)")

    def check_bias(self, bias: Shaped | None) -> None:
        """Refuse a bias that is neither None nor (C,)."""
        if bias is not None:
            shape_of("bias", bias, (self.conv.channels,), "(C,)")


def _output_size(values: Any) -> tuple[int, int]:
    height, width = whole_numbers("output_size", values, ("H", "W"), least=1)
    return height, width


def smallest_output_size(
    size: tuple[int, int],
    kernel: tuple[int, int],
    *,
    padding: Any = (0, 0, 0, 0),
    sliding: Any = (1, 1),
    dilation: Any = (1, 1),
) -> tuple[int, int]:
    """(H, W) of the smallest image that a convolution leads to `size` (h, w); kernel = (kx, ky)."""
    left, top, right, bottom = four_paddings(padding)
    (sx, sy), (dx, dy) = pair("sliding", sliding), pair("dilation", dilation)
    (h, w), (kx, ky) = size, kernel
    height = sy * (h - 1) + dy * (ky - 1) + 1 - top - bottom
    width = sx * (w - 1) + dx * (kx - 1) + 1 - left - right
    if height < 1 or width < 1:
        raise BadFormatError(
            f"padding {padding!r} leaves no output: its smallest size would be {(height, width)}"
        )
    return height, width
