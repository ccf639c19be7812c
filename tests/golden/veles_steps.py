"""The training steps of the published Veles cases: a first run in which weights decay and biases do not."""

from __future__ import annotations

from typing import Any

from tests.golden.base import VELES, Array, StepGolden, frozen, known, numbers
from tests.golden.veles_conv import CASE_A, CASE_B, CASE_D

_DECAY = {"weights_decay": 0.00005}
_MOMENT = {"gradient_moment": 0.9}  # adds nothing in a first run


def _step(name: str, weights: Array, gradient: Array, new_weights: Array, **keywords: Any) -> StepGolden:
    return StepGolden(
        name, weights, gradient, new_weights, learning_rates=(0.01,), keywords=keywords, tolerance=VELES
    )


_BIAS = known(CASE_A.bias)  # the same in all three

STEPS = (
    _step(
        "case_a_weights",
        CASE_A.flat_weights,
        frozen(known(CASE_A.gradient_weights), 2, 9),
        numbers(
            """-.9399995 -1.4799995 4.239998 .5999995 8.379996 -1.2599995 -.8399995 2.7599985 1.799999
            1.879999 .9399995 -1.3999995 3.0199985 -.16 .9199995 3.699998 .8799995 2.7999985""",
            *(2, 9),
        ),
        **_DECAY,
        **_MOMENT,
    ),
    _step("case_a_bias", _BIAS, known(CASE_A.gradient_bias), frozen([9.8, -10.28]), **_MOMENT),
    _step(
        "case_b_weights",
        CASE_B.flat_weights,
        frozen(known(CASE_B.gradient_weights), 2, 9),
        numbers(
            """-.9799995 -1.0199995 -.9899995 -.9799995 7.999996 -.9899995 -1.1599995 -1.1699995 -1.1399995
            1.05999945 2.03999895 3.06999845 -1.13999945 -.49999975 1.26999935 1.63999915 -1.6099993
            -.050000025""",
            *(2, 9),
        ),
        **_DECAY,
    ),
    _step("case_b_bias", _BIAS, known(CASE_B.gradient_bias), frozen([9.87, -10.2])),
    _step("case_d_bias", _BIAS, known(CASE_D.gradient_bias), frozen([9.7059702928, -10.145039094])),
)
