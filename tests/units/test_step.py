"""The training step through the units: known steps, numbers that change, what stays when something fails."""

from __future__ import annotations

import numpy as np
import pytest
from zope.interface import implementer

from convgrad.errors import BadFormatError
from convgrad.interfaces import IBackend
from convgrad.testing import assert_close
from convgrad.units.dense import GradientDescent
from tests.golden.steps import ACCUMULATED, FALLING_RATE_BIAS, FALLING_RATE_L1_L2, MOMENTUM, STEPS
from tests.reference.update import update
from tests.units.twins import DTYPES, PLAIN, conv_twins, host, nan, ran, ready

RATES = ("learning_rate", "weights_decay", "l1_vs_l2", "gradient_moment")
NONE = {"weights_decay": 0.0}


def layer(backend, weights, gradient, transposed=False, **numbers):
    """A fully connected backward unit whose raw weight gradient is `gradient`: one sample per neuron."""
    stored = np.ascontiguousarray(weights.T) if transposed else weights.copy()
    gd = GradientDescent(include_bias=False, weights_transposed=transposed, **(NONE | numbers))
    err_output = np.eye(len(weights), dtype=weights.dtype)
    return ready(gd, backend, input=gradient, weights=stored, err_output=err_output)


def run_at(gd, rates, name="learning_rate"):
    for rate in rates:
        setattr(gd, name, rate)
        gd.run()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "transposed"])
@pytest.mark.parametrize("golden", [g for g in STEPS if g.weights.ndim == 2], ids=str)
def test_known_steps_of_weights(backend, golden, transposed, dtype):
    data = golden.cast(dtype)
    gd = layer(backend, data.weights, data.gradient, transposed, **golden.keywords)
    run_at(gd, golden.learning_rates)
    found = {
        "weights": golden.new_weights,
        "gradient_weights": golden.gradient,  # the raw one, whatever the step makes of it
        "gradient_weights_with_moment": golden.velocity if golden.keywords.get("gradient_moment") else None,
        "accumulated_gradient_weights": golden.accumulated,
    }
    for name, expected in found.items():
        if expected is not None:
            value = host(getattr(gd, name))
            assert_close(value.T if transposed else value, expected, rtol=0, atol=golden.tolerance[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_has_numbers_of_its_own(backend, dtype):
    golden, other = FALLING_RATE_BIAS.cast(dtype), FALLING_RATE_L1_L2
    bias_numbers = {f"{name}_bias": value for name, value in golden.keywords.items()}
    gd = GradientDescent(**other.keywords, **bias_numbers)
    arrays = {"weights": np.ones((2, 3), dtype), "bias": golden.weights, "err_output": golden.gradient[None]}
    ready(gd, backend, input=np.ones((1, 3), dtype), **arrays)
    run_at(gd, golden.learning_rates, "learning_rate_bias")
    atol = golden.tolerance[dtype]
    assert_close(host(gd.bias), FALLING_RATE_BIAS.new_weights, rtol=0, atol=atol)
    assert_close(host(gd.gradient_bias_with_moment), FALLING_RATE_BIAS.velocity, rtol=0, atol=atol)


def test_defaults_of_the_bias():
    numbers = {"learning_rate": 0.5, "weights_decay": 0.25, "l1_vs_l2": 0.125, "gradient_moment": 0.75}
    gd = GradientDescent(**numbers)
    assert [getattr(gd, f"{name}_bias") for name in RATES] == [0.5, 0.0, 0.125, 0.75]
    plain = GradientDescent()
    assert [getattr(plain, name) for name in RATES] == [0.01, 0.00005, 0.0, 0.0]
    assert GradientDescent(learning_rate_bias=0.0).learning_rate_bias == 0.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_momentum_switched_on_and_off_later(backend, dtype):
    rng = np.random.default_rng(4)
    weights, gradient = (rng.standard_normal((3, 4)).astype(dtype) for _ in range(2))
    gd = layer(backend, weights, gradient, learning_rate=0.5)
    expected, velocity = weights, np.zeros_like(weights)
    assert gd.gradient_weights_with_moment.mem is None
    for moment in (0.0, 0.5, 0.5, 0.0, 0.25):
        gd.gradient_moment = moment
        gd.run()
        expected, velocity, _ = _fields(
            update(expected, gradient, velocity, learning_rate=0.5, gradient_moment=moment)
        )
        if moment == 0.0 and gd.gradient_weights_with_moment.mem is None:
            velocity = np.zeros_like(weights)  # there is no memory of the time without momentum
        assert_close(host(gd.weights), expected, length=8)


def _fields(updated):
    return updated.weights, updated.velocity, updated.accumulated


def test_initialize_overrides_numbers(backend):
    gd = layer(backend, MOMENTUM.weights, MOMENTUM.gradient)
    gd.initialize(backend, learning_rate=0.1, gradient_moment=0.9, weights_decay_bias=0.5)
    assert (gd.learning_rate, gd.gradient_moment, gd.weights_decay_bias) == (0.1, 0.9, 0.5)
    for _ in range(3):
        gd.run()
    assert_close(host(gd.weights), MOMENTUM.new_weights, rtol=0, atol=1e-14)
    with pytest.raises(TypeError, match=r"'learning_rat'.*'learning_rate'"):
        gd.initialize(backend, learning_rat=0.1)


@pytest.mark.parametrize("kind", [int, np.float32, np.float64, np.asarray], ids=lambda kind: kind.__name__)
def test_numbers_of_any_kind_give_the_same_bits(backend, kind):
    results = []
    for number in (2.0, kind(2.0)):
        gd = layer(backend, MOMENTUM.weights, MOMENTUM.gradient, learning_rate=number, gradient_moment=number)
        gd.run()
        gd.run()
        results.append(host(gd.weights).tobytes())
    assert results[0] == results[1]


def test_apply_gradient_false_leaves_weights_and_bias(backend, rng):
    golden = ACCUMULATED[0]
    gd = layer(
        backend, golden.weights, golden.gradient, apply_gradient=False, learning_rate=0.1, **golden.keywords
    )
    gd.run()
    np.testing.assert_array_equal(host(gd.weights), golden.weights)
    assert_close(host(gd.gradient_weights_with_moment), golden.velocity, rtol=0, atol=1e-14)


def test_old_accumulator_is_not_read_without_beta(backend):
    gd = layer(
        backend,
        MOMENTUM.weights,
        MOMENTUM.gradient,
        accumulate_gradient=True,
        acc_alpha=1.0,
        learning_rate=0.1,
    )
    gd.accumulated_gradient_weights.map_write()
    gd.accumulated_gradient_weights.mem[...] = np.nan
    gd.run()
    assert_close(host(gd.accumulated_gradient_weights), -0.1 * MOMENTUM.gradient)


def test_err_input_belongs_to_the_old_weights(backend, rng):
    x, weights, bias = rng.standard_normal((2, 4, 5, 2)), rng.standard_normal((3, 2, 3, 2)), np.zeros(3)
    errors = rng.standard_normal((2, 3, 3, 3))
    found = []
    for rate in (0.0, 100.0):
        _, gd = conv_twins(backend, x, weights, bias, backward={"learning_rate": rate})
        ran(gd, backend, err_output=errors)
        found.append(host(gd.err_input))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("beta", [0.0, 1.0, 0.123456789])
def test_alpha_and_beta(backend, rng, beta):
    x, weights = rng.standard_normal((2, 5, 5, 3)), rng.standard_normal((2, 3, 3, 3))
    _, gd = conv_twins(backend, x, weights, padding=(1, 2, 3, 4), sliding=(2, 3), backward=PLAIN)
    errors = rng.standard_normal(gd.output.shape)
    gd.apply_gradient = False
    once = host(ran(gd, backend, err_output=errors).err_input)
    old = nan(x.shape) if beta == 0 else rng.standard_normal(x.shape)
    gd.err_input = old.copy()
    gd.err_input_alpha, gd.err_input_beta = 0.21436598, beta
    gd.run()
    expected = 0.21436598 * once + (beta * old if beta else 0)
    assert_close(host(gd.err_input), expected, length=18)


@implementer(IBackend)
class Faulty:
    """A backend that breaks down at the end of a backward call."""

    def __init__(self, inner):
        self._inner, self.conv = inner, self

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def operations(self, numerics):
        return self

    def backward(self, *arguments, **keywords):
        self._inner.conv.backward(*arguments, **keywords)
        raise MemoryError("out of device memory")


def test_a_fault_leaves_weights_and_bias(backend, rng):
    numbers = {"gradient_moment": 0.5, "accumulate_gradient": True, "acc_alpha": 1.0}
    x, weights, bias = rng.standard_normal((2, 4, 5, 2)), rng.standard_normal((3, 2, 3, 2)), np.ones(3)
    _, gd = conv_twins(backend, x, weights, bias, backward=numbers)
    ready(gd, Faulty(backend), err_output=rng.standard_normal((2, 3, 3, 3)))
    before = {name: host(getattr(gd, name)) for name in (*gd.tensors(), "weights", "bias")}
    with pytest.raises(MemoryError):
        gd.run()
    for name, content in before.items():
        np.testing.assert_array_equal(host(getattr(gd, name)), content)


@pytest.mark.parametrize("name", ["learning_rate", "learning_rate_bias", "gd_beta", "err_input_alpha"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, "fast", None])
def test_bad_numbers_are_refused_before_anything_changes(backend, rng, name, bad):
    _, gd = conv_twins(backend, np.ones((1, 3, 4, 1)), np.ones((2, 2, 2, 1)), np.ones(2))
    ready(gd, backend, err_output=np.ones((1, 2, 3, 2)))
    setattr(gd, name, bad)
    with pytest.raises(BadFormatError, match=name.removesuffix("_bias")):
        gd.run()
    np.testing.assert_array_equal(host(gd.weights), np.ones((2, 4)))
    np.testing.assert_array_equal(host(gd.bias), np.ones(2))
