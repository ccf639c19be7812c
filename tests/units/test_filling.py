"""First weights and biases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.prng import Random
from convgrad.units import conv, dense, pooling
from tests.units.twins import DTYPES, host, ran, ready

X = np.ones((2, 6, 7, 3))
KEYWORDS = {"n_kernels": 50, "kx": 5, "ky": 4}


def weights(unit_class, x=X, **keywords):
    return host(ready(unit_class(**keywords), "numpy", input=x).weights)


def conv_weights(x=X, **keywords):
    return weights(conv.Conv, x, **KEYWORDS, **keywords)


@pytest.mark.parametrize("dtype", DTYPES)
def test_uniform(dtype):
    values = conv_weights(X.astype(dtype), weights_stddev=0.25)
    assert values.dtype == dtype
    assert values.shape == (50, 60)
    assert 0.24 < values.max() < 0.25
    assert -0.25 <= values.min() < -0.24
    assert abs(values.mean()) < 0.01
    assert len(np.unique(values)) > 2990


def test_gaussian():
    values = conv_weights(weights_stddev=0.25, weights_filling="gaussian")
    assert abs(values.std() - 0.25) < 0.01
    assert 0.5 < np.abs(values).max() <= 1.25


class Far(Random):
    """Draws numbers at the ends only."""

    def gaussian(self, mean, stddev, shape=()):
        return mean + np.where(np.arange(math.prod(shape)) % 2, 6, -6).reshape(shape) * stddev


def test_gaussian_is_cut():
    values = conv_weights(weights_stddev=0.25, weights_filling="gaussian", rand=Far(1))
    np.testing.assert_array_equal(np.unique(values), [-1.25, 1.25])


def test_constant():
    np.testing.assert_array_equal(conv_weights(weights_stddev=0.25, weights_filling="constant"), 0.25)
    negative = conv_weights(weights_stddev=-0.25, weights_filling="constant", bias_stddev=0.0)
    np.testing.assert_array_equal(negative, -0.25)


@pytest.mark.parametrize("filling", ["gabor", "normal", None])
def test_unknown_fillings(filling):
    with pytest.raises(BadFormatError, match="weights_filling must be one of uniform, gaussian, constant"):
        conv_weights(weights_filling=filling)
    with pytest.raises(BadFormatError, match="bias_filling must be one of"):
        conv_weights(bias_filling=filling)


@pytest.mark.parametrize("filling", ["uniform", "gaussian"])
def test_bad_deviations(filling):
    with pytest.raises(BadFormatError, match="weights_stddev must be a number"):
        conv_weights(weights_stddev="small", weights_filling=filling)
    with pytest.raises(BadFormatError, match="bias_stddev must be finite"):
        conv_weights(bias_stddev=math.inf, bias_filling=filling)
    with pytest.raises(
        BadFormatError, match=f"weights_stddev must be at least 0 for {filling} values, got -0.5"
    ):
        conv_weights(weights_stddev=-0.5, weights_filling=filling)
    with pytest.raises(BadFormatError, match=f"bias_stddev must be at least 0 for {filling}"):
        conv_weights(bias_stddev=-0.5, bias_filling=filling)


def deviation(unit):
    """The constant that a unit fills in."""
    unit.weights_filling = "constant"
    return host(ready(unit, "numpy", input=unit.input if unit.input.mem is not None else X).weights)[0, 0]


def conv_of(n_channels, max_supposed=1.0):
    unit = conv.Conv(**KEYWORDS)
    unit.input = np.ones((1, 6, 7, n_channels))
    unit.input.max_supposed = max_supposed
    return unit


def test_default_deviation_of_conv():
    assert deviation(conv_of(40)) == pytest.approx(1 / math.sqrt(800))
    assert deviation(conv_of(40, 10.0)) == pytest.approx(0.1 / math.sqrt(800))
    assert deviation(conv_of(1)) == 0.05  # never more
    unit = conv_of(40)
    unit.weights_filling = "gaussian"
    assert host(ready(unit, "numpy").weights).std() == pytest.approx(1 / math.sqrt(800) / 3, rel=0.02)


@pytest.mark.parametrize(
    ("unit_class", "gain"),
    [
        *[(dense.All2All, 10), (dense.All2AllTanh, 9), (dense.All2AllSigmoid, 1), (dense.All2AllRELU, 10)],
        *[(dense.All2AllStrictRELU, 10), (dense.All2AllSoftmax, 10)],
    ],
)
def test_default_deviation_of_all2all(unit_class, gain):
    assert deviation(unit_class(output_sample_shape=74)) == pytest.approx(math.sqrt(gain / (126 + 74)))
    unit = unit_class(output_sample_shape=2)
    unit.input = np.ones((1, 1))
    assert deviation(unit) == 0.5  # never more


@pytest.mark.parametrize(
    ("unit_class", "largest"),
    [
        *[(conv.Conv, 1.0), (conv.ConvTanh, 1.7159), (conv.ConvSigmoid, 1.0), (conv.ConvRELU, 10.0)],
        *[(conv.ConvStrictRELU, 10.0), (dense.All2AllTanh, 1.7159), (dense.All2AllStrictRELU, 10.0)],
    ],
)
def test_max_supposed_is_there_before_initialize(unit_class, largest):
    keywords = KEYWORDS if issubclass(unit_class, conv.Conv) else {}
    assert unit_class(**keywords).output.max_supposed == largest
    assert pooling.MaxPooling(kx=2, ky=2).output.max_supposed == 1.0


def test_bias_follows_the_weights():
    unit = ready(conv.Conv(**KEYWORDS, weights_stddev=0.25, bias_filling="constant"), "numpy", input=X)
    np.testing.assert_array_equal(host(unit.bias), 0.25)
    unit = ready(conv.Conv(**KEYWORDS, weights_stddev=0.25, bias_stddev=0.0), "numpy", input=X)
    np.testing.assert_array_equal(host(unit.bias), 0.0)
    unit = ready(conv.Conv(**KEYWORDS, include_bias=False), "numpy", input=X)
    assert unit.bias.mem is None


def test_where_numbers_come_from():
    seed_1 = conv_weights()
    np.testing.assert_array_equal(conv_weights(rand=1), seed_1)
    np.testing.assert_array_equal(conv_weights(rand=Random(1)), seed_1)
    assert not np.array_equal(conv_weights(rand=2), seed_1)
    shared = Random(1)
    np.testing.assert_array_equal(conv_weights(rand=shared), seed_1)
    assert not np.array_equal(conv_weights(rand=shared), seed_1)


def test_transposed_weights_are_the_same_numbers(backend, rng):
    x = rng.standard_normal(X.shape)
    rows, transposed = (
        ran(conv.Conv(**KEYWORDS, weights_transposed=flag), backend, input=x) for flag in (False, True)
    )
    np.testing.assert_array_equal(host(transposed.weights), host(rows.weights).T)
    np.testing.assert_array_equal(host(transposed.bias), host(rows.bias))
    np.testing.assert_allclose(host(transposed.output), host(rows.output), rtol=1e-12)


def test_restored_weights_draw_no_numbers():
    rand = Random(1)
    unit = conv.Conv(**KEYWORDS, rand=rand)
    unit.weights, unit.bias = np.ones((50, 60)), np.ones(50)
    ready(unit, "numpy", input=X)
    assert rand.state() == Random(1).state()
