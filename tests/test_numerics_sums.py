"""Sums of fixed numerics in NumPy, bit by bit as the judge has them: chains, leaves and trees, averages."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad import backends
from convgrad.numerics import chains, sums
from tests.cases import random_pool_cases
from tests.operations import conv_geometry, pool_geometry
from tests.order_cases import ALL, drawn
from tests.reference import order, pooling


def same_bits(result, wanted):
    np.testing.assert_array_equal(result.view(np.uint32), wanted.view(np.uint32))


def by_groups(case):
    """Slices of the channels and of the kernels of each group."""
    channels, kernels = case.channels // case.groups, case.n_kernels // case.groups
    for group in range(case.groups):
        yield (
            slice(group * channels, (group + 1) * channels),
            slice(group * kernels, (group + 1) * kernels),
        )


@pytest.mark.parametrize("case", ALL, ids=str)
def test_chains(case):
    x, weights, _, d = drawn(case)
    y = order.conv_forward(x, weights, **case.window)
    err_input = order.conv_input_gradient(d, weights, case.size, **case.window)
    x, weights, d = (array.astype(np.float64) for array in (x, weights, d))
    for cs, ks in by_groups(case):
        same_bits(chains.forward(x[..., cs], weights[ks], conv_geometry(case)), y[..., ks])
        same_bits(chains.adjoint(d[..., ks], weights[ks], conv_geometry(case)), err_input[..., cs])


@pytest.mark.parametrize("case", ALL, ids=str)
def test_sums_over_positions(case):
    x, _, _, d = drawn(case)
    wanted = order.conv_weight_gradient(x, d, case.kernel, **case.window)
    for cs, ks in by_groups(case):
        some, their = x[..., cs].astype(np.float64), d[..., ks].astype(np.float64)
        nodes = sums.weight_nodes(some, their, conv_geometry(case))
        same_bits(nodes.total(np.zeros_like(wanted[ks])) + np.float32(0), wanted[ks])
    found = sums.bias_nodes(d).total(np.zeros(case.n_kernels, np.float32)) + np.float32(0)
    same_bits(found, order.bias_gradient(d))


@pytest.mark.parametrize("case", [*random_pool_cases(24, seed=71)], ids=str)
def test_the_gradient_of_averages_is_a_chain(case, rng):
    """s = fma(d, 1 / area, s) from +0.0 over the windows of a cell, outputs ascending; then + 0.0."""
    shape = case.batch, *case.output_size, case.channels
    d = rng.standard_normal(shape).astype(np.float32)
    x = np.zeros((case.batch, *case.size, case.channels), np.float32)
    found = np.full_like(x, np.nan)
    pool = backends.get("numpy").operations("fixed").pool
    pool.backward(d, None, found, pool_geometry(case), "average")
    vertical, horizontal = pooling.axes(
        case.size, case.kernel, case.sliding, case.padding, case.dilation, case.ceil
    )
    for oy, ox in np.ndindex(*case.output_size):
        rows, columns = vertical.cells(oy), horizontal.cells(ox)
        area = len(rows) * len(columns)
        if case.count_include_pad:
            area = vertical.padded(oy) * horizontal.padded(ox)
        for iy in rows:
            for ix in columns:
                x[:, iy, ix] = order.fma(d[:, oy, ox], np.float32(1 / area), x[:, iy, ix])
    same_bits(found, x + np.float32(0))
