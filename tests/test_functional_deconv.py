"""The transposed convolution: the adjoint of the convolution, and on integers equal to the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad import functional
from convgrad.backends.numpy import NumpyBackend
from convgrad.errors import BadFormatError
from convgrad.interfaces import ACTIVATIONS
from convgrad.testing import assert_close, check_vjp
from tests import operations
from tests.cases import ConvCase, random_conv_cases
from tests.golden.shapes import NOTORIOUS, REACHABLE
from tests.reference import conv as oracle

DTYPES = (np.float32, np.float64)
LAYER = ConvCase("layer", 5, (9, 11), 4, 6, (3, 2), (1, 2, 0, 3), (2, 4), (2, 2), 2, seed=3)
SMOOTH = ConvCase("smooth", 5, (7, 8), 4, 6, (3, 2), (1, 2, 0, 3), groups=2, seed=4)
LAYERS = (LAYER, SMOOTH)


def arrays(case, dtype=np.float64):
    """x (N, h, w, n_kernels), weights, bias (C,) and err_output (N, H, W, C) of the case's adjoint."""
    err_output, weights, _, x = case.data(dtype)
    return x, weights, np.arange(1, case.channels + 1).astype(dtype), err_output


def expected(case):
    x, weights, bias, err_output = arrays(case)
    y = oracle.deconv_forward(x, weights, bias, case.size, **case.window)
    return y, *oracle.deconv_backward(x, weights, err_output, **case.window)


def check_case(backend, case):
    y, *gradients = expected(case)
    geometry = operations.conv_geometry(case)
    for dtype in DTYPES:
        x, weights, bias, err_output = arrays(case, dtype)
        np.testing.assert_array_equal(operations.deconv_forward(backend, x, weights, bias, geometry), y)
        found = operations.deconv_backward(backend, x, weights, err_output, geometry)
        for array, known in zip(found, gradients, strict=True):
            np.testing.assert_array_equal(array, known)


@pytest.mark.parametrize("case", [*NOTORIOUS, *LAYERS, *random_conv_cases(96, seed=5)], ids=str)
def test_equal_to_stamping_kernels(backend, case):
    check_case(backend, case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 210))
def test_equal_to_stamping_kernels_over_many_geometries(backend, seed):
    for case in random_conv_cases(96, seed=seed):
        check_case(backend, case)


@pytest.mark.parametrize("case", [*LAYERS, *random_conv_cases(48, seed=6)], ids=str)
def test_the_three_identities_of_the_adjoint(backend, case):
    """Forward is the convolution's input gradient, the input gradient its forward, and the weights' gradient
    is the convolution's with x and err_output in each other's place.
    """
    x, weights, _, err_output = arrays(case, np.float32)
    keywords = {**case.window, "backend": backend}
    y = functional.deconv_forward(x, weights, output_size=case.size, **keywords)
    np.testing.assert_array_equal(y, functional.conv_input_gradient(x, weights, case.size, **keywords))
    gradients = functional.deconv_backward(x, weights, err_output, **keywords)
    np.testing.assert_array_equal(
        gradients.err_input, functional.conv_forward(err_output, weights, **keywords)
    )
    weight_gradient = functional.conv_weight_gradient(err_output, x, case.kernel, **keywords)
    np.testing.assert_array_equal(gradients.weights, weight_gradient)
    np.testing.assert_array_equal(gradients.bias, functional.bias_gradient(err_output, backend=backend))


@pytest.mark.parametrize("reach", REACHABLE, ids=str)
def test_every_output_size(backend, reach):
    rng = np.random.default_rng(1)
    x = rng.integers(-3, 4, (2, reach.rows, 4, 3)).astype(np.float32)
    weights = rng.integers(-3, 4, (3, reach.kernel, 2, 2)).astype(np.float32)
    window = {"sliding": (1, reach.sliding), "dilation": (1, reach.dilation)}
    window["padding"] = (0, reach.top, 0, reach.bottom)
    smallest = functional.deconv_forward(x, weights, backend=backend, **window)
    assert smallest.shape == (2, reach.heights.start, 5, 2)
    for height in reach.heights:
        y = functional.deconv_forward(x, weights, output_size=(height, 5), backend=backend, **window)
        np.testing.assert_array_equal(y, oracle.deconv_forward(x, weights, None, (height, 5), **window))
        gradients = functional.deconv_backward(x, weights, y, backend=backend, **window)
        for array, known in zip(gradients, oracle.deconv_backward(x, weights, y, **window), strict=True):
            np.testing.assert_array_equal(array, known)
    for height in (reach.heights.start - 1, reach.heights.stop):
        with pytest.raises(
            BadFormatError, match=rf"output_size \({height}, 5\) must lead back to the size of x"
        ):
            functional.deconv_forward(x, weights, output_size=(height, 5), backend=backend, **window)


@pytest.mark.parametrize(
    "need", [("err_input",), ("weights",), ("bias",), ("bias", "err_input")], ids="-".join
)
@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize("activation", ["linear", "sigmoid"])
def test_what_else_is_wanted_changes_no_bit(backend, case, need, activation, rng):
    err_output, weights, _, x = (rng.standard_normal(shape).astype(np.float32) for shape in case.shapes)
    keywords = {**case.window, "activation": activation, "backend": backend}
    output = functional.deconv_forward(x, weights, output_size=case.size, **keywords)
    full = functional.deconv_backward(x, weights, err_output, output=output, **keywords)
    part = functional.deconv_backward(x, weights, err_output, output=output, need=need, **keywords)
    for name, array in part._asdict().items():
        assert (array is not None) == (name in need)
        assert array is None or array.tobytes() == getattr(full, name).tobytes()


@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize("count", [0, 2, 5])
def test_rows_past_the_batch_are_not_read_and_become_zero(backend, case, count):
    x, weights, bias, d = arrays(case, np.float32)
    x[count:], d[count:] = np.nan, np.nan
    geometry = operations.conv_geometry(case)
    y = operations.deconv_forward(backend, x, weights, bias, geometry, batch=count)
    part = operations.deconv_forward(backend, x[:count], weights, bias, geometry)
    np.testing.assert_array_equal(y[:count], part)
    assert y[count:].tobytes() == bytes(y[count:].nbytes)
    found = operations.deconv_backward(backend, x, weights, d, geometry, batch=count)
    known = operations.deconv_backward(backend, x[:count], weights, d[:count], geometry)
    np.testing.assert_array_equal(found.err_input[:count], known.err_input)
    assert found.err_input[count:].tobytes() == bytes(found.err_input[count:].nbytes)
    np.testing.assert_array_equal(found.weights, known.weights)
    np.testing.assert_array_equal(found.bias, known.bias)


@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0.5, 0), (2, 0.5)])
def test_err_input_onto_what_was_there(backend, case, alpha, beta):
    x, weights, _, d = arrays(case, np.float32)
    old = x[::-1] if beta else np.full_like(x, np.nan)
    keywords = {"alpha": alpha, "beta": beta, "old": old}
    found = operations.deconv_backward(backend, x, weights, d, operations.conv_geometry(case), **keywords)
    _, new, gradient, _ = expected(case)
    np.testing.assert_array_equal(found.err_input, alpha * new + (beta * old if beta else 0))
    np.testing.assert_array_equal(found.weights, gradient)


@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize("unpack_size", [None, 1, 2, 7])
def test_blocks_and_threads_change_nothing(case, unpack_size, monkeypatch):
    """Of NumPy; for devices see tests/backends/test_device_limits.py."""
    from convgrad.backends.numpy import blocks

    monkeypatch.setattr(blocks, "LEAST_WORK", 0)  # so that small layers are spread, too
    x, weights, bias, d = arrays(case, np.float32)
    geometry, (y, *gradients) = operations.conv_geometry(case), expected(case)
    for threads, workspace in ((1, 1), (2, 3000), (3, 40_000), (2, 64 << 20)):
        backend = NumpyBackend(threads=threads)
        backend.workspace = workspace
        keywords = {"unpack_size": unpack_size}
        found_y = operations.deconv_forward(backend, x, weights, bias, geometry, **keywords)
        np.testing.assert_array_equal(found_y, y)
        found = operations.deconv_backward(backend, x, weights, d, geometry, **keywords)
        for array, known in zip(found, gradients, strict=True):
            np.testing.assert_array_equal(array, known)


def test_transposed_weights_are_a_true_transpose(backend):
    x, weights, bias, d = arrays(LAYER, np.float32)
    geometry, (y, *gradients) = operations.conv_geometry(LAYER), expected(LAYER)
    stored = np.ascontiguousarray(weights.reshape(len(weights), -1).T)
    keywords = {"weights_transposed": True}
    np.testing.assert_array_equal(
        operations.deconv_forward(backend, x, stored, bias, geometry, **keywords), y
    )
    found = operations.deconv_backward(backend, x, stored, d, geometry, **keywords)
    np.testing.assert_array_equal(found.err_input, gradients[0])
    np.testing.assert_array_equal(found.weights, gradients[1].reshape(len(weights), -1).T)


def test_an_empty_batch(backend):
    x, weights = np.empty((0, 3, 4, 6)), np.ones((6, 2, 3, 2))
    y = functional.deconv_forward(x, weights, np.ones(2), sliding=(2, 1), backend=backend)
    assert y.shape == (0, 4, 9, 2)
    gradients = functional.deconv_backward(x, weights, y, sliding=(2, 1), backend=backend)
    assert gradients.err_input.shape == (0, 3, 4, 6)
    assert gradients.weights.tobytes() == bytes(weights.nbytes)
    assert gradients.bias.tobytes() == bytes(16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ones_that_overlap(backend, dtype):
    """A 3x3 kernel of ones over 4x4 ones: each of the 2x2 inner cells of a cropped output lies under nine."""
    x, weights = np.ones((1, 4, 4, 1), dtype), np.ones((1, 3, 3, 1), dtype)
    y = functional.deconv_forward(x, weights, padding=(2, 2, 2, 2), backend=backend)
    np.testing.assert_array_equal(y, np.full((1, 2, 2, 1), 9))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("full", [False, True], ids=["direction", "every element"])
def test_gradients_agree_with_differences(backend, activation, full, rng):
    case = ConvCase("small", 2, (5, 4), 4, 2, (2, 3), (1, 0, 0, 1), (2, 1), (1, 2), 2)
    err_output, weights, _, x = (rng.standard_normal(shape) for shape in case.shapes)
    bias = rng.standard_normal(4)
    keywords = {**case.window, "activation": activation, "backend": backend}

    def forward(*arrays):
        return functional.deconv_forward(*arrays, output_size=case.size, **keywords)

    output = forward(x, weights, bias)
    gradients = functional.deconv_backward(x, weights, err_output, output=output, **keywords)
    check_vjp(forward, (x, weights, bias), err_output, gradients, full=full)


def test_activations_come_after_the_bias(backend, rng):
    x, weights, bias, _ = arrays(SMOOTH)
    keywords = {**SMOOTH.window, "output_size": SMOOTH.size, "backend": backend}
    s = functional.deconv_forward(x * 0.05, weights, bias, **keywords)
    y = functional.deconv_forward(x * 0.05, weights, bias, activation="tanh", **keywords)
    assert_close(y, 1.7159 * np.tanh(0.6666 * s), rtol=1e-12)
