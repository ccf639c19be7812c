"""Known training steps: regularisation, momentum and accumulation (Veles' case G), and rates that change."""

from __future__ import annotations

from typing import Any

from tests.golden.base import StepGolden, frozen, numbers

_W = numbers("1 -2 .5 | 0 3 -1", 2, 3)
_DW = numbers(".1 .2 -.3 | .4 -.5 .6", 2, 3)


def _step(name: str, step: str, **keywords: Any) -> StepGolden:
    velocity = numbers(step, 2, 3)
    return StepGolden(name, _W, _DW, frozen(_W + velocity), velocity, keywords=keywords)


REGULARISED = (
    _step("plain", "-.01 -.02 .03 | -.04 .05 -.06"),
    _step("l2", "-.011 -.018 .0295 | -.04 .047 -.059", weights_decay=0.01),
    _step("l1", "-.0105 -.0195 .0295 | -.04 .0495 -.0595", weights_decay=0.01, l1_vs_l2=1.0),
    _step("quarter_l1", "-.010875 -.018375 .0295 | -.04 .047625 -.059125", weights_decay=0.01, l1_vs_l2=0.25),
    _step("ortho", "-.01 -.05 .04 | -.05 .07 -.065", factor_ortho=0.2),
    _step(
        "ortho_quarter_l1",
        "-.010875 -.048375 .0395 | -.05 .067625 -.064125",
        weights_decay=0.01,
        l1_vs_l2=0.25,
        factor_ortho=0.2,
    ),
)

MOMENTUM = StepGolden(
    "momentum",
    _W,
    _DW,
    new_weights=numbers(".9439 -2.1122 .6683 | -.2244 3.2805 -1.3366", 2, 3),
    velocity=numbers("-.0271 -.0542 .0813 | -.1084 .1355 -.1626", 2, 3),
    learning_rates=(0.1, 0.1, 0.1),
    keywords={"gradient_moment": 0.9},
)

# The rate is inside the velocity (as in Caffe), so a velocity gathered at a high rate keeps its height when
# the rate falls; rate times velocity (as in PyTorch) would end at 0.8539. See pytorch/pytorch#1099.
FALLING_RATE = StepGolden(
    "falling_rate",
    frozen([[1.0]]),
    frozen([[1.0]]),
    new_weights=frozen([[0.7]]),
    velocity=frozen([[-0.1]]),
    learning_rates=(0.1, 0.01, 0.01),
    keywords={"gradient_moment": 0.9},
)

# Decay goes through the velocity and is scaled by the rate. Worked out in fractions; weights and bias have
# hyper-parameters of their own (in Veles' seed the bias took the weights').
FALLING_RATE_L1_L2 = StepGolden(
    "falling_rate_l1_l2",
    frozen([[1.0, -2.0]]),
    frozen([[0.5, -0.25]]),
    new_weights=frozen([[0.825461115625, -1.851318728125]]),
    velocity=frozen([[-0.040045134375, 0.034112521875]]),
    learning_rates=(0.1, 0.05, 0.01),
    keywords={"gradient_moment": 0.5, "weights_decay": 0.2, "l1_vs_l2": 0.25},
)
FALLING_RATE_BIAS = StepGolden(
    "falling_rate_bias",
    frozen([1.0, -2.0]),
    frozen([0.5, -0.25]),
    new_weights=frozen([0.766606925, -1.847787125]),
    velocity=frozen([-0.032718075, 0.021337875]),
    learning_rates=(0.2, 0.1, 0.02),
    keywords={"gradient_moment": 0.25, "weights_decay": 0.1, "l1_vs_l2": 0.5},
)

_ACCUMULATE = {
    "accumulate_gradient": True,
    "acc_alpha": 0.5,
    "acc_beta": 0.9,
    "gd_alpha": 0.25,
    "gd_beta": 1.0,
    "gradient_moment": 0.9,
}
# One weight after one, two and three runs: accumulated, velocity, weight.
ACCUMULATED = tuple(
    StepGolden(
        f"accumulate_{run}",
        frozen([[1.0]]),
        frozen([[0.1]]),
        new_weights=frozen([[weight]]),
        velocity=frozen([[velocity]]),
        accumulated=frozen([[accumulated]]),
        learning_rates=(0.1,) * run,
        keywords=_ACCUMULATE,
    )
    for run, accumulated, velocity, weight in (
        (1, -0.005, -0.01125, 0.98875),
        (2, -0.0095, -0.0225, 0.96625),
        (3, -0.01355, -0.0336375, 0.9326125),
    )
)

STEPS = (*REGULARISED, MOMENTUM, FALLING_RATE, FALLING_RATE_L1_L2, FALLING_RATE_BIAS, *ACCUMULATED)
