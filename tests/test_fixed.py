"""numerics="fixed": what it refuses, and the same bits on every backend."""

from __future__ import annotations

import json
import pickle
from functools import partial

import numpy as np
import pytest

from convgrad import backends, cli, functional
from convgrad.backends import verdict
from convgrad.backends.verdict import Verdict
from convgrad.errors import BackendUnavailable, BadFormatError
from convgrad.interfaces import NUMERICS
from convgrad.numerics import elementary
from convgrad.numerics.softmax import softmax
from convgrad.training import nets, tasks
from convgrad.training.datasets.labelled import Labelled
from convgrad.training.loader import ArrayLoader
from convgrad.training.summary import weights_sha256
from convgrad.units.conv import Conv
from convgrad.units.dense import All2All, All2AllSoftmax
from convgrad.units.evaluator import EvaluatorMSE
from tests.backends.faults import Wrapper, around
from tests.training.nets_and_data import LAYERS, samples, workflow
from tests.units.twins import CONVS, POOLS, host

PASSED = Verdict({"device": ""})
FAILED = Verdict({"device": "fma(a, b, c) rounds once, float32: 9 of 48 values are wrong", "forward": ""})
KEYWORDS = {"n_kernels": 3, "kx": 3, "ky": 2}
NUMBERS = {"gradient_moment": 0.9, "weights_decay": 0.01, "l1_vs_l2": 0.5, "factor_ortho": 0.1}


@pytest.fixture(autouse=True)
def on(monkeypatch):
    """Devices pass, without being asked anything; the names that were looked up."""
    names = []

    def passed(backend):
        names.append(backend.name)
        return PASSED

    monkeypatch.setattr(verdict, "on", passed)
    return names


def fixed(function, backend):
    return partial(function, backend=backend, numerics="fixed")


def singles(*shapes):
    """Random arrays, the same in every call."""
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


# --- what is refused


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("x", ("conv_forward", (1, 4, 4, 2), (3, 2, 2, 2))),
        ("x", ("conv_backward", (1, 4, 4, 2), (3, 2, 2, 2), (1, 3, 3, 3))),
        ("x", ("deconv_forward", (1, 3, 3, 3), (3, 2, 2, 2))),
        ("err_output", ("bias_gradient", (1, 3, 3, 3))),
    ],
)
def test_functions_refuse_float64_by_name(backend, name, arguments):
    function, *shapes = arguments
    with pytest.raises(BadFormatError, match=f"^{name} is float64; fixed numerics is for float32"):
        fixed(getattr(functional, function), backend)(*map(np.ones, shapes))


def test_pooling_refuses_float64_by_name(backend):
    with pytest.raises(BadFormatError, match=r"^x is float64; fixed numerics"):
        fixed(functional.pool_forward, backend)(np.ones((1, 4, 4, 2)), "max", (2, 2))


def test_units_refuse_float64_by_name_and_change_nothing(backend):
    conv = Conv(name="edges", **KEYWORDS)
    conv.input = np.ones((1, 4, 5, 1))
    with pytest.raises(BadFormatError, match=r"^edges: input is float64; fixed numerics is for float32"):
        conv.initialize(backend, numerics="fixed")
    assert conv.weights.mem is None
    conv.input = np.ones((1, 4, 5, 1), np.float32)
    conv.weights = np.ones((3, 6))
    with pytest.raises(BadFormatError, match="weights is float64; fixed numerics is for float32"):
        conv.initialize(backend, numerics="fixed")
    with pytest.raises(RuntimeError, match="initialize"):
        conv.run()


def test_what_evaluators_report_stays_float64(backend):
    evaluator = EvaluatorMSE()
    evaluator.output, evaluator.target = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    for _ in range(2):  # the second time its float64 results are there
        evaluator.initialize(backend, numerics="fixed")
        evaluator.run()
    assert evaluator.loss == 1.5
    assert evaluator.err_output.dtype == np.float32


@pytest.mark.parametrize("algorithm", ["im2col", "winograd", 3])
def test_algorithms_that_change_the_order_are_refused(backend, algorithm):
    x, weights = np.ones((1, 4, 4, 2), np.float32), np.ones((3, 2, 2, 2), np.float32)
    with pytest.raises(
        BadFormatError, match=rf"algorithm.* under fixed numerics.* direct; got '?{algorithm}"
    ):
        fixed(functional.conv_forward, backend)(x, weights, algorithm=algorithm)
    np.testing.assert_array_equal(fixed(functional.conv_forward, backend)(x, weights, algorithm="direct"), 8)


def test_unknown_numerics(backend):
    for call in (backend.operations, partial(Conv(**KEYWORDS).initialize, backend)):
        with pytest.raises(BadFormatError, match="numerics must be one of fast, fixed"):
            call(numerics="exact")


# --- which devices may


def test_operations_are_made_once(backend, on):
    assert backend.operations("fast") is backend
    assert backend.operations("fixed") is backend.operations("fixed") is not backend
    assert on in ([], [backend.name])


def test_a_device_is_looked_up_when_fixed_is_first_asked_for(device_backend, on):
    backend = around(device_backend, Wrapper)
    backend.operations("fast")
    assert on == []
    for _ in range(2):
        backend.operations("fixed")
    assert on == [backend.name]


def test_a_device_that_fails_its_check_is_refused_with_what_is_wrong(device_backend, monkeypatch):
    monkeypatch.setattr(verdict, "on", lambda _: FAILED)
    backend = around(device_backend, Wrapper)
    x, weights = np.ones((1, 4, 5, 1), np.float32), np.ones((3, 2, 3, 1), np.float32)
    conv = Conv(**KEYWORDS)
    conv.input = x
    for call in (
        partial(backend.operations, "fixed"),
        partial(conv.initialize, backend, numerics="fixed"),
        partial(fixed(functional.conv_forward, backend), x, weights),
    ):
        with pytest.raises(BackendUnavailable) as caught:
            call()
        assert str(caught.value).startswith(f"{backend.name} ({backend.device}) cannot keep fixed numerics")
        assert "device: fma(a, b, c) rounds once" in str(caught.value)
    functional.conv_forward(x, weights, backend=backend)
    monkeypatch.setattr(verdict, "on", lambda _: PASSED)  # checked again, with another driver
    assert backend.operations("fixed").pool is backend.pool


# --- units


def test_a_unit_knows_its_numerics_until_it_is_pickled(backend):
    conv = Conv(**KEYWORDS)
    conv.input = np.ones((1, 4, 5, 1), np.float32)
    assert (conv.numerics, conv.operations) == (None, None)
    conv.initialize(backend, numerics="fixed")
    assert (conv.numerics, conv.operations) == ("fixed", backend.operations("fixed"))
    second = pickle.loads(pickle.dumps(conv))  # noqa: S301
    assert (second.numerics, second.operations, second.backend) == (None, None, None)
    conv.initialize(backend)
    assert (conv.numerics, conv.operations) == ("fast", backend)


# Channels beside 3x3 taps: whole taps in a segment, and a tap cut into segments.
CHANNELS = pytest.mark.parametrize("channels", [3, 40, 300])


def same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def conv_units(backend, numerics, channels, activation):
    """All that the units of a convolution have after two steps."""
    x, weights, bias, errors = singles((5, 6, 7, channels), (4, 9 * channels), (4,), (5, 4, 6, 4))
    forward_class, backward_class = CONVS[activation]
    forward = forward_class(n_kernels=4, kx=3, ky=3, padding=(1, 0, 0, 0))
    forward.input, forward.weights, forward.bias = x, weights, bias
    forward.initialize(backend, numerics=numerics)
    gd = backward_class(**NUMBERS).link_forward(forward)
    gd.err_output = errors
    gd.initialize(backend, numerics=numerics)
    for _ in range(2):
        forward.run()
        gd.run()
    return [host(a) for a in (forward.output, gd.err_input, gd.weights, gd.bias, gd.gradient_weights)]


def pool_units(backend, numerics, kind):
    """Output and err_input of a pooling with a window that is cut."""
    forward_class, backward_class = POOLS[kind]
    forward = forward_class(kx=3, ky=2, sliding=(2, 1))
    forward.input, errors = singles((3, 5, 6, 2), (3, 4, 3, 2))
    forward.initialize(backend, numerics=numerics)
    gd = backward_class().link_forward(forward)
    gd.err_output = errors
    gd.initialize(backend, numerics=numerics)
    forward.run()
    gd.run()
    return [host(forward.output), host(gd.err_input)]


def softmax_unit(backend, numerics, unit):
    """Output of a fully connected unit."""
    unit.input, unit.weights, unit.bias = singles((7, 300), (10, 300), (10,))
    unit.initialize(backend, numerics=numerics)
    unit.run()
    return host(unit.output)


@CHANNELS
@pytest.mark.parametrize("activation", CONVS)
def test_convolutions_of_a_device_have_the_bits_of_its_fast_ones(device_backend, channels, activation):
    found, fast = (conv_units(device_backend, numerics, channels, activation) for numerics in NUMERICS)
    same(found, fast)


@CHANNELS
@pytest.mark.parametrize("activation", CONVS)
def test_convolutions_have_the_bits_of_numpy(device_backend, channels, activation):
    same(*(conv_units(place, "fixed", channels, activation) for place in (device_backend, "numpy")))


@pytest.mark.parametrize("kind", POOLS)
def test_pooling_has_the_bits_of_numpy(device_backend, kind):
    found = pool_units(device_backend, "fixed", kind)
    same(found, pool_units(device_backend, "fast", kind))
    same(found, pool_units("numpy", "fixed", kind))


def test_softmax_takes_its_own_exp(backend):
    sums = softmax_unit(backend, "fixed", All2All(output_sample_shape=10))
    wanted = np.empty_like(sums)
    softmax(sums, out=wanted, exp=elementary.exp)
    found = softmax_unit(backend, "fixed", All2AllSoftmax(output_sample_shape=10))
    same([found, found], [wanted, softmax_unit("numpy", "fixed", All2AllSoftmax(output_sample_shape=10))])


@CHANNELS
@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_functions_have_the_bits_of_numpy(device_backend, channels, activation):
    x, weights, bias, d = singles((2, 4, 5, channels), (4, 3, 3, channels), (4,), (2, 2, 3, 4))
    back = singles((channels,))
    calls = (
        (functional.conv_forward, (x, weights, bias), {"activation": activation}),
        (functional.conv_backward, (x, weights, d), {"activation": activation, "output": d}),
        (functional.deconv_forward, (d, weights, *back), {"activation": activation}),
        (functional.deconv_backward, (d, weights, x), {"activation": activation, "output": x}),
        (functional.bias_gradient, (d,), {}),
    )
    for function, arrays, keywords in calls:
        found, numpy = (fixed(function, place)(*arrays, **keywords) for place in (device_backend, "numpy"))
        same(*([result] if isinstance(result, np.ndarray) else result for result in (found, numpy)))
        if function is not functional.bias_gradient:
            fast = function(*arrays, **keywords, backend=device_backend, algorithm="direct")
            same(*([result] if isinstance(result, np.ndarray) else result for result in (found, fast)))


# --- training


def run(made):
    """The digest of all weights when it is done."""
    made.run()
    return weights_sha256(made.forwards)


def digits(device):
    """A workflow of one epoch."""
    pytest.importorskip("sklearn")
    data, net = tasks.task("digits", None, 1)
    served = ArrayLoader(data.train, data.validation, minibatch_size=net.minibatch_size, seed=1)
    return workflow(device, net.layers, served, epochs=1, lr_policy=net.lr_policy, numerics="fixed")


@pytest.fixture(scope="module")
def numpy_digest():
    """Of digits on NumPy."""
    return run(digits("numpy"))


def test_digits_have_the_same_weights_everywhere(device_backend, numpy_digest):
    assert run(digits(device_backend)) == numpy_digest


@pytest.mark.parametrize("to_device", [True, False], ids=["numpy to device", "device to numpy"])
def test_a_run_resumed_elsewhere_ends_as_if_it_had_stayed(device_backend, tmp_path, to_device):
    first, second = ("numpy", device_backend) if to_device else (device_backend, "numpy")
    workflow(first, epochs=1, numerics="fixed", snapshots=tmp_path).run()
    resumed = workflow(second, epochs=2, numerics="fixed")
    resumed.resume(tmp_path / "last.safetensors")
    digests = {run(resumed), *(run(workflow(place, epochs=2, numerics="fixed")) for place in (first, second))}
    assert len(digests) == 1


def test_the_command_trains_in_fixed_numerics(backend, capsys, monkeypatch, tmp_path):
    small = Labelled(samples(1, 25), samples(2, 11), 3), nets.Net(LAYERS, 4, 3)
    monkeypatch.setattr(tasks, "task", lambda *_: small)
    monkeypatch.setitem(backends._open, backend.name, backend)
    train = ("train", "digits", "--backend", backend.name)
    assert cli.main((*train, "--numerics", "fixed", "--epochs", "1", "--snapshots", str(tmp_path))) == 0
    assert "fixed numerics, weights " in capsys.readouterr().out
    assert cli.main((*train, "--resume", str(tmp_path / "last.safetensors"), "--epochs", "2", "--json")) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["numerics"], result["epochs"]) == ("fixed", 2)
