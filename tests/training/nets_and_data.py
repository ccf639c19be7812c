"""A small net and small data, as tests of training need them."""

from __future__ import annotations

import numpy as np

from convgrad.training.loader import ArrayLoader
from convgrad.training.workflow import StandardWorkflow

LAYERS = [
    {"type": "conv_tanh", "n_kernels": 3, "kx": 2, "ky": 3, "padding": (1, 0, 0, 1), "gradient_moment": 0.9},
    {"type": "max_pooling", "kx": 2, "ky": 2},
    {
        "type": "all2all_str",
        "output_sample_shape": 6,
        "<-": {"weights_decay": 0.01},
        "->": {"weights_stddev": 0.4},
    },
    {"type": "softmax", "output_sample_shape": 3, "gradient_moment": 0.5, "gradient_moment_bias": 0},
]
POLICY = {
    "weights": {"type": "inv", "gamma": 0.01, "pow_ratio": 0.75},
    "bias": {"type": "exp", "gamma": 0.99},
}


def samples(seed, count, dtype=np.float32):
    """Noisy images (5, 4, 2) whose class tells where they are bright."""
    rng = np.random.Generator(np.random.PCG64(seed))
    labels = rng.integers(0, 3, count)
    data = rng.uniform(-1, 1, (count, 5, 4, 2))
    data[np.arange(count), labels] += 1
    return data.astype(dtype), labels


def loader(**keywords):
    given = {
        "train": samples(1, 25),
        "validation": samples(2, 11),
        "test": samples(3, 5),
        "minibatch_size": 4,
    }
    return ArrayLoader(**(given | keywords))


def workflow(device, layers=LAYERS, served=None, *, epochs=4, **keywords):
    """A small workflow, ready to run on a backend."""
    given = {"decision": {"max_epochs": epochs}, "lr_policy": POLICY} | keywords
    made = StandardWorkflow(layers, served or loader(), **given)
    made.initialize(device)
    return made


def tensors(trained):
    """All that a workflow has learned and that it would keep, as bytes by name."""
    units = (*trained.forwards, *trained.gds)
    return {f"{u.name}.{name}": content(array) for u in units for name, array in u.tensors().items()}


def content(array):
    """The bytes of an Array, brought to the host."""
    array.map_read()
    return array.mem.tobytes()


class Recorder:
    """A report that keeps what it is told."""

    def __init__(self):
        self.minibatches = []
        self.epochs = []

    def minibatch(self, minibatch):
        self.minibatches.append((minibatch.class_name, minibatch.size))

    def epoch(self, epoch):
        self.epochs.append(epoch)
