"""Convolution and its gradients: exact on integers against the oracle, known answers, and invariances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import convolve2d, correlate2d

from convgrad import functional
from convgrad.backends.numpy import NumpyBackend
from convgrad.errors import BadFormatError
from convgrad.interfaces import ACTIVATIONS
from convgrad.testing import assert_close, check_vjp
from tests import operations
from tests.cases import ConvCase, random_conv_cases
from tests.golden import reports_conv, veles_conv
from tests.golden.reports_conv import ERR_INPUT_ONTO_X, ONTO_PRIOR
from tests.golden.shapes import NOTORIOUS, REACHABLE
from tests.reference import conv as oracle

DTYPES = (np.float32, np.float64)
SUBSETS = [
    need
    for n in range(1, 8)
    if (need := tuple(name for bit, name in enumerate(("err_input", "weights", "bias")) if n >> bit & 1))
]
# Several images, groups, steps and dilation with a common factor, four paddings.
LAYER = ConvCase("layer", 5, (9, 11), 4, 6, (3, 2), (1, 2, 0, 3), (2, 4), (2, 2), 2, seed=3)
# Stride 1: other ways lead to its gradients.
SMOOTH = ConvCase("smooth", 5, (7, 8), 4, 6, (3, 2), (1, 2, 0, 3), groups=2, seed=4)
LAYERS = (LAYER, SMOOTH, ConvCase("dense", 6, (1, 1), 30, 7, (1, 1), seed=5))


def expected(case):
    """y and the three gradients of a case, by the oracle."""
    x, weights, bias, err_output = case.data()
    return (
        oracle.conv_forward(x, weights, bias, **case.window),
        oracle.conv_input_gradient(err_output, weights, case.size, **case.window),
        oracle.conv_weight_gradient(x, err_output, case.kernel, **case.window),
        oracle.bias_gradient(err_output),
    )


def check_case(backend, case):
    """All operations of a case, on buffers that hold NaN, in both precisions: equal to the oracle."""
    y, *gradients = expected(case)
    geometry = operations.conv_geometry(case)
    for dtype in DTYPES:
        x, weights, bias, err_output = case.data(dtype)
        np.testing.assert_array_equal(operations.conv_forward(backend, x, weights, bias, geometry), y)
        found = operations.conv_backward(backend, x, weights, err_output, geometry)
        for array, known in zip(found, gradients, strict=True):
            assert array.dtype == dtype
            np.testing.assert_array_equal(array, known)


@pytest.mark.parametrize("case", [*NOTORIOUS, *LAYERS, *random_conv_cases(96, seed=1)], ids=str)
def test_equal_to_the_loops_of_the_definition(backend, case):
    check_case(backend, case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_equal_to_the_loops_over_many_geometries(backend, seed):
    for case in random_conv_cases(96, seed=seed):
        check_case(backend, case)


@pytest.mark.parametrize("case", [*LAYERS, *random_conv_cases(24, seed=2)], ids=str)
def test_functions_give_what_the_operations_give(backend, case):
    x, weights, bias, err_output = case.data(np.float32)
    keywords = {**case.window, "backend": backend}
    y, *gradients = expected(case)
    np.testing.assert_array_equal(functional.conv_forward(x, weights, bias, **keywords), y)
    np.testing.assert_array_equal(functional.conv_forward(x, weights, **keywords), y - bias)
    found = [
        functional.conv_input_gradient(err_output, weights, case.size, **keywords),
        functional.conv_weight_gradient(x, err_output, case.kernel, **keywords),
        functional.bias_gradient(err_output, backend=backend),
    ]
    for array, known in zip(found, gradients, strict=True):
        assert (array.dtype, array.flags.c_contiguous) == (np.float32, True)
        np.testing.assert_array_equal(array, known)


def goldens():
    """All known answers; one is out of reach, as fast numerics multiply the padding by the weights."""
    beyond_fast = pytest.mark.xfail(
        raises=AssertionError, reason="0 * inf is NaN; numerics fixed will skip it"
    )
    for golden in (*veles_conv.CONVS, *reports_conv.CONVS):
        marks = [beyond_fast] if golden is reports_conv.INF_IN_PADDING else []
        yield pytest.param(golden, marks=marks, id=str(golden))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("golden", [*goldens()])
def test_known_answers(backend, golden, dtype):
    golden = golden.cast(dtype)
    keywords = {**golden.window, "activation": golden.activation, "backend": backend}
    if golden.output is not None and golden.output_given is None:
        y = functional.conv_forward(golden.x, golden.weights, golden.bias, **keywords)
        assert_close(y, golden.output, rtol=0, atol=golden.allowed(dtype, forward=True))
    found = functional.conv_backward(
        golden.x, golden.weights, golden.err_output, output=golden.output_for_factor, **keywords
    )
    known = golden.err_input, golden.gradient_weights, golden.gradient_bias
    for array, answer in zip(found, known, strict=True):
        if answer is not None:
            assert_close(array, answer, rtol=0, atol=golden.allowed(dtype))


@pytest.mark.parametrize("case", [*random_conv_cases(48, seed=3)], ids=str)
def test_the_gradients_are_adjoint(backend, case):
    """<conv(x), d> = <x, err_input> = <weights, gradient>, exactly on integers."""
    x, weights, _, d = case.data()
    y = functional.conv_forward(x, weights, **case.window, backend=backend)
    gradients = functional.conv_backward(x, weights, d, **case.window, backend=backend)
    product = (y * d).sum()
    assert product == (x * gradients.err_input).sum() == (weights * gradients.weights).sum()


@pytest.mark.parametrize("need", SUBSETS, ids="-".join)
@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_what_else_is_wanted_changes_no_bit(backend, case, need, activation, rng):
    x, weights, _, d = (rng.standard_normal(shape).astype(np.float32) for shape in case.shapes)
    output = functional.conv_forward(x, weights, activation=activation, **case.window, backend=backend)
    keywords = {**case.window, "activation": activation, "output": output, "backend": backend}
    full = functional.conv_backward(x, weights, d, **keywords)
    part = functional.conv_backward(x, weights, d, need=need, **keywords)
    for name, array in part._asdict().items():
        if name in need:
            assert array.tobytes() == getattr(full, name).tobytes()
        else:
            assert array is None
    single = {
        "err_input": lambda: functional.conv_input_gradient(d, weights, case.size, **keywords),
        "weights": lambda: functional.conv_weight_gradient(x, d, case.kernel, **keywords),
    }
    for name in set(need) & set(single):
        assert single[name]().tobytes() == getattr(full, name).tobytes()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_empty_batch_has_zero_gradients(backend, activation):
    x, weights, d = np.empty((0, 5, 6, 8)), np.ones((3, 6, 5, 8)), np.empty((0, 2, 2, 3))
    keywords = {"padding": (0, 1, 0, 1), "activation": activation, "backend": backend}
    assert functional.conv_forward(x, weights, np.ones(3), **keywords).shape == (0, 2, 2, 3)
    gradients = functional.conv_backward(x, weights, d, output=d, **keywords)
    assert [array.shape for array in gradients] == [(0, 5, 6, 8), (3, 6, 5, 8), (3,)]
    for zeros in (*gradients[1:], functional.bias_gradient(d, backend=backend)):
        assert zeros.tobytes() == bytes(zeros.nbytes)
    assert functional.conv_weight_gradient(x, d, (5, 6), output=d, **keywords).tobytes() == bytes(3 * 240 * 8)


def backends_of_all_sizes():
    for threads in (1, 2, 3):
        for workspace in (1, 3000, 40_000, 64 << 20):
            backend = NumpyBackend(threads=threads)
            backend.workspace = workspace
            yield backend


@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize("unpack_size", [None, 1, 2, 3, 5, 7])
def test_blocks_and_threads_change_nothing(case, unpack_size, monkeypatch):
    """Of NumPy; for devices see tests/backends/test_device_limits.py."""
    from convgrad.backends.numpy import blocks

    monkeypatch.setattr(blocks, "LEAST_WORK", 0)  # so that small layers are spread, too
    x, weights, bias, d = case.data(np.float32)
    geometry, (y, *gradients) = operations.conv_geometry(case), expected(case)
    for backend in backends_of_all_sizes():
        keywords = {"unpack_size": unpack_size}
        np.testing.assert_array_equal(
            operations.conv_forward(backend, x, weights, bias, geometry, **keywords), y
        )
        found = operations.conv_backward(backend, x, weights, d, geometry, **keywords)
        for array, known in zip(found, gradients, strict=True):
            np.testing.assert_array_equal(array, known)


@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_rows_past_the_batch_are_not_read_and_become_zero(backend, case, count):
    """Their x, err_output and output hold NaN."""
    x, weights, bias, d = case.data(np.float32)
    geometry = operations.conv_geometry(case)
    x[count:], d[count:] = np.nan, np.nan
    y = operations.conv_forward(backend, x, weights, bias, geometry, batch=count)
    full = operations.conv_forward(backend, x[:count], weights, bias, geometry)
    np.testing.assert_array_equal(y[:count], full)
    assert y[count:].tobytes() == bytes(y[count:].nbytes)
    whole = operations.conv_backward(backend, x, weights, d, geometry, batch=count)
    part = operations.conv_backward(backend, x[:count], weights, d[:count], geometry)
    np.testing.assert_array_equal(whole.err_input[:count], part.err_input)
    assert whole.err_input[count:].tobytes() == bytes(whole.err_input[count:].nbytes)
    np.testing.assert_array_equal(whole.weights, part.weights)
    np.testing.assert_array_equal(whole.bias, part.bias)


@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize("unpack_size", [1, 2, None])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0.5, 0), (2, 0.5), (0, 1), (1, -1)])
def test_err_input_onto_what_was_there(backend, case, alpha, beta, unpack_size):
    x, weights, _, d = case.data(np.float32)
    old = case.data(np.float32).x[::-1] if beta else np.full_like(x, np.nan)  # not read when beta is 0
    keywords = {"alpha": alpha, "beta": beta, "unpack_size": unpack_size, "old": old}
    found = operations.conv_backward(backend, x, weights, d, operations.conv_geometry(case), **keywords)
    _, new, gradient, bias = expected(case)
    np.testing.assert_array_equal(found.err_input, alpha * new + (beta * old if beta else 0))
    np.testing.assert_array_equal(found.weights, gradient)
    np.testing.assert_array_equal(found.bias, bias)


def test_onto_a_prior_of_x(backend):
    golden = ONTO_PRIOR.cast(np.float32)
    geometry = operations.ConvGeometry(1, 2, 1, 1, 2, 1)
    arrays = golden.x, golden.weights, golden.err_output
    found = operations.conv_backward(backend, *arrays, geometry, old=golden.x, beta=1)
    np.testing.assert_array_equal(found.err_input, ERR_INPUT_ONTO_X)


@pytest.mark.parametrize("case", LAYERS, ids=str)
def test_transposed_weights_are_a_true_transpose(backend, case):
    x, weights, bias, d = case.data(np.float32)
    geometry, (y, *gradients) = operations.conv_geometry(case), expected(case)
    stored = np.ascontiguousarray(weights.reshape(len(weights), -1).T)
    keywords = {"weights_transposed": True}
    np.testing.assert_array_equal(operations.conv_forward(backend, x, stored, bias, geometry, **keywords), y)
    found = operations.conv_backward(backend, x, stored, d, geometry, **keywords)
    np.testing.assert_array_equal(found.weights, gradients[1].reshape(len(weights), -1).T)
    np.testing.assert_array_equal(found.err_input, gradients[0])


@pytest.mark.parametrize("case", LAYERS, ids=str)
def test_shuffled_samples_shuffle_err_input_only(backend, case):
    x, weights, _, d = case.data(np.float32)
    order = np.random.default_rng(0).permutation(len(x))
    _, err_input, *sums = expected(case)
    found = functional.conv_backward(x[order], weights, d[order], **case.window, backend=backend)
    np.testing.assert_array_equal(found.err_input, err_input[order])
    for array, known in zip(found[1:], sums, strict=True):
        np.testing.assert_array_equal(array, known)


def test_groups_are_convolutions_side_by_side(backend):
    x, weights, bias, d = LAYER.data(np.float32)
    window = {**LAYER.window, "groups": 1, "backend": backend}
    parts = [(slice(0, 2), slice(0, 3)), (slice(2, 4), slice(3, 6))]
    found = functional.conv_backward(x, weights, d, **LAYER.window, backend=backend)
    y = functional.conv_forward(x, weights, bias, **LAYER.window, backend=backend)
    for c, k in parts:
        alone = functional.conv_backward(x[..., c], weights[k], d[..., k], **window)
        np.testing.assert_array_equal(found.err_input[..., c], alone.err_input)
        np.testing.assert_array_equal(found.weights[k], alone.weights)
        np.testing.assert_array_equal(
            y[..., k], functional.conv_forward(x[..., c], weights[k], bias[k], **window)
        )


@pytest.mark.parametrize("reach", REACHABLE, ids=str)
def test_every_input_size_of_one_err_output(backend, reach):
    """Cells that all sizes share are equal; those that no window covers are +0.0; other sizes are refused."""
    rng = np.random.default_rng(1)
    d = rng.integers(-3, 4, (2, reach.rows, 4, 3)).astype(np.float32)
    weights = rng.integers(-3, 4, (3, reach.kernel, 2, 2)).astype(np.float32)
    window = {"sliding": (1, reach.sliding), "dilation": (1, reach.dilation)}
    window = {**window, "padding": (0, reach.top, 0, reach.bottom), "backend": backend}
    least = functional.conv_input_gradient(d, weights, (reach.heights.start, 5), **window)
    for height in reach.heights:
        err_input = functional.conv_input_gradient(d, weights, (height, 5), **window)
        common = err_input[:, : reach.heights.start]
        covered = reach.heights.start - reach.bottom  # what is padding at the least size may be cells here
        assert common[:, :covered].tobytes() == least[:, :covered].tobytes()
        known = oracle.conv_input_gradient(d, weights, (height, 5), **without_backend(window))
        np.testing.assert_array_equal(err_input, known)
        rows = (reach.rows - 1) * reach.sliding + (reach.kernel - 1) * reach.dilation + 1 - reach.top
        assert err_input[:, rows:].tobytes() == bytes(err_input[:, rows:].nbytes)
    for height in (reach.heights.start - 1, reach.heights.stop):
        with pytest.raises(BadFormatError, match=rf"input_size \({height}, 5\) must lead to the size"):
            functional.conv_input_gradient(d, weights, (height, 5), **window)


def without_backend(keywords):
    return {name: value for name, value in keywords.items() if name != "backend"}


def test_a_long_row(backend):
    """More positions than 16 bits count."""
    x = np.random.default_rng(2).integers(-3, 4, (1, 1, 70_000, 1)).astype(np.float32)
    weights = np.array([1, 10, 100], np.float32).reshape(1, 1, 3, 1)
    y = functional.conv_forward(x, weights, backend=backend)
    row = x[0, 0, :, 0]
    np.testing.assert_array_equal(y[0, 0, :, 0], row[:-2] + 10 * row[1:-1] + 100 * row[2:])
    gradients = functional.conv_backward(x, weights, y, backend=backend)
    known = np.convolve(y[0, 0, :, 0].astype(np.float64), [1, 10, 100])
    np.testing.assert_array_equal(gradients.err_input[0, 0, :, 0], known)


@pytest.mark.parametrize("shape", [(1, 7, 1, 9, 5), (2, 6, 3, 8, 4)])
def test_scipy_agrees(backend, shape, rng):
    """SciPy's correlate2d is the forward pass, its full convolve2d the input gradient."""
    n, height, channels, width, kernels = shape
    x = rng.standard_normal((n, height, width, channels))
    weights, d = (
        rng.standard_normal((kernels, 3, 2, channels)),
        rng.standard_normal((n, height - 2, width - 1, kernels)),
    )
    y = functional.conv_forward(x, weights, backend=backend)
    gradients = functional.conv_backward(x, weights, d, backend=backend)
    for i, k in np.ndindex(n, kernels):
        planes = (correlate2d(x[i, ..., c], weights[k, ..., c], "valid") for c in range(channels))
        assert_close(y[i, ..., k], sum(planes), length=18)
    for i, c in np.ndindex(n, channels):
        planes = (convolve2d(d[i, ..., k], weights[k, ..., c], "full") for k in range(kernels))
        assert_close(gradients.err_input[i, ..., c], sum(planes), length=30)
    for k, c in np.ndindex(kernels, channels):
        planes = (correlate2d(x[i, ..., c], d[i, ..., k], "valid") for i in range(n))
        assert_close(gradients.weights[k, ..., c], sum(planes), length=100)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("full", [False, True], ids=["direction", "every element"])
def test_gradients_agree_with_differences(backend, activation, full, rng):
    case = ConvCase("small", 2, (4, 5), 2, 4, (2, 3), (1, 0, 2, 1), (2, 1), (1, 2), 2)
    x, weights, bias, d = (rng.standard_normal(shape) for shape in case.shapes)
    keywords = {**case.window, "activation": activation, "backend": backend}

    def forward(*arrays):
        return functional.conv_forward(*arrays, **keywords)

    gradients = functional.conv_backward(x, weights, d, output=forward(x, weights, bias), **keywords)
    check_vjp(forward, (x, weights, bias), d, gradients, full=full)


def test_float32_is_as_close_as_its_dtype_allows(backend, rng):
    """Sums of 3 * 3 * 64 products against float64; NaN and wrong taps would show."""
    x, weights = rng.standard_normal((2, 12, 13, 64)), rng.standard_normal((32, 3, 3, 64))
    d = rng.standard_normal((2, 10, 11, 32))
    exact = functional.conv_backward(x, weights, d, backend=backend)
    single = functional.conv_backward(*(a.astype(np.float32) for a in (x, weights, d)), backend=backend)
    for array, known, length in zip(single, exact, (9 * 32, 2 * 110, 2 * 110), strict=True):
        assert array.dtype == np.float32
        assert_close(array, known, length=length, rtol=2e-5)


def test_the_same_bits_in_every_run(backend, rng):
    d = rng.standard_normal((1024, 1, 1, 50)).astype(np.float32)
    assert len({functional.bias_gradient(d, backend=backend).tobytes() for _ in range(100)}) == 1
    x, weights = rng.standard_normal((8, 20, 20, 16)), rng.standard_normal((24, 3, 3, 16))
    y = functional.conv_forward(x, weights, backend=backend)
    runs = {
        b"".join(a.tobytes() for a in functional.conv_backward(x, weights, y, backend=backend))
        for _ in range(10)
    }
    assert len(runs) == 1
