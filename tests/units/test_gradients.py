"""Gradients of every unit against central differences of its forward twin, in float64, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.testing import assert_close, check_vjp, distinct_values
from convgrad.units.dense import All2AllSoftmax, GDSoftmax
from convgrad.units.evaluator import EvaluatorMSE, EvaluatorSoftmax
from tests.units.twins import ACTIVATIONS, PLAIN, POOLS, conv_twins, dense_twins, host, ran

WINDOW = {"padding": (1, 2, 3, 4), "sliding": (2, 3)}


def away_from_zero(values):
    """No sum near the kink of strict relu: half the bias moves all of them up or down."""
    return values + np.where(np.arange(values.shape[-1]) % 2, 30.0, -30.0)


def check_twins(backend, make, arrays, rng):
    """Compare err_input, the raw gradients, and the step that shows them, with differences of the output."""
    forward, gd = make(*arrays)
    err_output = rng.standard_normal(forward.output.shape)
    ran(gd, backend, err_output=err_output)
    gradients = [host(gd.err_input), host(gd.gradient_weights), host(gd.gradient_bias)]
    stored = gradients[1].T if gd.weights_transposed else gradients[1]
    shaped = [gradients[0], stored.reshape(arrays[1].shape), gradients[2]]
    check_vjp(lambda *values: host(make(*values)[0].output), arrays, err_output, shaped, full=True)
    weights = arrays[1].reshape(len(arrays[1]), -1)
    steps = (host(gd.weights) - (weights.T if gd.weights_transposed else weights), host(gd.bias) - arrays[2])
    for step, gradient in zip(steps, gradients[1:], strict=True):
        assert_close(step, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "transposed"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_conv(backend, rng, activation, transposed):
    x, weights = rng.uniform(-1, 1, (2, 5, 4, 3)), rng.uniform(-0.5, 0.5, (2, 3, 2, 3))
    bias = away_from_zero(np.zeros(2)) if activation == "strict_relu" else rng.uniform(-1, 1, 2)

    def make(x, weights, bias):
        keywords = {"activation": activation, "backward": PLAIN, "weights_transposed": transposed}
        return conv_twins(backend, x, weights, bias, **keywords, **WINDOW)

    check_twins(backend, make, (x, weights, bias), rng)


@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "transposed"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_all2all(backend, rng, activation, transposed):
    x, weights = rng.uniform(-1, 1, (3, 2, 2)), rng.uniform(-0.5, 0.5, (5, 4))
    bias = away_from_zero(np.zeros(5)) if activation == "strict_relu" else rng.uniform(-1, 1, 5)

    def make(x, weights, bias):
        keywords = {"activation": activation, "backward": PLAIN, "weights_transposed": transposed}
        return dense_twins(backend, x, weights, bias, **keywords)

    check_twins(backend, make, (x, weights, bias), rng)


@pytest.mark.parametrize("sliding", [None, (1, 2), (4, 3)], ids=str)
@pytest.mark.parametrize("kind", POOLS)
def test_pooling(backend, rng, kind, sliding):
    forward_class, backward_class = POOLS[kind]
    x = distinct_values((2, 5, 7, 2), seed=5) / 10

    def make(x):
        return ran(forward_class(kx=3, ky=2, sliding=sliding), backend, input=x)

    forward = make(x)
    err_output = rng.standard_normal(forward.output.shape)
    gd = ran(backward_class().link_forward(forward), backend, err_output=err_output)
    check_vjp(lambda x: host(make(x).output), [x], err_output, [host(gd.err_input)], full=True)


@pytest.mark.parametrize("mean", [True, False], ids=["mean", "sum"])
def test_softmax_with_cross_entropy(backend, rng, mean):
    labels = np.array([2, -1, 0, 4])

    def net(x, weights):
        forward = All2AllSoftmax(output_sample_shape=5, include_bias=False)
        ran(forward, backend, input=x, weights=weights.copy())
        evaluator = EvaluatorSoftmax(mean=mean).link_attrs(forward, "output", "max_idx")
        return forward, ran(evaluator, backend, labels=labels)

    x, weights = rng.uniform(-1, 1, (4, 3)), rng.uniform(-1, 1, (5, 3))
    forward, evaluator = net(x, weights)
    gd = ran(GDSoftmax().link_forward(forward).link_attrs(evaluator, "err_output"), backend)
    gradients = [host(gd.err_input), host(gd.gradient_weights)]
    check_vjp(lambda *a: np.array(net(*a)[1].loss), [x, weights], np.array(1.0), gradients, full=True)


@pytest.mark.parametrize("mean", [True, False], ids=["mean", "sum"])
def test_square_error(backend, rng, mean):
    target = rng.standard_normal((3, 2, 2))

    def evaluate(output):
        return ran(EvaluatorMSE(mean=mean), backend, output=output, target=target)

    output = rng.standard_normal((3, 2, 2))
    errors = host(evaluate(output).err_output)
    check_vjp(lambda y: np.array(evaluate(y).loss), [output], np.array(1.0), [errors], full=True)
