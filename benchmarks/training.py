"""Steps of training beside PyTorch and NumPy, in turns: python benchmarks/training.py --backend opencl

A step takes a minibatch from host memory, learns from it by gradient descent with momentum, and reads the
loss. PyTorch has the same layers, in both of its layouts; images are random, since time does not depend on
them.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec
from statistics import median

import numpy as np

from convgrad import ArrayLoader, StandardWorkflow, backends
from convgrad.backends.numpy.threads import thread_count
from convgrad.bench.calls import LAYOUTS
from convgrad.bench.timing import interleaved
from convgrad.training import nets

NETS = {"mnist": (nets.mnist, (28, 28, 1)), "digits": (nets.digits, (8, 8, 1))}
STEPS = 20  # of a sample


def samples(shape, count):
    """Images of a net and their labels."""
    random = np.random.default_rng(1)
    return random.random((count, *shape), np.float32), random.integers(0, 10, count, np.int32)


def on(backend, net, shape):
    """STEPS steps on a backend, as a call."""
    data = samples(shape, net.minibatch_size)
    workflow = StandardWorkflow(net.layers, ArrayLoader(data, minibatch_size=net.minibatch_size))
    workflow.initialize(device=backend)
    [minibatch] = workflow.loader.minibatches(0)

    def steps():
        for _ in range(STEPS):
            workflow.step(minibatch)
        backends.get(backend).synchronize()

    return steps


def in_torch(layout, net, shape):
    """The same in PyTorch."""
    torch = import_module("torch")
    torch.set_num_threads(thread_count())
    order = getattr(torch, LAYOUTS[layout])
    images, labels = samples(shape, net.minibatch_size)
    labels = torch.from_numpy(labels).long()
    module = torch.nn.Sequential(*modules(torch, net.layers, shape)).to(memory_format=order)
    rate, momentum = (net.layers[0][key] for key in ("learning_rate", "gradient_moment"))
    descent = torch.optim.SGD(module.parameters(), lr=rate, momentum=momentum, weight_decay=5e-4)

    def steps():
        for _ in range(STEPS):
            x = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(memory_format=order)
            loss = torch.nn.functional.cross_entropy(module(x), labels)
            descent.zero_grad()
            loss.backward()
            descent.step()
            loss.item()

    return steps


def modules(torch, layers, shape):
    """PyTorch's modules for the types of layers that the two nets have."""
    height, width, channels = shape
    for layer in layers:
        kind = layer["type"]
        if kind.startswith("conv"):
            pad = layer.get("padding", [0])[0]
            yield torch.nn.Conv2d(channels, layer["n_kernels"], (layer["ky"], layer["kx"]), padding=pad)
            height, width = height + 2 * pad - layer["ky"] + 1, width + 2 * pad - layer["kx"] + 1
            channels = layer["n_kernels"]
        elif kind == "max_pooling":
            yield torch.nn.MaxPool2d((layer["ky"], layer["kx"]))
            height, width = height // layer["ky"], width // layer["kx"]
        else:
            if height:
                yield torch.nn.Flatten()
                height, width, channels = 0, 0, height * width * channels
            yield torch.nn.Linear(channels, layer["output_sample_shape"])
            channels = layer["output_sample_shape"]
        if kind.endswith("_str"):
            yield torch.nn.ReLU()


def table(backend, name, rounds, batch):
    """The lines to print."""
    make, shape = NETS[name]
    net = make()
    net = net._replace(minibatch_size=batch or net.minibatch_size)
    calls = {backend: on(backend, net, shape), "numpy": on("numpy", net, shape)}
    if find_spec("torch"):
        calls |= {f"PyTorch {layout}": in_torch(layout, net, shape) for layout in LAYOUTS}
    else:
        yield "PyTorch is not installed: it is left out"
    taken = interleaved(calls, rounds)
    yield f"{name}, minibatches of {net.minibatch_size}; {backends.get(backend).device}"
    yield f"{'':<14}{'ms':>8}{'images/s':>10}{'time of ' + backend + ' over it':>28}"
    for who, seconds in taken.items():
        step = median(seconds) / STEPS
        paired = median(ours / theirs for ours, theirs in zip(taken[backend], seconds, strict=True))
        yield f"{who:<14}{1e3 * step:>8.2f}{net.minibatch_size / step:>10.0f}{paired:>28.2f}"


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--net", choices=NETS, default="mnist")
    parser.add_argument("--backend", default="opencl")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, help="minibatch size (default: the net's)")
    given = parser.parse_args(arguments)
    for line in table(given.backend, given.net, given.rounds, given.batch):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
