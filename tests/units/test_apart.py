"""A net on a backend whose buffers are not the host's memory: every hand-over between the two counts."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.units.conv import ConvTanh, GDTanhConv
from convgrad.units.dense import All2AllSoftmax, GDSoftmax
from convgrad.units.evaluator import EvaluatorMSE, EvaluatorSoftmax
from tests.units.twins import POOLS, Apart, host

STEP = {"learning_rate": 0.1, "gradient_moment": 0.9}


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
def test_the_same_bits(backend, rng, kind):
    data = [
        (rng.standard_normal((4, 5, 6, 2)).astype(np.float32), rng.integers(0, 4, 4), size)
        for size in (4, 4, 3)
    ]
    here, apart = train(net(kind), backend, data), train(net(kind), Apart(backend), data)
    assert len(here) == 11
    for one, other in zip(here, apart, strict=True):
        np.testing.assert_array_equal(one, other)


def test_moving_a_trained_net(backend, rng):
    data = [(rng.standard_normal((4, 5, 6, 2)), rng.integers(0, 4, 4), None) for _ in range(2)]
    stayed, moved = net("max"), net("max")
    train(stayed, backend, data)
    train(moved, Apart(backend), data)
    results = zip(train(stayed, backend, data), train(moved, backend, data), strict=True)
    for one, other in results:
        np.testing.assert_array_equal(one, other)


def test_square_error(backend, rng):
    output, target = rng.standard_normal((2, 3, 4))
    found = []
    for place in (backend, Apart(backend)):
        evaluator = EvaluatorMSE()
        evaluator.output, evaluator.target = output, target
        evaluator.initialize(place)
        evaluator.run()
        found.append([host(a) for a in (evaluator.err_output, evaluator.mse, evaluator.metrics)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
