"""A batch_size below the rows there are: later rows are neither read nor summed, their results are zero."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.testing import distinct_values
from convgrad.units.dense import All2AllSoftmax
from convgrad.units.evaluator import EvaluatorMSE, EvaluatorSoftmax
from tests.units.twins import ACTIVATIONS, DTYPES, POOLS, conv_twins, dense_twins, host, nan, ran

ROWS, BATCH = 5, 3


def tailed(values):
    """These rows with rows of NaN behind them."""
    return np.concatenate([values, nan((ROWS - len(values), *values.shape[1:]), values.dtype)])


def check_tail(array, expected):
    """The first rows as expected, +0.0 behind."""
    found = host(array)
    np.testing.assert_array_equal(found[:BATCH], expected)
    assert found[BATCH:].tobytes() == bytes(found[BATCH:].nbytes)


def check_twins(backend, make, x, arrays, err_output, linked):
    """A full batch against the same with a tail; batch_size set on the forward or the backward unit."""
    forward, gd = make(x, *arrays)
    ran(gd, backend, err_output=err_output)
    long, long_gd = make(tailed(x), *arrays)
    long.output = nan(long.output.shape, x.dtype)
    ran(long, backend, batch_size=BATCH)
    check_tail(long.output, host(forward.output))
    long_gd.err_input = nan(long.input.shape, x.dtype)
    if not linked:
        long_gd.batch_size = BATCH
        long.batch_size = None
    ran(long_gd, backend, err_output=tailed(err_output))
    check_tail(long_gd.err_input, host(gd.err_input))
    for name in ("gradient_weights", "gradient_bias", "weights", "bias") if arrays else ():
        np.testing.assert_array_equal(host(getattr(long_gd, name)), host(getattr(gd, name)))


def integers(rng, shape, dtype):
    return rng.integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("linked", [True, False], ids=["linked", "own"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["linear", "strict_relu"])
def test_conv(backend, rng, activation, dtype, linked):
    arrays = [integers(rng, shape, dtype) for shape in ((3, 2, 3, 2), (3,))]
    x, errors = integers(rng, (BATCH, 4, 5, 2), dtype), integers(rng, (BATCH, 5, 3, 3), dtype)

    def make(x, weights, bias):
        window = {"padding": (1, 2, 1, 0), "sliding": (2, 1)}
        return conv_twins(backend, x, weights, bias, activation=activation, **window)

    check_twins(backend, make, x, arrays, errors, linked)


@pytest.mark.parametrize("linked", [True, False], ids=["linked", "own"])
@pytest.mark.parametrize("activation", ["linear", "strict_relu"])
def test_all2all(backend, rng, activation, linked):
    arrays = [integers(rng, shape, "float32") for shape in ((4, 6), (4,))]
    x, errors = integers(rng, (BATCH, 3, 2), "float32"), integers(rng, (BATCH, 4), "float32")

    def make(x, weights, bias):
        return dense_twins(backend, x, weights, bias, activation=activation)

    check_twins(backend, make, x, arrays, errors, linked)


@pytest.mark.parametrize("linked", [True, False], ids=["linked", "own"])
@pytest.mark.parametrize("kind", POOLS)
def test_pooling(backend, rng, kind, linked):
    def make(x):
        forward_class, backward_class = POOLS[kind]
        forward = ran(forward_class(kx=3, ky=2, sliding=(2, 2)), backend, input=x)
        return forward, backward_class().link_forward(forward)

    x = distinct_values((BATCH, 5, 7, 2), seed=3).astype("float32")
    check_twins(backend, make, x, (), integers(rng, (BATCH, 3, 3, 2), "float32"), linked)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_no_rows_at_all(backend, activation):
    x, weights, bias = nan((2, 4, 5, 1)), np.ones((2, 2, 3, 1)), np.ones(2)
    conv, gd = conv_twins(backend, x, weights, bias, activation=activation)
    conv.batch_size = 0
    conv.run()
    ran(gd, backend, err_output=nan((2, 3, 3, 2)))
    for array in (conv.output, gd.err_input, gd.gradient_weights, gd.gradient_bias):
        np.testing.assert_array_equal(host(array), 0)


def test_with_beta_the_old_tail_goes_too(backend):
    x, weights = np.ones((3, 4, 5, 1)), np.ones((2, 2, 3, 1))
    _, gd = conv_twins(backend, x, weights, backward={"err_input_beta": 1.0, "batch_size": 2})
    gd.err_input = np.full(x.shape, 7.0)
    ran(gd, backend, err_output=np.zeros((3, 3, 3, 2)))
    np.testing.assert_array_equal(host(gd.err_input)[:2], 7)
    np.testing.assert_array_equal(host(gd.err_input)[2:], 0)


def test_softmax_and_evaluators(backend, rng):
    x, weights, labels = rng.standard_normal((BATCH, 4)), rng.standard_normal((6, 4)), np.array([5, -1, 2])
    target = rng.standard_normal((BATCH, 6))
    units = []
    for rows in (lambda values: values, tailed):
        softmax = All2AllSoftmax(output_sample_shape=6, batch_size=BATCH)
        softmax.max_idx = np.full(len(rows(x)), -1)
        ran(softmax, backend, input=rows(x), weights=weights.copy(), bias=np.zeros(6))
        given = np.concatenate([labels, np.full(len(rows(x)) - BATCH, 99)])
        for evaluator in (EvaluatorSoftmax(batch_size=BATCH), EvaluatorMSE(batch_size=BATCH)):
            evaluator.link_attrs(softmax, "output")
            attributes = {"labels": given} if "Softmax" in evaluator.name else {"target": rows(target)}
            units.append(ran(evaluator, backend, **attributes))
        units.append(softmax)
    (short, short_mse, softmax), (long, long_mse, long_softmax) = units[:3], units[3:]
    check_tail(long_softmax.output, host(softmax.output))
    check_tail(long_softmax.max_idx, host(softmax.max_idx))
    for one, other in ((long, short), (long_mse, short_mse)):
        check_tail(one.err_output, host(other.err_output))
        assert one.loss == other.loss
    assert (long.n_err, long.max_err_output_sum) == (short.n_err, short.max_err_output_sum)
    np.testing.assert_array_equal(host(long.confusion_matrix), host(short.confusion_matrix))
    np.testing.assert_array_equal(host(long_mse.metrics), host(short_mse.metrics))
    check_tail(long_mse.mse, host(short_mse.mse))


@pytest.mark.parametrize("bad", [-1, 3, 2.0, True, "all"])
def test_bad_batch_sizes(backend, bad):
    conv, gd = conv_twins(backend, np.ones((2, 4, 5, 1)), np.ones((2, 2, 3, 1)))
    conv.batch_size = bad
    with pytest.raises(BadFormatError, match="Conv: batch_size"):
        conv.run()
    with pytest.raises(BadFormatError, match="GradientDescentConv: batch_size"):
        ran(gd, backend, err_output=np.ones((2, 3, 3, 2)))
    assert ran(gd, backend, batch_size=np.int32(2))
