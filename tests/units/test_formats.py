"""Shapes and dtypes: what fits, and what is said of what does not."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.memory import Array
from convgrad.units.conv import Conv, GDTanhConv, GradientDescentConv
from convgrad.units.dense import All2All, GradientDescent
from tests.units.twins import DTYPES, conv_twins, dense_twins, host, nan, ran, ready

KEYWORDS = {"n_kernels": 2, "kx": 3, "ky": 2}


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("input", np.ones((1, 3)), r"input must have shape \(N, H, W, C\) or \(N, H, W\)"),
        ("input", np.ones((1, 3, 4, 1), np.int32), "input must be float32 or float64.*int32"),
        ("input", np.ones((1, 3, 4, 1), ">f8"), "input must be .*native"),
        ("input", np.ones((1, 3, 4, 1), np.float32), "weights must have the dtype of input, float32"),
        ("input", np.ones((1, 3, 4, 2)), r"weights must have shape \(n_kernels, ky \* kx \* C\) = \(2, 12\)"),
        ("input", np.ones((1, 1, 4, 1)), "kernel must fit"),
        ("weights", np.ones((2, 2, 3, 1)), r"weights must have shape .* got \(2, 2, 3, 1\)"),
        ("weights", np.ones((6, 2)), r"\(2, 6\), got \(6, 2\)"),
        ("weights", np.ones((2, 6)).T.copy().T.astype(np.float32), "weights must have the dtype of input"),
        ("bias", np.ones(3), r"bias must have shape \(n_kernels,\) = \(2\), got \(3,\)"),
        ("kx", 2.5, "kx must be an integer"),
        ("kx", None, "kx must be an integer, got None"),
        ("n_kernels", None, "n_kernels must be an integer, got None"),
        ("kx", 0, "kx must be at least 1"),
        ("padding", (1, 2), "padding must be 4 integers"),
        ("sliding", (0, 1), "sliding x must be at least 1"),
        ("output", np.ones((1, 2, 2, 2))[..., ::-1], "output must be C-contiguous and writable"),
    ],
)
def test_what_does_not_fit_is_refused(attribute, value, message):
    conv = Conv(**KEYWORDS)
    conv.input, conv.weights, conv.bias = np.ones((1, 3, 4, 1)), np.ones((2, 6)), np.ones(2)
    setattr(conv, attribute, value)
    with pytest.raises(BadFormatError, match=f"Conv: .*{message}"):
        conv.initialize("numpy")


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("err_output", np.ones((1, 2, 3, 2)), r"err_output must have shape \(1, 2, 2, 2\)"),
        ("err_output", np.ones((2, 2, 2, 2)), r"err_output must have shape \(1, 2, 2, 2\)"),
        ("err_output", np.ones((1, 2, 2, 2), np.float32), "err_output must have the dtype of input"),
        ("output", np.ones((1, 2, 2)), r"output must have shape \(1, 2, 2, 2\) or \(1, 4, 2\)"),
        ("weights", np.broadcast_to(np.ones(6), (2, 6)), "weights must be writable"),
        ("gradient_weights_with_moment", np.ones((2, 5)), r"must be float64 \(2, 6\), got float64 \(2, 5\)"),
        ("gradient_weights_with_moment", np.broadcast_to(np.ones(6), (2, 6)), "with_moment must be writable"),
    ],
)
def test_what_does_not_fit_backwards_is_refused(attribute, value, message):
    gd = GDTanhConv(**KEYWORDS, gradient_moment=0.5)
    gd.input, gd.weights, gd.bias = np.ones((1, 3, 4, 1)), np.ones((2, 6)), np.ones(2)
    gd.output = gd.err_output = np.ones((1, 2, 2, 2))
    setattr(gd, attribute, value)
    with pytest.raises(BadFormatError, match=f"GDTanhConv: .*{message}"):
        gd.initialize("numpy")


def test_a_restored_velocity_is_checked_also_without_momentum(backend):
    gd = GradientDescentConv(**KEYWORDS, include_bias=False)
    gd.input, gd.weights, gd.err_output = np.ones((1, 3, 4, 1)), np.ones((2, 6)), np.ones((1, 2, 2, 2))
    gd.gradient_weights_with_moment = np.ones((2, 5))
    with pytest.raises(BadFormatError, match=r"with_moment must be float64 \(2, 6\)"):
        gd.initialize(backend)


def test_strided_weights_are_stepped_in_place(backend, rng):
    x, errors, memory = rng.standard_normal((3, 4)), rng.standard_normal((3, 2)), rng.standard_normal((8, 4))
    expected, strided = np.ascontiguousarray(memory[::4, ::-1]), memory[::4, ::-1]
    for weights in (expected, strided):
        gd = GradientDescent(include_bias=False, gradient_moment=0.5)
        ran(gd, backend, input=x, weights=weights, err_output=errors)
        gd.weights.map_read()
    np.testing.assert_allclose(strided, expected, rtol=1e-12)


def test_another_shape_wants_initialize_again(backend, rng):
    conv, gd = conv_twins(backend, rng.standard_normal((2, 4, 5, 1)), rng.standard_normal((2, 2, 3, 1)))
    ran(gd, backend, err_output=rng.standard_normal((2, 3, 3, 2)))
    conv.input = rng.standard_normal((3, 4, 5, 1))
    for unit in (conv, gd):
        with pytest.raises(
            BadFormatError, match=rf"{unit.name}: input was .*\(2, 4, 5, 1\).*call initialize again"
        ):
            unit.run()
    conv.initialize(backend)
    conv.run()
    gd.err_output = rng.standard_normal((3, 3, 3, 2))
    gd.initialize(backend)
    gd.run()
    assert gd.err_input.shape == (3, 4, 5, 1)
    gd.err_output = rng.standard_normal((3, 3, 3, 2)).astype(np.float32)
    with pytest.raises(BadFormatError, match=r"err_output was float64 .* is float32"):
        gd.run()
    gd.err_output = None
    with pytest.raises(BadFormatError, match="is empty"):
        gd.run()


def test_new_arrays_of_the_same_shape_need_no_initialize(backend, rng):
    x = rng.standard_normal((2, 1, 3, 4, 1))
    conv = ran(Conv(**KEYWORDS), backend, input=x[0])
    first = host(conv.output)
    for conv.input in (x[1], Array(x[0].copy())):
        conv.run()
    np.testing.assert_array_equal(host(conv.output), first)


def test_results_share_no_memory_with_operands(backend, rng):
    x = rng.standard_normal((2, 4, 4, 1))
    conv = Conv(n_kernels=1, kx=1, ky=1)
    conv.output = x
    with pytest.raises(BadFormatError, match="output must not share memory with input"):
        ready(conv, backend, input=x)
    conv.output = nan(x.shape)
    ready(conv, backend, input=x)
    conv.input = conv.output.mem
    with pytest.raises(BadFormatError, match="must not share memory"):
        conv.run()
    conv.input, conv.output = x, nan((*x.shape, 2))[..., 0]
    with pytest.raises(BadFormatError, match="output must be C-contiguous"):
        conv.run()


def gd_of_one_array(memory, *names, **keywords):
    """A fully connected backward unit of 3 inputs and 3 neurons; the arrays `names` are all `memory`."""
    gd = GradientDescent(accumulate_gradient=True, gradient_moment=0.5, **keywords)
    shapes = {"input": (3, 3), "weights": (3, 3), "err_output": (3, 3), "bias": (3,)}
    for name, shape in shapes.items():
        setattr(gd, name, np.ones(shape))
    for name in names:
        setattr(gd, name, memory)
    return gd


VELOCITY, ACCUMULATOR = "gradient_weights_with_moment", "accumulated_gradient_weights"


@pytest.mark.parametrize(
    "names",
    [
        *[("input", "weights"), ("weights", "err_output"), ("weights", VELOCITY), ("input", VELOCITY)],
        *[(VELOCITY, ACCUMULATOR), ("err_output", ACCUMULATOR)],
    ],
)
def test_what_a_step_changes_is_nothing_else(backend, names):
    one, other = names
    either = f"({one}.*{other}|{other}.*{one})"
    with pytest.raises(BadFormatError, match=f"^GradientDescent: (?=.*must not share memory with).*{either}"):
        gd_of_one_array(np.ones((3, 3)), *names).initialize(backend)


def test_arrays_side_by_side_share_nothing(backend, rng):
    memory, apart = rng.standard_normal((3, 4)), gd_of_one_array(np.ones((3, 3)), "input")
    apart.weights, apart.bias = memory[:, :3].copy(), memory[:, 3].copy()
    side = gd_of_one_array(np.ones((3, 3)), "input", "err_output")
    side.weights, side.bias = memory[:, :3], memory[:, 3]
    for gd in (apart, side):
        ran(gd, backend)
        gd.weights.map_read()
        gd.bias.map_read()
    np.testing.assert_allclose(side.weights.mem, apart.weights.mem, rtol=1e-12)
    np.testing.assert_allclose(side.bias.mem, apart.bias.mem, rtol=1e-12)


@pytest.mark.parametrize("name", ["input", "weights", "err_output"])
def test_masked_arrays_are_refused(backend, name):
    masked = np.ma.masked_array(np.ones((3, 3)), mask=np.eye(3))
    for value in (masked, Array(masked)):
        with pytest.raises(BadFormatError, match=f"{name} must be a plain numpy.ndarray, got MaskedArray"):
            gd_of_one_array(value, name).initialize(backend)


def test_an_array_without_an_axis_is_refused(backend):
    with pytest.raises(BadFormatError, match=r"input must hold samples along its first axis, got shape \(\)"):
        ready(All2All(output_sample_shape=2), backend, input=np.array(1.0))


def test_results_of_another_format_are_replaced(backend):
    conv = ran(Conv(**KEYWORDS), backend, input=np.ones((1, 3, 4, 1)), output=np.zeros((9, 9)))
    assert conv.output.shape == (1, 2, 2, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_three_axes_are_one_channel(backend, rng, dtype):
    x, weights = (
        rng.standard_normal((2, 4, 5, 1)).astype(dtype),
        rng.standard_normal((1, 2, 3, 1)).astype(dtype),
    )
    errors = rng.standard_normal((2, 3, 3, 1)).astype(dtype)
    results = []
    for shape, error_shape in (((2, 4, 5, 1), (2, 3, 3, 1)), ((2, 4, 5), (2, 9, 1)), ((2, 4, 5), (2, 3, 3))):
        conv, gd = conv_twins(backend, x.reshape(shape), weights)
        ran(gd, backend, err_output=errors.reshape(error_shape))
        assert conv.output.shape == (2, 3, 3, 1)
        assert gd.err_input.shape == shape
        results.append([host(a).tobytes() for a in (conv.output, gd.err_input, gd.gradient_weights)])
    assert results[0] == results[1] == results[2]


def test_all2all_takes_and_gives_any_shape(backend, rng):
    x, weights = rng.standard_normal((2, 3, 2, 2)), rng.standard_normal((6, 12))
    forward, gd = dense_twins(backend, x, weights, output_sample_shape=(3, 2))
    assert forward.output.shape == (2, 3, 2)
    np.testing.assert_allclose(host(forward.output).reshape(2, 6), x.reshape(2, 12) @ weights.T, rtol=1e-12)
    ran(gd, backend, err_output=rng.standard_normal((2, 3, 2)))
    assert gd.err_input.shape == x.shape
    with pytest.raises(BadFormatError, match="err_output must hold 2 samples of 6 elements"):
        ready(gd, backend, err_output=np.ones((2, 7)))


def test_gradient_descent_knows_transposed_weights(backend):
    gd = GradientDescent(weights_transposed=True, include_bias=False)
    ready(gd, backend, input=np.ones((2, 3)), weights=np.ones((3, 4)), err_output=np.ones((2, 4)))
    with pytest.raises(BadFormatError, match=r"weights must have shape \(ky \* kx \* C, n_kernels\)"):
        ready(gd, backend, weights=np.ones((4, 3)))
