"""What lasts: tensors for snapshots, pickles; and the log of debug=True."""

from __future__ import annotations

import copy
import logging
import pickle

import numpy as np
import pytest

from convgrad.units.conv import Conv, ConvTanh, GDTanhConv
from convgrad.units.dense import GradientDescent
from convgrad.units.evaluator import EvaluatorSoftmax
from convgrad.units.pooling import GDMaxPooling, MaxPooling
from tests.units.twins import conv_twins, host, ran, ready

NUMBERS = {
    "gradient_moment": 0.5,
    "accumulate_gradient": True,
    "acc_alpha": 0.5,
    "acc_beta": 0.5,
    "gd_alpha": 0.25,
    "learning_rate": 0.1,
}


def trained(backend, rng, runs=2):
    """A pair of units after some runs, and the operands to go on with."""
    x, weights, bias = rng.standard_normal((2, 4, 5, 1)), rng.standard_normal((3, 2, 3, 1)), np.ones(3)
    forward, gd = conv_twins(backend, x, weights, bias, activation="tanh", backward=NUMBERS)
    ready(gd, backend, err_output=rng.standard_normal((2, 3, 3, 3)))
    go_on(forward, gd, runs)
    return forward, gd


def go_on(forward, gd, runs=2):
    for _ in range(runs):
        forward.run()
        gd.run()
    return [host(array) for array in (forward.weights, forward.bias, gd.err_input)]


def contents(unit):
    return {name: host(array) for name, array in unit.tensors().items()}


def test_tensors(backend, rng):
    forward, gd = trained(backend, rng)
    assert set(forward.tensors()) == {"weights", "bias"}
    kinds = ("accumulated_gradient_{}", "gradient_{}_with_moment")
    assert set(gd.tensors()) == {kind.format(part) for kind in kinds for part in ("weights", "bias")}
    assert forward.tensors()["weights"] is forward.weights
    for unit in (MaxPooling(kx=2, ky=2), GDMaxPooling(), EvaluatorSoftmax(), Conv(n_kernels=1, kx=1, ky=1)):
        assert unit.tensors() == {}


def test_tensors_of_a_unit_that_works_alone(backend):
    gd = GradientDescent(gradient_moment=0.5)
    arrays = {"weights": np.ones((4, 3)), "bias": np.ones(4), "err_output": np.ones((2, 4))}
    ready(gd, backend, input=np.ones((2, 3)), **arrays)
    moments = {"gradient_weights_with_moment", "gradient_bias_with_moment"}
    assert set(gd.tensors()) == {"weights", "bias"} | moments


@pytest.mark.parametrize("when", ["before", "after"])
def test_restored_tensors_go_on_to_the_same_bits(backend, rng, when):
    forward, gd = trained(backend, rng)
    kept, kept_gd = contents(forward), contents(gd)
    expected = go_on(forward, gd)
    second = ConvTanh(n_kernels=3, kx=3, ky=2)
    second_gd = GDTanhConv(**NUMBERS).link_forward(second)
    second.input, second_gd.err_output = host(forward.input), host(gd.err_output)
    if when == "before":
        restore(second, kept)
        restore(second_gd, kept_gd)
    second.initialize(backend)
    second_gd.initialize(backend)
    if when == "after":
        restore(second, kept)
        restore(second_gd, kept_gd)
    for found, wanted in zip(go_on(second, second_gd), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def restore(unit, tensors):
    for name, content in tensors.items():
        setattr(unit, name, content)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])  # noqa: S301
def test_pickled_units_go_on_to_the_same_bits(backend, rng, clone):
    forward, gd = trained(backend, rng)
    forward.workflow = gd.workflow = open(__file__)  # noqa: SIM115, PTH123  # cannot be pickled
    forward.workflow.close()
    second, second_gd = clone((forward, gd))
    expected = go_on(forward, gd)
    assert second_gd.weights is second.weights
    assert second.workflow is None
    with pytest.raises(RuntimeError, match="initialize"):
        second.run()
    np.testing.assert_array_equal(host(second.output), 0)  # outputs are not kept
    assert host(second_gd.gradient_weights_with_moment).any()
    second.initialize(backend)
    second_gd.initialize(backend)
    for found, wanted in zip(go_on(second, second_gd), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_links_to_what_is_no_unit_become_values(backend):
    class Source:
        size = 2
        scale = np.ones(3)

        def __reduce__(self):
            raise TypeError("cannot pickle this")

    source = Source()
    conv = Conv(source, n_kernels=1, kx=1, ky=1).link_attrs(source, ("batch_size", "size"))
    second = pickle.loads(pickle.dumps(conv))  # noqa: S301
    assert second.batch_size == 2
    second.batch_size = 1
    source.size = 3
    assert (conv.batch_size, second.batch_size) == (3, 1)


def test_debug_logs_what_each_run_did(backend, rng, caplog):
    _, gd = trained(backend, rng)
    caplog.set_level(logging.INFO, "convgrad.units")
    gd.run()
    assert not caplog.messages
    gd.debug = True
    gd.name = "second"
    gd.err_output.map_write()
    gd.err_output.mem[0, 0, 0, :2] = np.nan
    gd.run()
    lines = {message.split(": ")[1]: message for message in caplog.messages}
    watched = {"err_output", "err_input", "weights", "bias", "gradient_weights", "gradient_bias"}
    assert set(lines) == watched
    errors = host(gd.err_output)
    low, high, mean = np.nanmin(errors), np.nanmax(errors), np.nanmean(errors)
    assert lines["err_output"] == (
        f"second: err_output: min {low:.6g}, max {high:.6g}, mean {mean:.6g}, 2 NaN of {errors.size}"
    )


def test_debug_without_bias_and_without_numbers(backend, caplog):
    caplog.set_level(logging.INFO, "convgrad.units")
    _, gd = conv_twins(backend, np.ones((1, 3, 4, 1)), np.ones((2, 2, 3, 1)), backward={"debug": True})
    ran(gd, backend, err_output=np.full((1, 2, 2, 2), np.nan))
    assert "GradientDescentConv: err_output: 8 NaN of 8" in caplog.messages
    assert not any("bias" in message for message in caplog.messages)


@pytest.mark.filterwarnings("error")
def test_debug_of_infinite_numbers(backend, caplog):
    caplog.set_level(logging.INFO, "convgrad.units")
    forward = ran(MaxPooling(kx=2, ky=2), backend, input=np.ones((1, 3, 4, 1)))
    gd = GDMaxPooling(debug=True).link_forward(forward)
    ran(gd, backend, err_output=np.array([[[[np.inf], [1]], [[-np.inf], [2]]]]))
    assert "GDMaxPooling: err_output: min -inf, max inf, mean nan, 0 NaN of 4" in caplog.messages


def test_debug_of_pooling(backend, caplog):
    caplog.set_level(logging.INFO, "convgrad.units")
    forward = ran(MaxPooling(kx=2, ky=2), backend, input=np.ones((1, 3, 4, 1)))
    ran(GDMaxPooling(debug=True).link_forward(forward), backend, err_output=np.ones((1, 2, 2, 1)))
    assert [message.split(": ")[1] for message in caplog.messages] == ["err_output", "err_input"]
