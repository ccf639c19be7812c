"""im2col on devices: products through columns, in whatever blocks there is room for."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.backends.device import columns
from convgrad.backends.device.columns import ColumnProducts
from convgrad.backends.device.driver import SHAPES
from convgrad.backends.device.images import Device
from convgrad.backends.device.products import Weights
from convgrad.geometry import ConvGeometry
from tests import operations
from tests.backends.dry import DryDriver
from tests.cases import ConvCase, generator, integers, random_conv_cases
from tests.reference import conv as loops

CASES = list(random_conv_cases(24, seed=61))
DTYPE = np.dtype(np.float32)
WORKSPACES = (1, 3000, 1 << 26)  # single rows of columns, some rows, all of them


@pytest.fixture(params=WORKSPACES)
def small(device_backend, request):
    """A device with this workspace."""
    usual, device_backend.workspace = device_backend.workspace, request.param
    yield device_backend
    device_backend.workspace = usual


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions(small, case):
    x, weights, bias, d = case.data(DTYPE)
    geometry, by = operations.conv_geometry(case), {"algorithm": "im2col", "unpack_size": 2}
    y = operations.conv_forward(small, x, weights, bias, geometry, **by)
    np.testing.assert_array_equal(y, loops.conv_forward(x, weights, bias, **case.window))
    gradients = operations.conv_backward(small, x, weights, d, geometry, old=x, alpha=2.0, beta=3.0, **by)
    err_input = 2 * loops.conv_input_gradient(d, weights, case.size, **case.window) + 3 * x
    np.testing.assert_array_equal(gradients.err_input, err_input)
    by_weights = loops.conv_weight_gradient(x, d, case.kernel, **case.window)
    np.testing.assert_array_equal(gradients.weights, by_weights)


@pytest.mark.parametrize("case", CASES[:12], ids=str)
def test_transposed_convolutions(small, case):
    image, weights, _, x = case.data(DTYPE)
    geometry, by = operations.conv_geometry(case), {"algorithm": "im2col", "activation": "strict_relu"}
    bias = integers(generator(case.seed), (case.channels,), DTYPE)
    y = operations.deconv_forward(small, x, weights, bias, geometry, **by)
    sums = loops.conv_input_gradient(x, weights, case.size, **case.window) + bias
    np.testing.assert_array_equal(y, np.maximum(sums, 0))
    gradients = operations.deconv_backward(small, x, weights, image, geometry, output=y, **by)
    d = np.where(y > 0, image, 0)
    np.testing.assert_array_equal(gradients.err_input, loops.conv_forward(d, weights, **case.window))
    by_weights = loops.conv_weight_gradient(d, x, case.kernel, **case.window)
    np.testing.assert_array_equal(gradients.weights, by_weights)


def test_a_cell_that_no_window_holds_is_zero(small):
    """Dilated taps step over it; it is not left as it was."""
    geometry = ConvGeometry(1, 6, 1, 1, 2, 1, dilation=(4, 1))  # outputs 0 and 1 hold cells 0, 4 and 1, 5
    d, weights = np.full((1, 1, 2, 1), -2.0, DTYPE), np.full((1, 1, 2, 1), 3.0, DTYPE)
    x = np.zeros((1, 1, 6, 1), DTYPE)
    gradients = operations.conv_backward(small, x, weights, d, geometry, algorithm="im2col")
    assert gradients.err_input.ravel().tolist() == [-6, -6, 0, 0, -6, -6]
    assert not np.signbit(gradients.err_input[0, 0, 2:4]).any()


def products_of(case, *, straight, room, shape="gpu", unpack_size=None):
    geometry = operations.conv_geometry(case)
    layout = Weights.of(case.n_kernels, 1, geometry.taps, case.groups, transposed=False)
    device = Device(DryDriver(shape).profile, DTYPE)
    return ColumnProducts(device, geometry, layout, straight, case.batch, room, unpack_size)


def touched(geometry, cell_row):
    """Rows of windows that have a tap in this row of cells."""
    return {
        o
        for tap in range(geometry.ky)
        for o in range(geometry.y.output)
        if o * geometry.y.stride - geometry.y.before + tap * geometry.y.dilation == cell_row
    }


@pytest.mark.parametrize("room", [1, 100, 700, 5000, 1 << 20])
@pytest.mark.parametrize("straight", [True, False])
def test_blocks_hold_every_row_once_and_all_windows_over_it(straight, room):
    for case in CASES:
        through = products_of(case, straight=straight, room=room, unpack_size=2)
        geometry, seen = through.geometry, []
        for block in through.blocks(range(case.batch)):
            assert len(block.images) <= 2
            assert block.windows.stop <= geometry.y.output
            seen += [(image, row) for image in block.images for row in block.rows]
            for row in block.rows:
                assert ({row} if straight else touched(geometry, row)) <= set(block.windows)
        height = geometry.y.output if straight else geometry.height
        assert seen == [(image, row) for image in range(case.batch) for row in range(height)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("straight", [True, False])
def test_columns_take_no_more_than_their_room(straight, shape):
    case = ConvCase("layer", 7, (30, 20), 8, 5, (3, 4), (1, 2, 0, 1), (2, 1), (1, 2))
    rows, row_columns = case.output_size
    row_bytes = row_columns * 3 * 4 * 8 * 4
    for room in (9 * row_bytes, 20 * row_bytes, rows * row_bytes, 5 * rows * row_bytes + 1):
        through = products_of(case, straight=straight, room=room, shape=shape)
        taken = dict(through.scratch())[columns.COLUMNS]
        assert room / 2 < taken <= room
    least = products_of(case, straight=straight, room=1, shape=shape).scratch()
    assert dict(least)[columns.COLUMNS] == row_bytes * (1 if straight else 7)  # 7 rows from first to last tap
