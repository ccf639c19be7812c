"""What units are told: keywords and their defaults, demands, device, numerics."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.errors import BackendUnavailable, BadFormatError
from convgrad.units.conv import Conv, GDTanhConv, GradientDescentConv
from convgrad.units.dense import All2All, All2AllSoftmax
from convgrad.units.evaluator import EvaluatorMSE, EvaluatorSoftmax
from convgrad.units.pooling import GDMaxPooling, MaxPooling
from tests.units.twins import ran, ready

KEYWORDS = {"n_kernels": 2, "kx": 3, "ky": 2}


def test_keywords_have_veles_defaults():
    conv = Conv(**KEYWORDS)
    assert (conv.padding, conv.sliding, conv.unpack_size) == ((0, 0, 0, 0), (1, 1), None)
    assert (conv.weights_filling, conv.weights_stddev) == ("uniform", None)
    assert (conv.bias_filling, conv.bias_stddev) == ("uniform", None)
    assert (conv.include_bias, conv.weights_transposed) == (True, False)
    gd = GradientDescentConv()
    assert (gd.need_err_input, gd.need_gradient_weights, gd.apply_gradient) == (True, True, True)
    assert (gd.err_input_alpha, gd.err_input_beta) == (1.0, 0.0)
    assert (gd.factor_ortho, gd.accumulate_gradient) == (0.0, False)
    assert (gd.acc_alpha, gd.acc_beta, gd.gd_alpha, gd.gd_beta) == (0.0, 0.0, 0.0, 1.0)


def test_workflow_is_the_first_argument():
    owner = object()
    assert Conv(owner, **KEYWORDS).workflow is owner
    assert MaxPooling(kx=2, ky=2).workflow is None


def test_keywords_are_checked():
    with pytest.raises(TypeError, match=r"Conv has no keyword 'lerning_rate'.*'learning_rate'"):
        GradientDescentConv(lerning_rate=0.1)
    with pytest.raises(TypeError, match="MaxPooling has no keyword 'n_kernels'"):
        MaxPooling(kx=2, ky=2, n_kernels=3)
    with pytest.raises(TypeError, match="n_kernels"):
        Conv(kx=3, ky=2)
    with pytest.raises(TypeError, match="'kx' and 'ky'"):
        MaxPooling()


def test_names():
    assert Conv(**KEYWORDS).name == "Conv"
    assert repr(Conv(name="first", **KEYWORDS)) == "Conv(name='first')"
    assert repr(Conv(**KEYWORDS)) == "Conv()"


@pytest.mark.parametrize(
    ("unit", "missing"),
    [
        (Conv(**KEYWORDS), "input"),
        (MaxPooling(kx=2, ky=2), "input"),
        (All2All(), "input"),
        (GradientDescentConv(**KEYWORDS), "input"),
        (GDMaxPooling(kx=2, ky=2), "input"),
        (EvaluatorSoftmax(), "output"),
        (EvaluatorMSE(), "output"),
    ],
    ids=repr,
)
def test_what_is_missing_is_named(unit, missing):
    with pytest.raises(AttributeError, match=f"{type(unit).__name__} needs {missing}: link or assign it"):
        unit.initialize("numpy")


def test_every_demand_of_a_backward_unit_is_named_in_turn():
    gd = GDTanhConv()
    x, y, weights = np.ones((1, 3, 4, 1)), np.ones((1, 2, 2, 2)), np.ones((2, 6))
    arrays = {"input": x, "err_output": y, "weights": weights, "bias": np.ones(2), "output": y}
    for name, value in (arrays | KEYWORDS).items():
        with pytest.raises(AttributeError, match=f"needs {name}"):
            gd.initialize("numpy")
        setattr(gd, name, value)
    gd.initialize("numpy")


def test_linear_units_do_without_output(backend):
    gd = GradientDescentConv(**KEYWORDS, include_bias=False)
    ran(gd, backend, input=np.ones((1, 3, 4, 1)), err_output=np.ones((1, 2, 2, 2)), weights=np.ones((2, 6)))
    assert gd.gradient_bias.mem is None


def test_device_and_numerics():
    conv = Conv(**KEYWORDS)
    conv.input = np.ones((1, 3, 4, 1))
    with pytest.raises(BadFormatError, match="input is float64; fixed numerics is for float32"):
        conv.initialize("numpy", numerics="fixed")
    with pytest.raises(BadFormatError, match="numerics must be one of fast, fixed"):
        conv.initialize("numpy", numerics="exact")
    with pytest.raises(BadFormatError, match="backend must be one of"):
        conv.initialize("abacus")
    with pytest.raises(BackendUnavailable):
        conv.initialize("opencl:99:99")


def test_the_width_of_a_softmax_may_come_late(backend):
    softmax = All2AllSoftmax()
    with pytest.raises(AttributeError, match="output_sample_shape"):
        ready(softmax, backend, input=np.ones((2, 3)))
    softmax.output_sample_shape = 4
    softmax.initialize(backend)
    with pytest.raises(BadFormatError, match="output_sample_shape must be an integer"):
        ready(All2All(output_sample_shape=(2, 0.5)), backend, input=np.ones((2, 3)))


@pytest.mark.parametrize(
    ("unit_class", "name"),
    [
        *[(GradientDescentConv, "apply_gradient"), (GradientDescentConv, "need_err_input")],
        *[(GradientDescentConv, "need_gradient_weights"), (GradientDescentConv, "accumulate_gradient")],
        *[(GradientDescentConv, "debug"), (GradientDescentConv, "include_bias")],
        *[
            (Conv, "include_bias"),
            (Conv, "weights_transposed"),
            (EvaluatorMSE, "mean"),
            (EvaluatorMSE, "root"),
        ],
        (EvaluatorSoftmax, "compute_confusion_matrix"),
    ],
)
@pytest.mark.parametrize("value", ["no", 1, None])
def test_flags_are_true_or_false(unit_class, name, value):
    unit = unit_class(**(KEYWORDS if issubclass(unit_class, Conv) else {}), **{name: value})
    with pytest.raises(
        BadFormatError, match=f"{unit_class.__name__}: {name} must be True or False, got {value!r}"
    ):
        unit.initialize("numpy")


@pytest.mark.parametrize(
    "name",
    [
        *["learning_rate", "learning_rate_bias", "weights_decay", "weights_decay_bias", "gradient_moment"],
        *["gradient_moment_bias", "l1_vs_l2", "l1_vs_l2_bias", "factor_ortho", "acc_alpha", "acc_beta"],
        *["gd_alpha", "gd_beta", "err_input_alpha", "err_input_beta"],
    ],
)
@pytest.mark.parametrize("value", ["x", np.nan, None])
def test_numbers_are_checked_at_initialize(name, value):
    gd = GradientDescentConv(**KEYWORDS)
    gd.input, gd.err_output = np.ones((1, 3, 4, 1)), np.ones((1, 2, 2, 2))
    gd.weights, gd.bias = np.ones((2, 6)), np.ones(2)
    with pytest.raises(BadFormatError, match=f"GradientDescentConv: {name} must be"):
        ready(gd, "numpy", **{name: value})
    if name in gd.OVERRIDES:
        setattr(gd, name, 0.5)
        with pytest.raises(BadFormatError, match=f"{name} must be"):
            gd.initialize("numpy", **{name: value})
