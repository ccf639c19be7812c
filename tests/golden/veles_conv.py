"""Published test data of Veles' convolution units (cases A to D) and cases derived from its formulas (E, F).

In E the gradients were checked by finite differences, F is integer arithmetic throughout. Order of all flat
numbers: image, row, column, channel (or kernel).
"""

from __future__ import annotations

import numpy as np

from tests.golden.base import OUTPUT, PRINTED, VELES, ConvGolden, frozen, numbers

_A_IMAGE = numbers("-1 0 2 0 3 | 0 1 -2 1 2 | 2 0 1 1 0 | -1 1 1 0 2 | 1 0 1 0 1", 1, 5, 5, 1)
_A_WEIGHTS = numbers("-1 -1 4 1 8 -1 -1 3 2 | 2 1 -1 3 0 1 4 1 3", 2, 3, 3, 1)
_A_BIAS = frozen([10, -10])
_A_ERR = numbers("-1 3 | 8 2 | 0 1 || 4 -1 | -1 2 | 0 1 || -2 3 | 1 2 | 1 1", 1, 3, 3, 2)
_A_ERR_INPUT = numbers(
    "7 0 -11 31 -1 | 2 6 93 -11 0 | 22 45 18 28 7 | -1 11 25 14 3 | 14 4 13 12 5", 1, 5, 5, 1
)

# Case A: linear, stride 1, no padding, a batch of two equal images.
CASE_A = ConvGolden(
    "case_a",
    x=frozen(_A_IMAGE.repeat(2, axis=0)),
    weights=_A_WEIGHTS,
    bias=_A_BIAS,
    err_output=frozen(_A_ERR.repeat(2, axis=0)),
    err_input=frozen(_A_ERR_INPUT.repeat(2, axis=0)),
    gradient_weights=numbers("-6 48 -24 40 -38 26 -16 24 20 | 12 6 40 -2 16 8 30 12 20", 2, 3, 3, 1),
    gradient_bias=frozen([20, 28]),
    tolerance=VELES,
)

_B_IMAGE = numbers("1 2 3 2 1 | 0 1 2 1 0 | 0 1 0 1 0 | 2 0 1 0 2 | 1 0 1 0 1", 1, 5, 5, 1)
_B_WEIGHTS = numbers("-1 -1 -1 -1 8 -1 -1 -1 -1 | 1.1 2.1 3.1 -1.1 -.5 1.3 1.7 -1.4 .05", 2, 3, 3, 1)

# Case B: four different paddings, two different strides, weights that are no binary fractions.
CASE_B = ConvGolden(
    "case_b",
    x=_B_IMAGE,
    weights=_B_WEIGHTS,
    bias=_A_BIAS,
    padding=(1, 2, 3, 4),
    sliding=(2, 3),
    output=numbers(
        """7 -11.3 | 3 -10.7 | 7 -8 | 10 -10 || 6 -8.4 | 3 -2.8 | 6 -12.8 | 10 -10
        || 9 -7.9 | 9 -7.9 | 9 -7.9 | 10 -10""",
        *(1, 3, 4, 2),
    ),
    err_output=numbers("-1 3 8 2 0 1 4 -1 | -1 2 0 1 -2 3 1 2 | 1 1 1 -2 0 5 2 3", 1, 3, 4, 2),
    err_input=numbers(
        """-3.2 -3.45 -10.8 -6.2 -1.4 | 5.2 8.3 2.1 8.4 8.3 | -9 2.5 -.5 0 -17.5
        | -1.8 2.8 -1.4 7.15 -2.2 | 1.1 -1.1 -5.2 -1.7 10.5""",
        *(1, 5, 5, 1),
    ),
    gradient_weights=numbers("-2 2 -1 -2 0 -1 16 17 14 | 4 6 3 4 0 3 6 21 10", 2, 3, 3, 1),
    gradient_bias=frozen([13, 20]),
    tolerance=VELES,
    forward_tolerance=OUTPUT,
)
# The unpacked image: one row per output position, one column per tap (ky, kx).
CASE_B_COLUMNS = numbers(
    """0 0 0 0 0 0 0 1 2 | 0 0 0 0 0 0 2 3 2 | 0 0 0 0 0 0 2 1 0 | 0 0 0 0 0 0 0 0 0
    | 0 0 1 0 0 1 0 2 0 | 1 2 1 1 0 1 0 1 0 | 1 0 0 1 0 0 0 2 0 | 0 0 0 0 0 0 0 0 0
    | 0 1 0 0 0 0 0 0 0 | 0 1 0 0 0 0 0 0 0 | 0 1 0 0 0 0 0 0 0 | 0 0 0 0 0 0 0 0 0""",
    *(12, 9),
)

# Case C: forward only, image and weights of B without padding and with stride 1; and softplus of it.
CASE_C = ConvGolden(
    "case_c",
    x=_B_IMAGE,
    weights=_B_WEIGHTS,
    bias=_A_BIAS,
    output=numbers(
        "9 5.3 15 5.65 9 -3.5 | 12 1.25 3 -2.8 12 -4.4 | 4 -7.05 15 -7.7 4 -4.65",
        *(1, 3, 3, 2),
    ),
    err_output=_A_ERR,
    tolerance=VELES,
    forward_tolerance=OUTPUT,
)
CASE_C_RELU = ConvGolden(
    "case_c_relu",
    x=_B_IMAGE,
    weights=_B_WEIGHTS,
    bias=_A_BIAS,
    activation="relu",
    output=numbers(
        """9.0001234022 5.3049791772 15.0000003059 5.6535113448 9.0001234022 .0297504183
        12.0000061442 1.5019290813 3.0485873516 .0590328263 12.0000061442 .0122025846
        4.0181499279 .000867033 15.0000003059 .0004527247 4.0181499279 .0095161791""",
        *(1, 3, 3, 2),
    ),
    err_output=_A_ERR,
    tolerance=PRINTED,
)

# Case D: softplus backward with the error's own numbers given as output, which no forward pass would give.
# The original hands input and err_output over with three axes, (1, 5, 5) and (1, 9, 2).
CASE_D = ConvGolden(
    "case_d",
    x=_A_IMAGE,
    weights=_A_WEIGHTS,
    bias=_A_BIAS,
    activation="relu",
    err_output=_A_ERR,
    output_given=_A_ERR,
    gradient_weights=numbers(
        """26.1883449546 17.7490475031 10.7116033532 4.3369201077 .8521638157 24.2481252305 14.6383407976
        14.2744561307 27.0525683286 5.2120887873 4.7118523796 11.734614389 4.0445837291 6.9655187074
        4.8547841359 10.4593256662 7.5383906879 11.0452505283""",
        *(2, 3, 3, 1),
    ),
    gradient_bias=frozen([29.4029707159, 14.5039093953]),
    tolerance=VELES,
)


def _case_e(
    activation: str, output: str, err_input: str, gradient_weights: str, gradient_bias: str
) -> ConvGolden:
    return ConvGolden(
        f"case_e_{activation}",
        x=numbers(".5 -1 .25 | 1 .75 -.5 | 0 .3 -.2", 1, 3, 3, 1),
        weights=numbers(".5 -.25 1 .75 | -1 .5 .25 -.5", 2, 2, 2, 1),
        bias=frozen([0.1, -0.2]),
        activation=activation,
        output=numbers(output, 1, 2, 2, 2),
        err_output=numbers("1 -1 .5 2 | -2 .25 0 1", 1, 2, 2, 2),
        err_input=numbers(err_input, 1, 3, 3, 1),
        gradient_weights=numbers(gradient_weights, 2, 2, 2, 1),
        gradient_bias=frozen([float(word) for word in gradient_bias.split()]),
        tolerance=PRINTED,
        forward_tolerance=OUTPUT,
    )


# Case E: every activation on one image, 2x2 kernels.
CASE_E = (
    _case_e(
        "linear",
        "2.1625 -1.325 -.0875 1.3625 .6375 -.975 .75 -1.025",
        "1.5 -2.5 .875 -.5 1.875 -.125 -1.9375 -1.375 -.5",
        "-2 -2.375 1.375 -.1 -1.5 1.1875 .8 -1.875",
        "-.5 2.25",
    ),
    _case_e(
        "tanh",
        "1.534021114 -1.214927981 -.099970813 1.235941562 .688245127 -.980853408 .792879355 -1.018623253",
        """.685211822 -1.158400491 .40789729 -1.065287705 1.138012559 .247451976 -1.871473167 -1.350777836
        -.370365174""",
        "-2.374755689 -1.5268397 .657106039 -.688642402 -.637912184 .619614235 .477406237 -1.06857791",
        "-1.120004372 1.463629309",
    ),
    _case_e(
        "sigmoid",
        ".896831091 .209987627 .478138946 .796165713 .654188114 .273885019 .679178699 .264054606",
        ".212155366 -.368268901 .131095609 -.22489215 .301886452 .0284498 -.44002255 -.315615597 -.097164886",
        "-.530950556 -.400673862 .186095871 -.128722325 -.212052821 .187159376 .135834914 -.310656041",
        "-.235165919 .402726693",
    ),
    _case_e(
        "relu",
        "2.271387739 .235706671 .650353907 1.590447933 1.061860333 .3200469 1.136871006 .306599356",
        """.658403172 -1.801998275 .736398345 .121674816 1.512044539 -.484836305 -1.291258414 -.949504146
        -.132027303""",
        "-1.099030155 -1.818345893 1.076133196 .160575713 -1.43081303 .527396621 1.063477324 -.985925978",
        "-.172475664 1.71486966",
    ),
    _case_e(
        "strict_relu",
        "2.1625 0 0 1.3625 .6375 0 .75 0",
        ".5 -2.25 1 0 1.75 -1 -2 -1.5 0",
        "-1.5 -2.5 1 .15 -2 .5 1.5 -1",
        "-1 2",
    ),
)

# Case F: the strides do not divide, sliding_y > ky (row 2 meets no tap), 2 images, 2 channels; exact.
CASE_F = ConvGolden(
    "case_f",
    x=frozen([i % 7 - 3 for i in range(80)], 2, 4, 5, 2),
    weights=frozen([5 * i % 11 - 5 for i in range(36)], 3, 2, 3, 2),
    bias=frozen([1, 0, -1]),
    padding=(1, 0, 0, 1),
    sliding=(2, 3),
    output=numbers("-33,-12,-2,25,7,11,-4,5,-8,8,-4,17,-5,17,6,7,7,-48,-16,-3,-12,27,-8,12", 2, 2, 2, 3),
    err_output=frozen([3 * i % 5 - 2 for i in range(24)], 2, 2, 2, 3),
    err_input=frozen(
        # the two channels one after the other, then side by side
        numbers(
            """-15 -33 2 2 0 | -9 -5 2 2 0 | 0 0 0 0 0 | 14 17 6 7 0 || 8 12 2 2 0 | 14 7 2 -20 0 | 0 0 0 0 0
            | -9 -22 -10 -9 0 || -7 -3 -15 -13 0 | -10 -22 -9 -7 0 | 0 0 0 0 0 | 2 7 14 12 0 || 9 14 8 10 0
            | 6 17 14 5 0 | 0 0 0 0 0 | 2 -5 -9 -11 0""",
            *(2, 2, 4, 5),
        ).transpose(0, 2, 3, 1)
    ),
    gradient_weights=numbers(
        """3,4,2,3,11,-9,4,4,-8,-11,0,-3 | -4,-6,-6,8,-6,1,0,1,-2,2,-1,3 | 4,4,11,3,2,1,-4,-7,4,0,3,-1""",
        *(3, 2, 3, 2),
    ),
    gradient_bias=frozen([1, 0, -1]),
)

# All ones: a kernel of 8 in steps of 4 over 8x8 cells padded by 4 covers a quarter, a half or all of them.
QUARTERS = ConvGolden(
    "quarters",
    x=frozen(np.ones((1, 8, 8, 3))),
    weights=frozen(np.ones((1, 8, 8, 3))),
    bias=frozen([1]),
    padding=(4, 4, 4, 4),
    sliding=(4, 4),
    output=numbers("49 97 49 | 97 193 97 | 49 97 49", 1, 3, 3, 1),
    err_output=frozen(range(9), 1, 3, 3, 1),
)

CONVS = (CASE_A, CASE_B, CASE_C, CASE_C_RELU, CASE_D, *CASE_E, CASE_F, QUARTERS)
