"""Errors of fixed numerics beside those of PyTorch: python benchmarks/accuracy.py --backend opencl

Relative rms error against float64, of the eleven layers on standard normal data, one draw, and PyTorch's in
both of its layouts.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from statistics import geometric_mean

import numpy as np

from convgrad import backends, functional
from convgrad.backends.numpy.threads import thread_count
from convgrad.bench.calls import LAYOUTS, InTorch
from convgrad.bench.layers import choose

RESULTS = ("output", "err_input", "weights", "bias")
RATIOS = ("the better", "NHWC")


def operands(layer):
    """x, weights, bias and err_output."""
    random = np.random.default_rng(1)
    return {name: random.standard_normal(s, np.float32) for name, s in layer.operand_shapes.items()}


def in_convgrad(layer, given, **keywords):
    """RESULTS of a layer by name."""
    window = {"padding": layer.geometry.padding, "sliding": layer.geometry.sliding} | keywords
    x, weights, bias, errors = given.values()
    output = functional.conv_forward(x, weights, bias, **window)
    return {"output": output, **functional.conv_backward(x, weights, errors, **window)._asdict()}


def in_torch(layout, layer, given):
    """The same in PyTorch."""
    torch = InTorch(layout, thread_count())
    tensors = torch.upload(given)
    calls = (torch.call(layer, operation, tensors) for operation in ("forward", "backward"))
    return {name: array for call in calls for name, array in torch.download(call()).items()}


def errors(found, exact):
    """Relative rms errors of RESULTS."""
    return {
        name: np.sqrt(np.square(found[name] - exact[name]).mean() / np.square(exact[name]).mean())
        for name in RESULTS
    }


def table(backend, layers):
    """The lines to print."""
    ratios = {name: {base: [] for base in RATIOS} for name in RESULTS}
    yield f"{backend.device}; errors in units of 1e-8, and convgrad's over PyTorch's"
    titles = "".join(f"{title:>12}" for title in ("convgrad", *LAYOUTS, *RATIOS))
    yield f"{'layer':<12}{'batch':>5}  {'result':<10}{titles}"
    for layer in layers:
        given = operands(layer)
        exact = in_convgrad(layer, {name: a.astype(np.float64) for name, a in given.items()}, backend="numpy")
        ours = errors(in_convgrad(layer, given, backend=backend, numerics="fixed"), exact)
        theirs = [errors(in_torch(layout, layer, given), exact) for layout in LAYOUTS]
        for name in RESULTS:
            found = [found[name] for found in theirs]
            over = ours[name] / min(found), ours[name] / theirs[list(LAYOUTS).index("NHWC")][name]
            for base, ratio in zip(RATIOS, over, strict=True):
                ratios[name][base].append(ratio)
            figures = "".join(f"{1e8 * error:>12.2f}" for error in (ours[name], *found))
            yield f"{layer.name:<12}{layer.batch:>5}  {name:<10}{figures}" + "".join(
                f"{ratio:>12.2f}" for ratio in over
            )
    yield "geometric mean of the errors' ratio"
    for name, of in (
        *ratios.items(),
        ("all", {b: [r for n in RESULTS for r in ratios[n][b]] for b in RATIOS}),
    ):
        means = "".join(f"{geometric_mean(of[base]):>12.2f}" for base in RATIOS)
        yield f"{'':<19}{name:<10}{'':>36}{means}"


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--backend", default="opencl")
    parser.add_argument("--layers", default="eleven", help="with commas between (default: %(default)s)")
    parser.add_argument("--batch", type=int, help="largest batch (default: the layers' own)")
    given = parser.parse_args(arguments)
    layers = choose(given.layers)
    if given.batch:
        layers = [replace(layer, batch=min(layer.batch, given.batch)) for layer in layers]
    for line in table(backends.get(given.backend), layers):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
