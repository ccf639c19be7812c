"""Public bug reports about convolutions, each shrunk to numbers that show the fault; all exact in float32.

The reports' arrays are NCHW, ours NHWC. Errors are ones only where the report has them so; where a report
gives no numbers, kernels of powers of ten show in the digits which tap was used.
"""

from __future__ import annotations

import numpy as np

from tests.golden.base import ConvGolden, frozen, numbers, plane

_ONES_3X3 = frozen(np.ones((1, 3, 3, 1)))

# The size of err_input was worked out from err_output, so the row and column that the stride leaves over were
# lost: torch/DEPRECEATED-torch7-distro#20; a larger kernel gradient from the same cause: pytorch/opacus#245.
LEFTOVER = ConvGolden(
    "leftover",
    x=frozen(range(36), 1, 6, 6, 1),
    weights=plane("1 2 3 | 4 5 6 | 7 8 9"),
    sliding=(2, 2),
    err_output=plane("1 1 | 1 1"),
    err_input=plane("1 2 4 2 3 0|4 5 10 5 6 0|8 10 20 10 12 0|4 5 10 5 6 0|7 8 16 8 9 0|0 0 0 0 0 0"),
    gradient_weights=plane("28 32 36 | 52 56 60 | 76 80 84"),
)
# The same at the report's size. Each cell gets the number of windows over it: 4900 in all, 70 in row 30,
# none in row 31.
_COVER = [1, 1, 2, 2, *[3, 2] * 12, 2, 1, 1, 0]
LEFTOVER_32 = ConvGolden(
    "leftover_32",
    x=frozen(np.ones((1, 32, 32, 1))),
    weights=frozen(np.ones((1, 5, 5, 1))),
    sliding=(2, 2),
    err_output=frozen(np.ones((1, 14, 14, 1))),
    err_input=frozen(np.outer(_COVER, _COVER), 1, 32, 32, 1),
    gradient_weights=frozen(np.full((1, 5, 5, 1), 196)),
    gradient_bias=frozen([196]),
)

# A 1x1 kernel with stride 2 wrote only the cells it met, the others kept old memory:
# ROCm/composable_kernel#105, ROCm/MIOpen#1495.
POINTWISE_STRIDE = ConvGolden(
    "pointwise_stride",
    x=numbers("1 5 | 2 6 | 3 7 | 4 8", 1, 2, 2, 2),
    weights=numbers("2 3 | 5 7", 2, 1, 1, 2),
    sliding=(2, 2),
    output=numbers("17 40", 1, 1, 1, 2),
    err_output=numbers("1 10", 1, 1, 1, 2),
    err_input=numbers("52 73 | 0 0 | 0 0 | 0 0", 1, 2, 2, 2),
    gradient_weights=numbers("1 5 | 10 50", 2, 1, 1, 2),
    gradient_bias=frozen([1, 10]),
)
POINTWISE_STRIDE_1 = ConvGolden(
    "pointwise_stride_1",
    x=plane("1 2 | 3 4"),
    weights=plane("3"),
    sliding=(2, 2),
    output=plane("3"),
    err_output=plane("5"),
    err_input=plane("15 0 | 0 0"),
    gradient_weights=plane("5"),
    gradient_bias=frozen([5]),
)

# Padding beyond kernel - 1: a gradient made as a convolution with padding kernel - 1 - padding was refused:
# ml-explore/mlx#833, Maratyszcza/NNPACK#103.
WIDE_PADDING = ConvGolden(
    "wide_padding",
    x=frozen(np.ones((1, 10, 10, 1))),
    weights=_ONES_3X3,
    padding=(5, 5, 5, 5),
    err_output=frozen(np.ones((1, 18, 18, 1))),
    err_input=frozen(np.full((1, 10, 10, 1), 9)),
    gradient_weights=frozen(np.full((1, 3, 3, 1), 100)),
    gradient_bias=frozen([324]),
)
# Padding 3 around a 1x1 kernel with stride 2, as in a layer of DeepBench: no plain product of matrices.
PADDED_POINTWISE = ConvGolden(
    "padded_pointwise",
    x=frozen(range(49), 1, 7, 7, 1),
    weights=plane("2"),
    padding=(3, 3, 3, 3),
    sliding=(2, 2),
    output=plane(
        """0 0 0 0 0 0 0|0 0 0 0 0 0 0|0 0 16 20 24 0 0|0 0 44 48 52 0 0|0 0 72 76 80 0 0
        |0 0 0 0 0 0 0|0 0 0 0 0 0 0"""
    ),
    err_output=frozen(np.ones((1, 7, 7, 1))),
    err_input=plane(
        "0 0 0 0 0 0 0|0 2 0 2 0 2 0|0 0 0 0 0 0 0|0 2 0 2 0 2 0|0 0 0 0 0 0 0|0 2 0 2 0 2 0|0 0 0 0 0 0 0"
    ),
    gradient_weights=plane("216"),
    gradient_bias=frozen([49]),
)

# An even kernel that keeps the size pads one side only; kernels written for symmetric padding read outside:
# ROCm/MIOpen#142.
PAD_AFTER = ConvGolden(
    "pad_after",
    x=plane("1 2 3 | 4 5 6"),
    weights=plane("1 10 | 100 1000"),
    padding=(0, 0, 1, 1),
    output=plane("5421 6532 603 | 54 65 6"),
    err_output=plane("1 1 1 | 1 1 1"),
    err_input=plane("1 11 11 | 101 1111 1111"),
    gradient_weights=plane("21 16 | 15 11"),
    gradient_bias=frozen([6]),
)
PAD_BEFORE = ConvGolden(
    "pad_before",
    x=plane("1 2 3 | 4 5 6"),
    weights=plane("1 10 | 100 1000"),
    padding=(1, 1, 0, 0),
    output=plane("1000 2100 3200 | 4010 5421 6532"),
    err_output=plane("1 1 1 | 1 1 1"),
    err_input=plane("1111 1111 1010 | 1100 1100 1000"),
    gradient_weights=plane("3 6 | 12 21"),
    gradient_bias=frozen([6]),
)

# Taps that meet padding alone are skipped: Inf and NaN there must not show.
INF_IN_PADDING = ConvGolden(
    "inf_in_padding",
    x=plane("2"),
    weights=plane("inf 3 nan"),
    padding=(1, 0, 1, 0),
    output=plane("6"),
    err_output=plane("5"),
    err_input=plane("15"),
    gradient_weights=plane("0 10 0"),
    gradient_bias=frozen([5]),
)

# Dilation 2 along x taken for dilation 2 along y: deeplearning4j/nd4j#2457.
DILATION_X = ConvGolden(
    "dilation_x",
    x=plane("1 2 3 | 4 5 6 | 7 8 9"),
    weights=plane("1 10 | 100 1000"),
    dilation=(2, 1),
    output=plane("6431 | 9764"),
    err_output=plane("1 | 1"),
    err_input=plane("1 0 10 | 101 0 1010 | 100 0 1000"),
    gradient_weights=plane("5 9 | 11 15"),
)
# A gathering col2im was wrong where stride and dilation share a factor, without and with padding
# (CLBlast 1.5.3).
SHARED_FACTOR = ConvGolden(
    "shared_factor",
    x=frozen(range(25), 1, 5, 5, 1),
    weights=plane("1 2 | 3 4"),
    sliding=(2, 2),
    dilation=(2, 2),
    output=plane("82 102 | 182 202"),
    err_output=plane("1 1 | 1 1"),
    err_input=plane("1 0 3 0 2 | 0 0 0 0 0 | 4 0 10 0 6 | 0 0 0 0 0 | 3 0 7 0 4"),
    gradient_weights=plane("24 32 | 64 72"),
)
_ODD = np.outer([0, 2, 0, 3, 0, 2, 0], [0, 2, 0, 3, 0, 2, 0])
SHARED_FACTOR_PADDED = ConvGolden(
    "shared_factor_padded",
    x=frozen(np.ones((1, 7, 7, 2))),
    weights=frozen(np.ones((1, 3, 3, 2))),
    padding=(1, 1, 1, 1),
    sliding=(2, 2),
    dilation=(2, 2),
    err_output=_ONES_3X3,
    err_input=frozen(np.stack([_ODD, _ODD], axis=2)[None]),
)

# Both at once, as a 1-D layer: pytorch/pytorch#15501 (answered "not a bug").
STRIDE_IS_DILATION = ConvGolden(
    "stride_is_dilation",
    x=numbers("7 3 | 3 2", 2, 1, 2, 1),
    weights=numbers("3 6 | 4 2", 2, 1, 2, 1),
    padding=(1, 0, 1, 0),
    sliding=(2, 1),
    dilation=(2, 1),
    output=numbers("18 6 | 12 4", 2, 1, 1, 2),
    err_output=frozen(np.ones((2, 1, 1, 2))),
    err_input=numbers("0 8 | 0 8", 2, 1, 2, 1),
    gradient_weights=numbers("0 5 | 0 5", 2, 1, 2, 1),
)

# The weight gradient of grouped layers folded batch and group in the wrong order: pytorch/pytorch#51430.
GROUPS = ConvGolden(
    "groups",
    x=numbers("1 10 100 1000", 1, 1, 1, 4),
    weights=frozen(range(1, 9), 4, 1, 1, 2),
    groups=2,
    output=numbers("21 43 6500 8700", 1, 1, 1, 4),
    err_output=numbers("1 2 3 4", 1, 1, 1, 4),
    err_input=numbers("7 10 43 50", 1, 1, 1, 4),
    gradient_weights=numbers("1 10 | 2 20 | 300 3000 | 400 4000", 4, 1, 1, 2),
    gradient_bias=frozen([1, 2, 3, 4]),
)
# Three images, x times 2, 3, 5 and the errors times 7, 11, 13: the weights' gradient is that above times
# 2*7 + 3*11 + 5*13 = 112.
_X_SCALE, _ERR_SCALE = np.array([2, 3, 5]).reshape(3, 1, 1, 1), np.array([7, 11, 13]).reshape(3, 1, 1, 1)
GROUPS_BATCH = ConvGolden(
    "groups_batch",
    x=frozen(GROUPS.x * _X_SCALE),
    weights=GROUPS.weights,
    groups=2,
    output=frozen(numbers("21 43 6500 8700") * _X_SCALE),
    err_output=frozen(GROUPS.err_output * _ERR_SCALE),
    err_input=frozen(numbers("7 10 43 50") * _ERR_SCALE),
    gradient_weights=frozen(numbers("1 10 | 2 20 | 300 3000 | 400 4000", 4, 1, 1, 2) * 112),
    gradient_bias=frozen([31, 62, 93, 124]),
)
# The second group came out as zeros: pytorch/pytorch#19912.
MANY_KERNELS_PER_GROUP = ConvGolden(
    "many_kernels_per_group",
    x=numbers("0 0 0 1", 1, 1, 1, 4),
    weights=frozen(np.ones((16, 1, 1, 2))),
    groups=2,
    output=frozen([0] * 8 + [1] * 8, 1, 1, 1, 16),
    err_output=frozen(range(1, 17), 1, 1, 1, 16),
    err_input=numbers("36 36 100 100", 1, 1, 1, 4),
    gradient_weights=frozen([[0, 0]] * 8 + [[0, k] for k in range(9, 17)], 16, 1, 1, 2),
    gradient_bias=frozen(range(1, 17)),
)

# beta was ignored, or the kernel flipped: FluxML/NNlib.jl#518, #538.
ONTO_PRIOR = ConvGolden(
    "onto_prior",
    x=plane("1 1"),
    weights=plane("-1 1"),
    output=plane("0"),
    err_output=plane("1"),
    err_input=plane("-1 1"),
    gradient_weights=plane("1 1"),
    gradient_bias=frozen([1]),
)
# With beta 1 on a prior err_input equal to x, and on a prior gradient equal to the weights.
ERR_INPUT_ONTO_X = plane("0 2")
GRADIENT_ONTO_WEIGHTS = plane("0 2")

CONVS = (
    *(LEFTOVER, LEFTOVER_32, POINTWISE_STRIDE, POINTWISE_STRIDE_1),
    *(WIDE_PADDING, PADDED_POINTWISE, PAD_AFTER, PAD_BEFORE, INF_IN_PADDING),
    *(DILATION_X, SHARED_FACTOR, SHARED_FACTOR_PADDED, STRIDE_IS_DILATION),
    *(GROUPS, GROUPS_BATCH, MANY_KERNELS_PER_GROUP, ONTO_PRIOR),
)
