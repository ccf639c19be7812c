import pytest

from convgrad.errors import BadFormatError
from convgrad.training import policies

STEPS = {"type": "arbitrary_step", "steps": [(1.0, 2), (0.5, 3)]}


@pytest.mark.parametrize(
    ("policy", "iteration", "rate"),
    [
        ({"type": "fixed"}, 1000, 0.5),
        ({"type": "exp", "gamma": 0.5}, 0, 0.5),
        ({"type": "exp", "gamma": 0.5}, 3, 0.0625),
        ({"type": "exp", "gamma": 0.25, "a_ratio": 0.5}, 3, 0.0625),
        ({"type": "step_exp", "gamma": 0.5, "step": 10}, 9, 0.5),
        ({"type": "step_exp", "gamma": 0.5, "step": 10}, 10, 0.25),
        ({"type": "step_exp", "gamma": 0.5, "step": 10}, 39, 0.0625),
        ({"type": "inv", "gamma": 0.1, "pow_ratio": 2}, 0, 0.5),
        ({"type": "inv", "gamma": 0.1, "pow_ratio": 2}, 10, 0.125),
        (STEPS, 0, 0.5),
        (STEPS, 1, 0.5),
        (STEPS, 2, 0.25),
        (STEPS, 4, 0.25),
        (STEPS, 5, 0.0),
    ],
)
def test_rate(policy, iteration, rate):
    for part in policies.pair(policy):
        assert part(0.5, iteration) == pytest.approx(rate, rel=1e-15)


def test_inv_is_the_one_of_caffe():
    weights, _ = policies.pair({"type": "inv", "gamma": 1e-4, "pow_ratio": 0.75})
    assert weights(0.01, 10000) == pytest.approx(0.01 * 2**-0.75)


def test_bias_has_a_policy_of_its_own():
    weights, bias = policies.pair(
        {"weights": {"type": "exp", "gamma": 0.5}, "bias": {"type": "exp", "gamma": 0.1}}
    )
    assert (weights(1.0, 1), bias(1.0, 1)) == (0.5, 0.1)


@pytest.mark.parametrize(("given", "other"), [("weights", 1), ("bias", 0)])
def test_the_one_left_out_is_fixed(given, other):
    pair = policies.pair({given: {"type": "exp", "gamma": 0.5}})
    assert pair[other](1.0, 5) == 1.0
    assert pair[1 - other](1.0, 1) == 0.5


def test_none_is_fixed():
    assert [policy(0.3, 99) for policy in policies.pair(None)] == [0.3, 0.3]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"type": "cosine"}, "must be one of fixed, exp, .* got 'cosine'"),
        ({"weights": {"gamma": 1}}, "got None"),
        ({"gamma": 0.5}, r"got \['gamma'\]"),
        (5, "lr_policy must be a dict of keywords, got 5"),
        ({"weights": 5}, "lr_policy must be a dict of keywords, got 5"),
        ({"type": []}, r"type must be one of .* got \[\]"),
        ({"type": "exp", "gamma": "x"}, "lr_policy: gamma must be a number, got 'x'"),
        ({"type": "inv", "gamma": -0.5, "pow_ratio": 1}, "lr_policy: gamma must be at least 0, got -0.5"),
        ({"type": "inv", "gamma": 1, "pow_ratio": None}, "lr_policy: pow_ratio must be"),
        ({"type": "step_exp", "gamma": 0.5, "step": 0}, "lr_policy: step must be at least 1, got 0"),
        ({"type": "step_exp", "gamma": 0.5, "step": 2.5}, "lr_policy: step must be an integer, got 2.5"),
        ({"type": "arbitrary_step", "steps": 5}, "lr_policy: steps must be pairs .* got 5"),
        ({"type": "arbitrary_step", "steps": [(1, 2, 3)]}, "lr_policy: steps must be pairs"),
        ({"type": "arbitrary_step", "steps": [(1, 2.5)]}, "lr_policy: steps must be an integer, got 2.5"),
        ({"type": "exp"}, "exp wants gamma, a_ratio: missing"),
        ({"type": "inv", "gamma": 1, "power": 1}, "inv wants gamma, pow_ratio"),
    ],
)
def test_what_is_not_a_policy_is_named(policy, message):
    with pytest.raises(BadFormatError, match=message):
        policies.pair(policy)
