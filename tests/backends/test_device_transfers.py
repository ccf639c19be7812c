"""What crosses between host and device once a net is warm: the minibatch in, what softmax needs out, in."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.training.loader import TRAIN, VALIDATION, ArrayLoader
from convgrad.training.workflow import StandardWorkflow
from tests.backends.faults import CountingDriver, around
from tests.training.nets_and_data import LAYERS, samples

BATCH, CLASSES = 4, 3
INPUT_BYTES, OUTPUT_BYTES = BATCH * 5 * 4 * 2 * 4, BATCH * CLASSES * 4


def trained(device, layers=LAYERS, targets=None, **keywords):
    """A workflow that has taken one minibatch of each class, and its counting driver."""
    backend = around(device, CountingDriver)
    data, labels = samples(1, 3 * BATCH)
    part = data, labels if targets is None else data.reshape(len(data), -1)[:, :targets]
    made = StandardWorkflow(layers, ArrayLoader(part, part, minibatch_size=BATCH), **keywords)
    made.initialize(backend)
    while made.iteration == 0:
        made.step()
    return made, backend.driver


def crossings(made, driver):
    """Class of the next minibatch, and {direction: (calls, bytes)} of its step."""
    driver.clear()
    served = made.step().class_name
    return served, {name: (driver.calls[name], driver.bytes[name]) for name in ("upload", "download")}


def test_a_step_moves_the_batch_in_and_what_softmax_needs(device_backend):
    """In: the images and err_output; out: the sums that softmax is made of."""
    made, driver = trained(device_backend)
    served, moved = crossings(made, driver)
    assert served == TRAIN
    assert moved == {"upload": (2, INPUT_BYTES + OUTPUT_BYTES), "download": (1, OUTPUT_BYTES)}
    assert driver.calls["allocate"] == 0


def test_an_evaluation_moves_the_batch_in_and_the_sums_out(device_backend):
    made, driver = trained(device_backend)
    while True:
        served, moved = crossings(made, driver)
        if served == VALIDATION:
            break
    assert moved == {"upload": (1, INPUT_BYTES), "download": (1, OUTPUT_BYTES)}


def test_a_step_with_square_errors(device_backend):
    """The evaluator computes on the host: it takes output, and gives err_output."""
    layers = [{"type": "all2all_tanh", "output_sample_shape": 5, "learning_rate": 0.1}]
    layers += [{"type": "all2all", "output_sample_shape": 3, "gradient_moment": 0.5}]
    made, driver = trained(device_backend, layers, targets=3, loss="mse")
    served, moved = crossings(made, driver)
    assert served == TRAIN
    assert moved == {"upload": (2, INPUT_BYTES + OUTPUT_BYTES), "download": (1, OUTPUT_BYTES)}


def test_a_whole_epoch_allocates_nothing(device_backend):
    made, driver = trained(device_backend)
    live = driver.live
    driver.clear()
    made.run()
    assert driver.calls["launch"] > 100
    assert (driver.calls["allocate"], driver.live) == (0, live)


@pytest.mark.parametrize("read", ["weights", "bias"])
def test_reading_weights_brings_these_alone(device_backend, read):
    made, driver = trained(device_backend)
    made.step()
    driver.clear()
    array = getattr(made.forwards[0], read)
    array.map_read()
    array.map_read()
    assert (driver.calls["download"], driver.bytes["download"]) == (1, array.mem.nbytes)
    driver.clear()
    assert np.isfinite(array.mem).all()
    made.step()
    assert driver.calls["download"] == 1  # the sums; what was read is not uploaded again
    assert driver.bytes["upload"] == INPUT_BYTES + OUTPUT_BYTES
