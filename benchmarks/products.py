"""Matrix products of a backend beside those of BLAS, in turns: python benchmarks/products.py --backend opencl

One square product, and those of the forward passes of the eleven layers over their whole batches, most of
them tall. A backend's product is the convolution of images of one pixel, as in fully connected layers.
"""

from __future__ import annotations

import argparse
import sys
from math import prod
from statistics import geometric_mean, median

import numpy as np

from convgrad import backends
from convgrad.backends.numpy.threads import thread_count
from convgrad.bench.direct import whole_numbers
from convgrad.bench.layers import ELEVEN
from convgrad.bench.timing import interleaved, two_thread_gain
from convgrad.geometry import ConvGeometry


def _forward_product(layer):
    rows, columns, results = layer.geometry.output_shape
    return layer.batch * rows * columns, layer.geometry.taps, results


# (rows, columns) by (columns, results)
PRODUCTS = {"square": (2048, 2048, 2048)} | {layer.name: _forward_product(layer) for layer in ELEVEN}


def times(backend, shape, rounds):
    """{"convgrad": samples, "BLAS": samples} in seconds; a wrong product raises ArithmeticError."""
    rows, columns, results = shape
    a, b = whole_numbers((rows, columns), 0), whole_numbers((results, columns), 1)
    turned, want = np.ascontiguousarray(b.T), np.empty((rows, results), np.float32)
    x, weights = (backend.upload(matrix.reshape(-1, 1, 1, columns)) for matrix in (a, b))
    out, geometry = (
        backend.empty((rows, 1, 1, results), np.float32),
        ConvGeometry(1, 1, columns, results, 1, 1),
    )

    def ours():
        backend.conv.forward(x, weights, None, out, geometry)
        backend.synchronize()

    def blas():
        np.matmul(a, turned, out=want)

    ours(), blas()
    found = np.empty(out.shape, np.float32)
    backend.download(out, found)
    if (found.reshape(want.shape) != want).any():
        raise ArithmeticError(f"{backend.name} multiplies {shape} wrongly")
    return interleaved({"convgrad": ours, "BLAS": blas}, rounds)


def table(backend, names, rounds):
    """The lines to print."""
    gain, ratios = two_thread_gain(thread_count()), []
    yield f"{backend.device}; gain of two threads {'unknown' if gain is None else f'{gain:.2f}'}"
    yield f"{'product':<12}{'rows, columns, results':<24}{'GF/s':>6}{'BLAS':>6}{'ratio':>7}"
    for name in names:
        shape = PRODUCTS[name]
        taken = times(backend, shape, rounds)
        ours, blas = (2e-9 * prod(shape) / median(taken[who]) for who in ("convgrad", "BLAS"))
        ratios.append(ours / blas)
        yield f"{name:<12}{', '.join(map(str, shape)):<24}{ours:>6.0f}{blas:>6.0f}{ratios[-1]:>7.2f}"
    yield f"rate over BLAS' rate: geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}"


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--backend", default="opencl")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--products", default=",".join(PRODUCTS), help="with commas between: %(default)s")
    given = parser.parse_args(arguments)
    for line in table(backends.get(given.backend), given.products.split(","), given.rounds):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
