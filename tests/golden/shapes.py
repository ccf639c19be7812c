"""Sizes that must be refused, and the several input sizes that lead to one output size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.cases import ConvCase


@dataclass(frozen=True)
class Shape:
    """An image of `size` = (H, W) under a `kernel` = (x, y), with the keywords that matter."""

    why: str
    size: tuple[int, int]
    kernel: tuple[int, int]
    window: dict[str, Any]

    def __str__(self) -> str:
        return self.why


# The kernel is larger than the padded image. Truncation towards zero let some pass as one output cell
# (pytorch/pytorch#9592), clamping to 1 lets all pass (CLBlast). Both axes, with and without stride.
TOO_LARGE = (
    Shape("dilated", (4, 4), (3, 3), {"dilation": (2, 2)}),
    Shape("dilated, stride 2", (4, 4), (3, 3), {"dilation": (2, 2), "sliding": (2, 2)}),
    Shape("too wide", (9, 4), (5, 2), {}),
    Shape("too wide, long stride", (9, 4), (5, 2), {"sliding": (7, 7)}),
    Shape("too high", (3, 9), (2, 5), {"padding": (3, 1, 3, 0)}),
    Shape("too high, long stride", (3, 9), (2, 5), {"padding": (3, 1, 3, 0), "sliding": (7, 7)}),
    Shape("much too large", (2, 2), (5, 5), {"sliding": (3, 3)}),
)

# No convolution or pooling has these; some libraries crash on them (pytorch/pytorch#27598, #73193, #149274).
SENSELESS = (
    Shape("sliding x 0", (5, 6), (2, 3), {"sliding": (0, 1)}),
    Shape("sliding y 0", (5, 6), (2, 3), {"sliding": (1, 0)}),
    Shape("sliding negative", (5, 6), (2, 3), {"sliding": (-1, 1)}),
    Shape("dilation x 0", (5, 6), (2, 3), {"dilation": (0, 1)}),
    Shape("dilation y 0", (5, 6), (2, 3), {"dilation": (1, 0)}),
    Shape("padding left negative", (5, 6), (2, 3), {"padding": (-1, 0, 0, 0)}),
    Shape("padding bottom negative", (5, 6), (2, 3), {"padding": (0, 0, 0, -1)}),
    Shape("padding of two numbers", (5, 6), (2, 3), {"padding": (1, 1)}),
)

# Poolings with a window that lies wholly in the padding (ROCm/MIOpen#1670 lists some as tests).
EMPTY_WINDOW = (
    Shape("row window in top padding", (4, 4), (2, 1), {"padding": (0, 1, 0, 0), "sliding": (1, 1)}),
    Shape("column window in left padding", (4, 4), (1, 2), {"padding": (1, 0, 0, 0), "sliding": (1, 1)}),
    Shape("window in right padding", (4, 5), (2, 2), {"padding": (0, 0, 2, 0), "sliding": (1, 1)}),
    Shape("dilated over the image", (4, 1), (2, 2), {"padding": (1, 0, 1, 0), "dilation": (2, 1)}),
)


@dataclass(frozen=True)
class Reachable:
    """All heights whose convolution gives `rows` rows; sizes along y, the other axis is left alone."""

    rows: int
    kernel: int
    sliding: int
    dilation: int
    top: int
    bottom: int
    heights: range


# An input gradient is given its size, since several belong to one err_output: Theano/Theano#4036.
REACHABLE = (
    Reachable(5, 7, 3, 1, 2, 2, range(15, 18)),
    Reachable(2, 3, 2, 1, 0, 0, range(5, 7)),
    Reachable(4, 1, 1, 1, 0, 0, range(4, 5)),
    Reachable(3, 2, 4, 3, 1, 0, range(11, 15)),
)


# Layers from bug reports and other libraries' regression lists, batch and channels cut; data as in sweeps.
NOTORIOUS = (
    # image smaller than the kernel, kept alive by padding (oneDNN's small_spatial)
    *(ConvCase(f"small_{k}", 1, (1, 2), 2, 3, (k, k), ((k - 1) // 2,) * 4) for k in (3, 5, 7)),
    # padding from below the kernel to far above it (oneDNN's regression_padding)
    *(ConvCase(f"padding_{p}", 1, (10, 9), 1, 2, (3, 5), (p, p + 2, p, p + 2)) for p in range(5)),
    ConvCase("mlx_833", 5, (11, 14), 2, 3, (3, 3), (4, 4, 4, 4)),
    ConvCase("miopen_1495", 3, (2, 2), 4, 3, (1, 1), sliding=(2, 2)),
    ConvCase("onednn_6035", 2, (16, 2), 4, 8, (1, 1), sliding=(2, 2)),
    ConvCase("onednn_aarch64", 1, (1, 64), 4, 3, (4, 1), padding=(17, 0, 17, 0), sliding=(3, 1)),
    ConvCase("theano_3715", 0, (6, 8), 5, 3, (6, 5)),
    ConvCase("cmu_714", 2, (16, 16), 2, 3, (7, 7), (2, 2, 2, 2), (3, 3)),
    ConvCase("depthwise_stride_2", 2, (7, 6), 6, 6, (3, 3), (1, 1, 1, 1), (2, 2), groups=6),
    ConvCase("long_row", 1, (1, 700), 1, 2, (3, 1)),
)
