"""Public bug reports about pooling as numbers: ties, NaN and infinities, padding, divisors, sizes. All exact.

NaN answers are in place: compare with `numpy.testing.assert_array_equal` or an equivalent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.golden.base import PoolGolden, plane


def _offset(text: str) -> npt.NDArray[np.int64]:
    return plane(text).astype(np.int64)


def _max(name: str, x: str, output: str, offset: str, kernel: tuple[int, int], **rest: Any) -> PoolGolden:
    kind = rest.pop("kind", "max")
    return PoolGolden(name, plane(x), kind, kernel, plane(output), _offset(offset), **rest)


# The first largest in raster order takes all of the error: tensorflow/tensorflow#4886, #40122.
TIES = (
    _max("tie_row", "1 2 2 2", "2", "1", (4, 1), err_output=plane("1"), err_input=plane("0 1 0 0")),
    _max("tie_column", "1 | 2 | 2", "2", "1", (1, 3), err_output=plane("7"), err_input=plane("0 | 7 | 0")),
    _max(
        "tie_zeros",
        "3 0 0 2 3 | 0 0 0 0 1 | 0 0 0 1 3 | 0 0 0 0 0 | 1 1 3 8 6",
        "3 2 | 0 1",
        "0 3 | 10 13",
        (2, 2),
        ceil=False,
        err_output=plane("1 1 | 1 1"),
        err_input=plane("1 0 0 1 0 | 0 0 0 0 0 | 1 0 0 1 0 | 0 0 0 0 0 | 0 0 0 0 0"),
    ),
    _max(
        "constant",
        "4 4 4 | 4 4 4 | 4 4 4",
        "4 4 | 4 4",
        "0 1 | 3 4",
        (2, 2),
        sliding=(1, 1),
        err_output=plane("1 10 | 100 1000"),
        err_input=plane("1 10 0 | 100 1000 0 | 0 0 0"),
    ),
    _max("minus_zero_first", "-0.0 0.0", "-0.0", "0", (2, 1)),
    _max("plus_zero_first", "0.0 -0.0", "0.0", "0", (2, 1)),
    _max("maxabs_negative_first", "1 -2 2", "-2", "1", (3, 1), kind="maxabs"),
    _max("maxabs_positive_first", "1 2 -2", "2", "1", (3, 1), kind="maxabs"),
)

# Windows that overlap add their errors up in the cell they share.
SHARED_WINNER = _max(
    "shared_winner",
    "1 2 3 | 4 9 5 | 6 7 8",
    "9 9 | 9 9",
    "4 4 | 4 4",
    (2, 2),
    sliding=(1, 1),
    err_output=plane("1 10 | 100 1000"),
    err_input=plane("0 0 0 | 0 1111 0 | 0 0 0"),
)


def _nan_at(place: int) -> PoolGolden:
    words = ["1", "-7", "5", "4"]
    words[place] = "nan"
    return PoolGolden(
        f"nan_at_{place}",
        plane(f"{words[0]} {words[1]} | {words[2]} {words[3]}"),
        "maxabs" if place % 2 else "max",
        (2, 2),
        plane("nan"),
        _offset(str(place)),
        err_output=plane("3"),
        err_input=plane(
            " | ".join(" ".join("3" if i == place else "0" for i in row) for row in ((0, 1), (2, 3)))
        ),
    )


# A window of nothing but NaN or -inf had no winner and wrote to place -1 (pytorch/pytorch#1465); what wins
# where NaN meets numbers differs between libraries (pytorch/pytorch#7645, tensorflow/tensorflow#2501).
NOT_FINITE = (
    _max("all_minus_inf", "-inf -inf | -inf -inf", "-inf", "0", (2, 2)),
    _max("all_nan", "nan nan | nan nan", "nan", "0", (2, 2)),
    _max("minus_inf_then_number", "-inf -3 | -inf -3", "-3", "1", (2, 2)),
    _max("nan_and_inf", "inf nan | 1 nan", "nan", "1", (2, 2)),
    _max("maxabs_inf", "5 -inf | inf 1", "-inf", "1", (2, 2), kind="maxabs"),
    *(_nan_at(place) for place in range(4)),
)

# Padding is no candidate, neither as zero nor as a very negative number (apache/mxnet#6191).
PADDED_MAX = (
    _max(
        "padding_never_wins",
        "-5 -3",
        "-5 -3",
        "0 1",
        (2, 2),
        sliding=(1, 1),
        padding=(1, 1, 0, 0),
        err_output=plane("2 7"),
        err_input=plane("2 7"),
    ),
    _max(
        "column_window_padded_in_y",
        "1 2 3 4 | 5 6 7 8 | 9 10 11 12 | 13 14 15 16",
        "1 2 3 4 | 5 6 7 8 | 9 10 11 12 | 13 14 15 16 | 13 14 15 16",
        "0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13 14 15 | 12 13 14 15",
        (1, 2),
        sliding=(1, 1),
        padding=(0, 1, 0, 1),
        err_output=plane("1 2 3 4 | 5 6 7 8 | 9 10 11 12 | 13 14 15 16 | 17 18 19 20"),
        err_input=plane("1 2 3 4 | 5 6 7 8 | 9 10 11 12 | 30 32 34 36"),
    ),
)


def _average(name: str, output: str, err_output: str, err_input: str, **rest: Any) -> PoolGolden:
    return PoolGolden(
        name,
        plane("1 2 3 4 | 5 6 7 8"),
        "average",
        (2, 2),
        plane(output),
        err_output=plane(err_output),
        err_input=plane(err_input),
        padding=(1, 0, 0, 0),
        **rest,
    )


# The divisor differed between forward and backward pass or between libraries (BVLC/caffe#6296,
# microsoft/onnxruntime#16203). The first window has a padded column, the last reaches beyond the image.
AVERAGES = (
    _average("average", "3 4.5 6", "4 8 2", "2 2 2 1 | 2 2 2 1"),
    _average("average_with_pad", "1.5 4.5 6", "4 8 2", "1 2 2 1 | 1 2 2 1", count_include_pad=True),
    _average("average_floor", "3 4.5", "4 8", "2 2 2 0 | 2 2 2 0", ceil=False),
)

# Rounding up adds no window that would start beyond the image and the padding before it.
NO_WINDOW_BEYOND = (
    _max("starts_beyond", "7 9", "7", "0", (1, 1), sliding=(3, 1)),
    _max("starts_in_image", "7 9 8 6", "7 6", "0 3", (1, 1), sliding=(3, 1)),
    _max("last_step_not_filled", "7 9 8 | 1 2 3", "9 8", "1 2", (2, 2), sliding=(2, 2)),
    _max("last_step_dropped", "7 9 8 | 1 2 3", "9", "1", (2, 2), sliding=(2, 2), ceil=False),
)

POOLS = (*TIES, SHARED_WINNER, *NOT_FINITE, *PADDED_MAX, *AVERAGES, *NO_WINDOW_BEYOND)
