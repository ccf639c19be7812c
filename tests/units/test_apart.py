"""A net on a backend whose buffers are not the host's memory: every hand-over between the two counts.

On devices, and on NumPy behind a wall (`Apart`), where all bits must be those of plain NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.backends.numpy import NumpyBackend
from convgrad.memory import Array
from convgrad.testing import assert_close
from convgrad.units.conv import ConvTanh, GDTanhConv
from convgrad.units.dense import All2AllSoftmax, GDSoftmax
from convgrad.units.evaluator import EvaluatorMSE, EvaluatorSoftmax
from tests import operations
from tests.units.twins import POOLS, Apart, conv_twins, host, ran, ready

STEP = {"learning_rate": 0.1, "gradient_moment": 0.9}
HERE = NumpyBackend()


@pytest.fixture
def place(backend):
    """A backend whose memory is not the host's."""
    return Apart(backend) if backend.name == "numpy" else backend


def check_same(found, known, place):
    """Equal bits behind the wall; a device may sum in another order."""
    if isinstance(place, Apart):
        np.testing.assert_array_equal(found, known)
    else:
        assert_close(found, known, rtol=1e-4, length=100)


def net(kind):
    """Forward units, evaluator, backward units of a small net, linked."""
    conv = ConvTanh(n_kernels=3, kx=3, ky=2, padding=(1, 0, 1, 1))
    pool = POOLS[kind][0](kx=2, ky=3).link_attrs(conv, ("input", "output"))
    softmax = All2AllSoftmax(output_sample_shape=4).link_attrs(pool, ("input", "output"))
    evaluator = EvaluatorSoftmax().link_attrs(softmax, "output", "max_idx", "batch_size")
    last = GDSoftmax(**STEP).link_forward(softmax).link_attrs(evaluator, "err_output")
    middle = POOLS[kind][1]().link_forward(pool).link_attrs(last, ("err_output", "err_input"))
    first = GDTanhConv(**STEP).link_forward(conv).link_attrs(middle, ("err_output", "err_input"))
    for unit in (pool, softmax):
        unit.link_attrs(conv, "batch_size")
    return [conv, pool, softmax, evaluator, last, middle, first]


def train(units, backend, data):
    """What three minibatches leave behind."""
    for number, (x, labels, size) in enumerate(data):
        units[0].input, units[3].labels, units[0].batch_size = x, labels, size
        for unit in units:
            if number == 0:
                unit.initialize(backend)
            unit.run()
    results = [array for unit in units for array in unit.tensors().values()]
    return [host(array) for array in (*results, units[-1].err_input, units[2].output, units[3].err_output)]


@pytest.mark.parametrize("kind", POOLS)
def test_a_net_learns_the_same(place, rng, kind):
    data = [
        (rng.standard_normal((4, 5, 6, 2)).astype(np.float32), rng.integers(0, 4, 4), size)
        for size in (4, 4, 3)
    ]
    here, there = train(net(kind), HERE, data), train(net(kind), place, data)
    assert len(here) == 11
    for one, other in zip(here, there, strict=True):
        check_same(other, one, place)


def test_moving_a_trained_net(place, rng):
    """From NumPy to the other place and back."""
    data = [(rng.standard_normal((4, 5, 6, 2)), rng.integers(0, 4, 4), None) for _ in range(2)]
    stayed, moved = net("max"), net("max")
    for where in (HERE, place, HERE):
        results = zip(train(stayed, HERE, data), train(moved, where, data), strict=True)
        for one, other in results:
            check_same(other, one, place)


def test_places_of_the_maxima(place, rng):
    x = rng.standard_normal((2, 5, 6, 2))
    units = [POOLS["max"][0](kx=2, ky=3) for _ in range(2)]
    for unit, where in zip(units, (HERE, place), strict=True):
        ran(unit, where, input=x)
    np.testing.assert_array_equal(host(units[1].input_offset), host(units[0].input_offset))


def test_what_the_host_writes_counts(place, rng):
    """A net set back, in place, to what it was goes on to the same bits."""
    numbers = {"gradient_moment": 0.5, "accumulate_gradient": True, "acc_alpha": 0.5, "acc_beta": 0.5}
    numbers |= {"gd_alpha": 0.25, "err_input_beta": 0.5}
    x, weights, bias = rng.standard_normal((2, 4, 5, 1)), rng.standard_normal((3, 2, 3, 1)), np.ones(3)
    forward, gd = conv_twins(place, x, weights, bias, backward=numbers)
    ran(gd, place, err_output=rng.standard_normal((2, 3, 3, 3)))
    arrays = [*forward.tensors().values(), *gd.tensors().values(), gd.err_input]
    kept, results = [host(array) for array in arrays], []
    for _ in range(2):
        for array, content in zip(arrays, kept, strict=True):
            array.map_invalidate()
            array.mem[...] = content
        gd.run()
        results.append([host(array) for array in arrays])
    for first, second, old in zip(*results, kept, strict=True):
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, old)


def on_device(values, place):
    """An Array whose content is on the device alone."""
    array = Array(np.zeros_like(values))
    array.initialize(place)
    place.upload(values, array.write_buffer(keep=False))
    return array


def test_evaluators_bring_their_operands(place, rng):
    y, target = rng.uniform(0.1, 1, (2, 3, 4))
    labels, found = np.array([3, 0, 1]), np.array([3, 1, 1])
    pairs = [(EvaluatorMSE, {"output": y, "target": target})]
    pairs += [(EvaluatorSoftmax, {"output": y, "labels": labels, "max_idx": found})]
    for evaluator_class, arrays in pairs:
        here = ran(evaluator_class(), HERE, **arrays)
        there = evaluator_class()
        ran(there, place, **{name: on_device(values, place) for name, values in arrays.items()})
        assert there.loss == here.loss
        np.testing.assert_array_equal(host(there.err_output), host(here.err_output))
        if evaluator_class is EvaluatorSoftmax:
            assert there.n_err == here.n_err == 1


def test_results_made_on_the_host_reach_the_device(place, rng):
    """A second run's results replace the first's there too."""
    target = rng.standard_normal((3, 4))
    softmax = ready(All2AllSoftmax(output_sample_shape=4), place, input=rng.standard_normal((3, 2)))
    mse = ready(EvaluatorMSE(), place, output=softmax.output, target=target)
    classes = ready(EvaluatorSoftmax(), place, output=softmax.output, labels=np.array([0, 1, 2]))
    results = {softmax: ["output", "max_idx"], mse: ["err_output", "mse", "metrics"]}
    results[classes] = ["err_output", "confusion_matrix"]
    for softmax.input in (rng.standard_normal((3, 2)), rng.standard_normal((3, 2)) * 9):
        for unit, names in results.items():
            unit.run()
            for array in (getattr(unit, name) for name in names):
                np.testing.assert_array_equal(operations.host(place, array.read_buffer()), array.mem)
