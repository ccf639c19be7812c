"""Convolution, linear and with four activations, and its gradients."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from convgrad.geometry import ConvGeometry
from convgrad.geometry.checks import whole
from convgrad.units.base import unit
from convgrad.units.descent import GradientDescentBase
from convgrad.units.images import check_images, image_shape
from convgrad.units.weighted import WeightedForward

LARGEST_STDDEV = 0.05
WINDOW = ("n_kernels", "kx", "ky", "padding", "sliding")


@unit
class Conv(WeightedForward):
    """output (N, OH, OW, n_kernels) = input (N, H, W, C) cross-correlated with the kernels, + bias.

    `OH = floor((H + top + bottom - ky) / sliding_y) + 1`, OW likewise. An input (N, H, W) has one channel.
    Row n of the weights is kernel n as (ky, kx, C).
    """

    MAPPING = frozenset({"conv"})
    FIXED: ClassVar[tuple[str, ...]] = (*WeightedForward.FIXED, *WINDOW)

    n_kernels: int
    # Kernel width and height in cells.
    kx: int
    ky: int
    # Zeros around the image: (left, top, right, bottom).
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    # Step of the window: (x, y).
    sliding: tuple[int, int] = (1, 1)
    # Images unpacked at once, None = as many as suit the backend's workspace; sums may round differently.
    unpack_size: int | None = None

    def _geometry(self) -> ConvGeometry:
        return _geometry(self)

    def _unpack_size(self) -> int | None:
        return _unpack_size(self)

    def _default_stddev(self) -> float:
        """Small enough that inputs of the largest magnitude to be expected reach about 1."""
        magnitude = 1 / (self.input.max_supposed * math.sqrt(self.geometry.taps))
        return min(magnitude / 3 if self.weights_filling == "gaussian" else magnitude, LARGEST_STDDEV)


class ConvTanh(Conv):
    """Conv with 1.7159 * tanh(0.6666 * s)."""

    MAPPING = frozenset({"conv_tanh"})
    ACTIVATION = "tanh"
    MAX_SUPPOSED = 1.7159


class ConvSigmoid(Conv):
    """Conv with 1 / (1 + exp(-s))."""

    MAPPING = frozenset({"conv_sigmoid"})
    ACTIVATION = "sigmoid"


class ConvRELU(Conv):
    """Conv with log(1 + exp(s)), the smooth relative of max(s, 0)."""

    MAPPING = frozenset({"conv_relu"})
    ACTIVATION = "relu"
    MAX_SUPPOSED = 10.0


class ConvStrictRELU(Conv):
    """Conv with max(s, 0)."""

    MAPPING = frozenset({"conv_str"})
    ACTIVATION = "strict_relu"
    MAX_SUPPOSED = 10.0


@unit
class GradientDescentConv(GradientDescentBase):
    """Gradients and step of Conv.

    err_output (and output) may be (N, OH, OW, n_kernels) or (N, OH * OW, n_kernels); with one kernel
    (N, OH, OW) too. err_input has the shape of input.
    """

    MAPPING = frozenset({"conv"})
    OF_FORWARD = (*GradientDescentBase.OF_FORWARD, *WINDOW, "unpack_size")
    FIXED: ClassVar[tuple[str, ...]] = (*GradientDescentBase.FIXED, *WINDOW)

    # As in Conv, from which link_forward takes them; without it the first three must be given.
    n_kernels: int | None = None
    kx: int | None = None
    ky: int | None = None
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    sliding: tuple[int, int] = (1, 1)
    unpack_size: int | None = None

    def _demands(self) -> tuple[str, ...]:
        return (*super()._demands(), "n_kernels", "kx", "ky")

    def _geometry(self) -> ConvGeometry:
        return _geometry(self)

    def _unpack_size(self) -> int | None:
        return _unpack_size(self)

    def _check_samples(self, name: str) -> None:
        check_images(name, getattr(self, name), len(self.input), self.geometry.output_shape)


class GDTanhConv(GradientDescentConv):
    """Gradients and step of ConvTanh."""

    MAPPING = frozenset({"conv_tanh"})
    ACTIVATION = "tanh"


class GDSigmoidConv(GradientDescentConv):
    """Gradients and step of ConvSigmoid."""

    MAPPING = frozenset({"conv_sigmoid"})
    ACTIVATION = "sigmoid"


class GDRELUConv(GradientDescentConv):
    """Gradients and step of ConvRELU."""

    MAPPING = frozenset({"conv_relu"})
    ACTIVATION = "relu"


class GDStrictRELUConv(GradientDescentConv):
    """Gradients and step of ConvStrictRELU."""

    MAPPING = frozenset({"conv_str"})
    ACTIVATION = "strict_relu"


def _geometry(layer: Conv | GradientDescentConv) -> ConvGeometry:
    window: dict[str, Any] = {name: getattr(layer, name) for name in WINDOW}
    return ConvGeometry(*image_shape("input", layer.input), **window)


def _unpack_size(layer: Conv | GradientDescentConv) -> int | None:
    return None if layer.unpack_size is None else whole("unpack_size", layer.unpack_size, least=1)
