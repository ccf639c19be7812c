"""Published test data of Veles' pooling units: 2x2 windows side by side over three 5x7 images of 2 channels.

The last column of windows is one cell wide, the last row one cell high (sizes round up, windows are cut).
"""

from __future__ import annotations

import numpy as np

from tests.golden.base import PoolGolden, frozen, numbers

_X = numbers(
    """
        3 4 3 1 -1 -2 1 3 2 3 3 0 4 1 -2 0 4 4 -2 1 3 -3 -3 4 1 -3 -2 -4 -3 2 -1 4 2 0 -3 3 1 -3 -4 -3 0 -3
        -1 0 -2 2 2 -4 -1 -1 0 -2 1 3 1 2 2 -2 4 0 -1 0 1 0 0 3 -3 3 -1 1
        4 0 -1 -2 3 4 -4 -2 -4 3 -2 -3 -1 -1 -1 -3 3 3 -2 -1 3 2 -1 -2 4 -1 2 4 -2 -1 1 3 -2 -2 0 -2 0 4 -1
        -2 -2 -3 3 2 -2 3 1 -3 -2 -1 4 -2 0 -3 -1 2 2 -3 -1 -1 -3 -2 2 3 0 -2 1 2 0 -3
        -4 1 -1 2 -1 0 3 -2 4 -3 4 4 1 -4 0 -1 1 3 0 1 3 4 -3 2 4 3 -1 0 -1 0 1 -2 -4 0 -4 -4 2 3 2 -3 1 1 1
        -1 -4 3 1 -1 -3 -4 -4 3 -1 -4 -1 0 -1 -3 4 1 2 -1 -2 -3 3 1 3 -3 4 -2
    """,
    *(3, 5, 7, 2),
)

MAX_ABS = PoolGolden(
    "veles_maxabs",
    x=_X,
    kind="maxabs",
    kernel=(2, 2),
    output=numbers(
        """
        4 4 3 3 3 4 4 -4 -3 4 -3 -4 -4 -3 1 -3 4 -2 -1 0 -3 3 -1 1
        4 -3 -4 4 -4 3 2 4 3 3 -2 -3 4 4 -2 -3 2 -3 -3 3 1 -2 0 -3
        -4 3 3 4 4 4 1 -4 -4 3 -4 -4 -4 -4 1 1 4 -3 2 -3 3 -3 4 -2
        """,
        *(3, 3, 4, 2),
    ),
    offset=numbers(
        """
        16 1 20 7 10 23 12 27 28 31 34 47 38 37 54 41 58 57 60 61 66 65 68 69
        70 85 76 75 78 79 96 97 112 101 102 117 120 107 110 111 126 127 130 133 136 135 138 139
        140 157 146 161 148 151 152 153 184 185 172 175 190 193 180 181 198 197 200 203 204 207 208 209
        """,
        *(3, 3, 4, 2),
    ).astype(np.int64),
)

AVERAGE = PoolGolden(
    "veles_average",
    x=_X,
    kind="average",
    kernel=(2, 2),
    output=numbers(
        """
        2 2.25 .25 -.25 .75 1 1 -1.5 -1.75 2 0 -.5 -.5 -1.25 .5 -.5 3 -1 0 0 -1.5 3 -1 1
        1.25 -.5 0 .75 -.75 -.75 .5 1.5 0 1.75 -.75 -2 .75 -.75 -1.5 -.5 .5 -2 -.5 .5 .5 0 0 -3
        -1 1.25 1.25 .75 2.25 1.5 0 -2 -.75 0 -2.5 -2.25 -.25 -.25 0 .5 1.5 -1 0 -2 3 -1 4 -2
        """,
        *(3, 3, 4, 2),
    ),
)

# The max gradient, on its own: what err_output holds goes to these cells of (3, 5, 7, 1); all of them differ.
GD_INPUT_SHAPE = (3, 5, 7, 1)
GD_OFFSET = numbers(
    """
        8 10 5 6 14 17 19 27 29 30 33 34 35 38 39 48 56 51 60 55 63 65 68 69 70 73 74 76 92 86 95 90 99 100
        102 104
    """,
    *(3, 3, 4, 1),
).astype(np.int64)
GD_ERR_OUTPUT = numbers(
    """
        1 3 .5 -4 1 -2 -3 -1 -1 3 -3 -.5 4 -4 -.3 -3 -1 -3 2 -2 -4 2 -1 -3 -4 2 3 2 -1 -1 -3 4 -2 2 .3 -4
    """,
    *(3, 3, 4, 1),
)


def _scattered() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    err_input = np.zeros(GD_INPUT_SHAPE)
    err_input.flat[GD_OFFSET.ravel()] = GD_ERR_OUTPUT.ravel()
    return err_input


GD_ERR_INPUT = frozen(_scattered())

POOLS = (MAX_ABS, AVERAGE)
