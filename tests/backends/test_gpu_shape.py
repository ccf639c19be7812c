"""The kernels of convolution in GPU shape; those of CPU shape share their parameters, and so these tests.

Whole numbers against loops, in memory with gaps: what is read there is NaN and shows in the results, what is
written there shows too. Random numbers against the judge of the order, bit by bit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from convgrad.backends.device import correlation, products, sums
from convgrad.backends.device.correlation import Reach, Strides
from convgrad.backends.device.execution import no_planner
from convgrad.backends.device.leaves import chunkings
from convgrad.backends.device.plan import Plan
from convgrad.backends.device.products import Finish, Weights
from convgrad.numerics.leaves import Leaves
from tests import operations
from tests.cases import ConvCase, generator, integers, random_conv_cases
from tests.reference import conv as loops
from tests.reference import order

CASES = [case for case in random_conv_cases(32, seed=41) if case.batch]
EDGES = (1, 15, 16, 17, 63, 64, 65)  # around steps and tiles of the kernels
BEFORE, BEHIND = 7, 11  # elements of memory around an array


class Sparse:
    """An array (images, rows, columns, channels) in memory with gaps of NaN before, between and behind."""

    def __init__(self, array):
        images, rows, columns, channels = self.shape = array.shape
        column = channels + 3
        row = columns * column + 5
        self.strides = Strides(BEFORE, rows * row + 2, row, column)
        self.memory = np.full(BEFORE + images * self.strides.image + BEHIND, np.nan, array.dtype)
        self.inside(self.memory)[...] = array

    def inside(self, memory):
        """The array in this or another such memory, as a view."""
        steps = [memory.itemsize * step for step in (*self.strides[1:], 1)]
        return np.lib.stride_tricks.as_strided(memory[BEFORE:], self.shape, steps)

    def taken_out_of(self, memory):
        """The array there; gaps must still be NaN."""
        array = self.inside(memory).copy()
        self.inside(memory)[...] = np.nan
        assert np.isnan(memory).all()
        return array

    def place(self, target, whole):
        """Where cells lie here that lie at `target` in a contiguous array of these strides `whole`."""
        down, aside = divmod(target.start, whole.row)
        start = self.strides.start + down * self.strides.row + aside // whole.column * self.strides.column
        steps = target.row // whole.row, target.column // whole.column
        return Strides(start, self.strides.image, steps[0] * self.strides.row, steps[1] * self.strides.column)


def run(backend, launches, scratch=(), **arrays):
    """Launch, and bring back what lies in `out`."""
    buffers = {role: backend.upload(array) for role, array in arrays.items()}
    plan = Plan(tuple(launches), tuple(scratch))
    backend.executor.run(no_planner(plan), plan.scratch_bytes, **buffers)
    return operations.host(backend, buffers["out"])


def correlated(backend, wholes, shape, source, out, weights, **bias):
    """2 * (all of `wholes` + bias) + 3 * out, between two Sparse; `shape` is that of an image of `out`."""
    profile, dtype = backend.driver.profile, weights.dtype
    finish = Finish("bias" if bias else None, alpha=2.0, beta=3.0)
    layout = Weights.of(*weights.shape[:1], *_taps_and_channels(weights), wholes[0].groups, transposed=False)
    launches, scratch = [], []
    for number, whole in enumerate(wholes):
        role, tile = f"packed{number}", products.tile_of(profile, dtype, whole.outputs)
        target = out.place(whole.target, Strides.of(*shape))
        placed = replace(whole, source=source.strides, target=target)
        scratch.append((role, products.packed_bytes(whole, tile, dtype)))
        if whole.taps:
            launches.append(products.pack(placed, tile, dtype, layout, "weights", role))
        launches.append(products.correlate(placed, tile, dtype, finish, "source", role, "out"))
    arrays = {"source": source.memory, "weights": weights, "out": out.memory, **bias}
    return out.taken_out_of(run(backend, launches, scratch, **arrays))


def _taps_and_channels(weights):
    return weights.shape[1] * weights.shape[2], weights.shape[3]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_correlations_touch_nothing_but_their_arrays(device_backend, case):
    geometry, dtype = operations.conv_geometry(case), np.float32
    x, weights, bias, d = case.data(dtype)
    old = integers(generator(case.seed + 1), d.shape, dtype)
    whole = correlation.forward(geometry, case.batch)
    y = correlated(device_backend, [whole], geometry.output_shape, Sparse(x), Sparse(old), weights, bias=bias)
    np.testing.assert_array_equal(y, 2 * loops.conv_forward(x, weights, bias, **case.window) + 3 * old)

    wholes = list(correlation.adjoint(geometry, case.batch))
    err_input = correlated(device_backend, wholes, geometry.input_shape, Sparse(d), Sparse(x), weights)
    wanted = loops.conv_input_gradient(d, weights, case.size, **case.window)
    np.testing.assert_array_equal(err_input, 2 * wanted + 3 * x)


def weight_sums(backend, case, x, d, chunks):
    """The nodes of all chunks, by two launches; x has a width that is more than its channels."""
    geometry, profile = operations.conv_geometry(case), backend.driver.profile
    width = -(-geometry.group_channels // 16) * 16  # of whole vectors, as kernels of CPU shape want it
    wide = np.full((*x.shape[:3], case.groups, width), np.nan, x.dtype)
    wide[..., : geometry.group_channels] = x.reshape(*wide.shape[:4], -1)
    source, errors = Sparse(wide.reshape(*x.shape[:3], -1)), Sparse(d)
    y, across = (
        Reach(a.output, a.size, a.stride, -a.before, a.kernel, a.dilation, 0, 1)
        for a in (geometry.y, geometry.x)
    )
    place = sums.Source(source.strides, y, across, width, geometry.group_channels)
    layout = Weights.of(
        case.n_kernels, y.taps * across.taps, geometry.group_channels, case.groups, transposed=False
    )
    tile, size = sums.tile_of(profile, x.dtype, width), geometry.n_kernels * geometry.taps
    launches = [
        sums.weight_gradient(
            place,
            errors.strides,
            layout,
            geometry.group_kernels,
            case.groups,
            chunks,
            part,
            tile,
            size,
            ("source", "errors", "out"),
        )
        for part in ((0, chunks.count // 2), (chunks.count // 2, chunks.count))
        if part[0] < part[1]
    ]
    nodes = np.full(chunks.count * size + BEHIND, np.nan, x.dtype)
    nodes = run(backend, launches, source=source.memory, errors=errors.memory, out=nodes)
    assert np.isnan(nodes[-BEHIND:]).all()
    return nodes[:-BEHIND].reshape(chunks.count, *geometry.weights_shape)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_weight_gradients_touch_nothing_but_their_arrays(device_backend, case):
    x, _, _, d = case.data(np.float32)
    wanted = loops.conv_weight_gradient(x, d, case.kernel, **case.window)
    for chunks in chunkings(Leaves(case.batch, *case.output_size)):
        nodes = weight_sums(device_backend, case, x, d, chunks)
        np.testing.assert_array_equal(nodes.sum(axis=0), wanted)


LARGE = (
    ConvCase("bands", 2, (20, 27), 3, 2, (2, 1), (1, 0, 0, 0)),
    ConvCase("rows of more than a leaf", 1, (3, 300), 2, 3, (1, 2), (0, 1, 0, 0), dilation=(1, 2)),
    ConvCase("images of a leaf", 37, (4, 5), 3, 4, (2, 3), (1, 0, 1, 2), sliding=(1, 2), groups=1),
)


@pytest.mark.parametrize("case", LARGE, ids=str)
def test_every_chunk_of_leaves_is_the_sum_over_them(device_backend, case):
    """Whichever the chunks are; the judge's leaves say what they hold."""
    x, _, _, d = case.data(np.float32)
    units = order.leaves(case.batch, *case.output_size)
    for chunks in chunkings(Leaves(case.batch, *case.output_size)):
        nodes = weight_sums(device_backend, case, x, d, chunks)
        parts = [
            [leaf for unit in units[u : u + chunks.units] for leaf in unit[b : b + chunks.bands]]
            for u in range(0, len(units), chunks.units)
            for b in range(0, len(units[0]), chunks.bands)
        ]
        for node, part in zip(nodes, parts, strict=True):
            here = np.zeros_like(d)
            for images, rows in part:
                here[images.start : images.stop, rows.start : rows.stop] = d[
                    images.start : images.stop, rows.start : rows.stop
                ]
            np.testing.assert_array_equal(
                node, loops.conv_weight_gradient(x, here, case.kernel, **case.window)
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turn", range(len(EDGES)))
def test_sizes_around_the_edges_of_tiles_and_steps(device_backend, turn, dtype):
    """Terms, outputs and cells of each size in EDGES meet different sizes of the others."""
    inputs, outputs, cells = (EDGES[(turn * step) % len(EDGES)] for step in (1, 2, 4))
    case = ConvCase("edge", 1, (2, cells), inputs, outputs, (2, 1), (1, 0, 0, 0), seed=turn)
    x, weights, bias, d = case.data(dtype)
    geometry = operations.conv_geometry(case)
    y = operations.conv_forward(device_backend, x, weights, bias, geometry)
    np.testing.assert_array_equal(y, loops.conv_forward(x, weights, bias, **case.window))
    err_input, by_weights, _ = operations.conv_backward(device_backend, x, weights, d, geometry)
    np.testing.assert_array_equal(err_input, loops.conv_input_gradient(d, weights, case.size, **case.window))
    wanted = loops.conv_weight_gradient(x, d, case.kernel, **case.window)
    np.testing.assert_array_equal(by_weights, wanted)


def test_an_infinity_stays_where_windows_see_it(device_backend):
    """17 channels: the last step of a chain reaches over its end."""
    case = ConvCase("infinity", 1, (6, 7), 17, 3, (2, 3))
    x, weights, bias, d = (1 + np.abs(array) for array in case.data(np.float32))
    geometry = operations.conv_geometry(case)
    x[0, 2, 3, 16] = d[0, 3, 4, 2] = np.inf
    y = operations.conv_forward(device_backend, x, weights, bias, geometry)
    np.testing.assert_array_equal(y, loops.conv_forward(x, weights, bias, **case.window))
    gradients = operations.conv_backward(device_backend, x, weights, d, geometry)
    err_input = loops.conv_input_gradient(d, weights, case.size, **case.window)
    np.testing.assert_array_equal(gradients.err_input, err_input)
    by_weights = loops.conv_weight_gradient(x, d, case.kernel, **case.window)
    np.testing.assert_array_equal(gradients.weights, by_weights)
    for result in (y, *gradients[:2]):
        assert np.isinf(result).any()
        assert np.isfinite(result).any()
