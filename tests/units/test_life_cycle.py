"""Initialize and run: what is kept, what is left out, what runs again."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.units.conv import Conv
from convgrad.units.dense import All2All, GradientDescent
from convgrad.units.pooling import GDMaxPooling, MaxPooling
from tests.units.twins import conv_twins, host, ran, ready

KEYWORDS = {"n_kernels": 2, "kx": 3, "ky": 2}


def test_run_wants_initialize():
    with pytest.raises(RuntimeError, match="Conv: initialize must be called before run"):
        Conv(**KEYWORDS).run()


def test_a_failed_initialize_leaves_a_unit_that_does_not_run(backend):
    conv = ran(Conv(**KEYWORDS), backend, input=np.ones((1, 3, 4, 1)))
    conv.padding = (0, 0, -1, 0)
    with pytest.raises(BadFormatError, match="Conv: padding right must be at least 0"):
        conv.initialize(backend)
    with pytest.raises(RuntimeError, match="initialize"):
        conv.run()


def test_weights_are_kept_over_initialize(backend, rng):
    weights = rng.standard_normal((2, 6))
    conv = ran(Conv(**KEYWORDS), backend, input=rng.standard_normal((1, 3, 4, 1)), weights=weights)
    assert conv.weights.host is weights
    bias = host(conv.bias)
    conv.input = rng.standard_normal((5, 6, 7, 1))
    conv.initialize(backend)
    assert conv.weights.host is weights
    np.testing.assert_array_equal(host(conv.bias), bias)


@pytest.mark.parametrize("need_err_input", [True, False])
@pytest.mark.parametrize("need_gradient_weights", [True, False])
@pytest.mark.parametrize("include_bias", [True, False])
def test_only_what_is_needed(backend, rng, need_err_input, need_gradient_weights, include_bias):
    x, weights = rng.standard_normal((2, 4, 5, 1)), rng.standard_normal((2, 2, 3, 1))
    bias, errors = np.ones(2) if include_bias else None, rng.standard_normal((2, 3, 3, 2))
    _, whole = conv_twins(backend, x, weights, bias, activation="tanh")
    ran(whole, backend, err_output=errors)
    needs = {"need_err_input": need_err_input, "need_gradient_weights": need_gradient_weights}
    conv, gd = conv_twins(backend, x, weights, bias, activation="tanh", backward=needs)
    ran(gd, backend, err_output=errors)
    there = {
        "err_input": need_err_input,
        "gradient_weights": need_gradient_weights,
        "gradient_bias": need_gradient_weights and include_bias,
    }
    for name, needed in there.items():
        assert (getattr(gd, name).mem is not None) == needed
        if needed:
            np.testing.assert_array_equal(host(getattr(gd, name)), host(getattr(whole, name)))
    if not need_gradient_weights:
        np.testing.assert_array_equal(host(conv.weights), weights.reshape(2, 6))


@pytest.mark.parametrize("moment", [0.0, 0.9])
def test_running_twice(backend, rng, moment):
    """The second run differs by the step of the first alone; no operand is changed."""
    x, weights, bias = rng.standard_normal((2, 4, 5, 1)), rng.standard_normal((2, 2, 3, 1)), np.ones(2)
    errors = rng.standard_normal((2, 3, 3, 2))
    numbers = {"gradient_moment": moment, "apply_gradient": False}
    conv, gd = conv_twins(backend, x, weights, bias, activation="tanh", backward=numbers)
    ready(gd, backend, err_output=errors.copy())
    results = []
    for _ in range(2):
        gd.run()
        results.append([host(a).tobytes() for a in (gd.err_input, gd.gradient_weights, gd.gradient_bias)])
    assert results[0] == results[1]
    np.testing.assert_array_equal(host(gd.err_output), errors)
    np.testing.assert_array_equal(host(conv.input), x)


@pytest.mark.parametrize("activation", ["linear", "tanh", "strict_relu"])
def test_an_empty_batch(backend, activation):
    x, weights, bias = np.ones((0, 4, 5, 1)), np.ones((2, 2, 3, 1)), np.ones(2)
    conv, gd = conv_twins(backend, x, weights, bias, activation=activation)
    ran(gd, backend, err_output=np.ones((0, 3, 3, 2)))
    assert conv.output.shape == (0, 3, 3, 2)
    assert gd.err_input.shape == x.shape
    np.testing.assert_array_equal(host(gd.gradient_weights), 0)
    np.testing.assert_array_equal(host(gd.gradient_bias), 0)


@pytest.mark.parametrize("unpack_size", [1, 2, 5, 100])
def test_unpack_size_does_not_matter(backend, rng, unpack_size):
    x = rng.integers(-3, 4, (5, 4, 5, 2)).astype(np.float32)
    weights = rng.integers(-3, 4, (2, 2, 3, 2)).astype(np.float32)
    errors = rng.integers(-3, 4, (5, 3, 3, 2)).astype(np.float32)
    found = []
    for size in (None, unpack_size):
        conv, gd = conv_twins(backend, x, weights, unpack_size=size)
        ran(gd, backend, err_output=errors)
        found.append([host(a).tobytes() for a in (conv.output, gd.err_input, gd.gradient_weights)])
    assert found[0] == found[1]
    with pytest.raises(BadFormatError, match="unpack_size must be at least 1"):
        conv_twins(backend, x, weights, unpack_size=0)


CHANGES = [
    (Conv(**KEYWORDS), "n_kernels", 3),
    (Conv(**KEYWORDS), "kx", 2),
    (Conv(**KEYWORDS), "ky", 3),
    (Conv(**KEYWORDS), "padding", (1, 0, 0, 0)),
    (Conv(**KEYWORDS), "sliding", (2, 1)),
    (Conv(**KEYWORDS), "weights_transposed", True),
    (Conv(**KEYWORDS), "include_bias", False),
    (All2All(output_sample_shape=(3, 4)), "output_sample_shape", (4, 3)),
    (All2All(output_sample_shape=3), "include_bias", False),
    (MaxPooling(kx=2, ky=3), "kx", 3),
    (MaxPooling(kx=2, ky=3), "ky", None),
    (MaxPooling(kx=2, ky=3), "sliding", (1, 2)),
]


@pytest.mark.parametrize(("unit", "name", "value"), CHANGES)
def test_what_a_run_cannot_follow_is_refused(backend, unit, name, value):
    before = getattr(unit, name)
    ran(unit, backend, input=np.ones((1, 4, 5, 1)))
    try:
        setattr(unit, name, value)
        with pytest.raises(
            BadFormatError, match=f"{name} was .* at initialize and is .*: call initialize again"
        ):
            unit.run()
    finally:
        setattr(unit, name, before)
    unit.run()


def test_what_a_backward_run_cannot_follow_is_refused(backend):
    square = {name: np.ones((3, 3)) for name in ("input", "weights", "err_output")}
    gd = ran(GradientDescent(include_bias=False), backend, **square)
    gd.weights_transposed = True
    with pytest.raises(BadFormatError, match="weights_transposed was False at initialize and is True"):
        gd.run()
    forward = ran(MaxPooling(kx=2, ky=3), backend, input=np.ones((1, 4, 5, 1)))
    gd = ran(GDMaxPooling().link_forward(forward), backend, err_output=np.ones(forward.output.shape))
    forward.sliding = (2, 3)  # what None means too, but nobody has to work that out
    with pytest.raises(BadFormatError, match=r"sliding was None at initialize and is \(2, 3\)"):
        gd.run()


def test_a_window_changed_in_place_is_seen(backend):
    conv = Conv(**KEYWORDS, padding=[0, 0, 0, 0], sliding=np.array([1, 1]))
    ran(conv, backend, input=np.ones((1, 4, 5, 1)))
    conv.run()
    conv.padding = (0, 0, 0, 0)  # the same in another form
    conv.run()
    conv.sliding[0] = 2
    with pytest.raises(BadFormatError, match=r"sliding was .* at initialize"):
        conv.run()
