"""Convolution on devices, bit by bit in the order of fixed numerics; by every algorithm that claims it."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.backends.device.driver import CPU, GPU
from tests import operations
from tests.cases import ConvCase, generator
from tests.order_cases import ALL, CASES, SEGMENTS, drawn
from tests.reference import order

BY = ("direct", "im2col")


def same_bits(result, wanted):
    np.testing.assert_array_equal(result.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_order_of_convolutions(device_backend, case):
    x, weights, bias, d = drawn(case)
    geometry = operations.conv_geometry(case)
    by_weights = order.conv_weight_gradient(x, d, case.kernel, **case.window)
    y = order.conv_forward(x, weights, bias, **case.window)
    for algorithm in BY:
        same_bits(operations.conv_forward(device_backend, x, weights, bias, geometry, algorithm=algorithm), y)
        gradients = operations.conv_backward(device_backend, x, weights, d, geometry, algorithm=algorithm)
        same_bits(gradients.weights, by_weights)
        same_bits(gradients.bias, order.bias_gradient(d))
        if algorithm != "im2col":
            same_bits(gradients.err_input, order.conv_input_gradient(d, weights, case.size, **case.window))


@pytest.mark.parametrize("case", [*CASES, *SEGMENTS], ids=str)
def test_the_order_of_transposed_convolutions(device_backend, case):
    image, weights, _, x = drawn(case)  # from the convolution's outputs to its images
    geometry = operations.conv_geometry(case)
    bias = generator(1).standard_normal(case.channels).astype(np.float32)
    y = operations.deconv_forward(device_backend, x, weights, bias, geometry)
    same_bits(y, order.conv_input_gradient(x, weights, case.size, **case.window) + bias)
    err_input = order.conv_forward(image, weights, **case.window)
    by_weights = order.conv_weight_gradient(image, x, case.kernel, **case.window)
    for algorithm in BY:
        gradients = operations.deconv_backward(
            device_backend, x, weights, image, geometry, algorithm=algorithm
        )
        same_bits(gradients.err_input, err_input)
        same_bits(gradients.weights, by_weights)
        same_bits(gradients.bias, order.bias_gradient(image))


def test_products_too_small_leave_no_negative_zero(device_backend):
    """A chain of products that round to -0.0 is -0.0; no result is. 16 positions fill a step of kernels."""
    case = ConvCase("tiny", 1, (1, 17), 1, 1, (2, 1))
    x, weights, _, d = (np.full(shape, 2.0**-100, np.float32) for shape in case.shapes)
    weights, d, geometry = -weights, -d, operations.conv_geometry(case)
    assert np.signbit(order.fma(x[0, 0, 0], d[0, 0, 0], np.float32(0)))
    for algorithm in BY:
        y = operations.conv_forward(device_backend, x, weights, None, geometry, algorithm=algorithm)
        gradients = operations.conv_backward(device_backend, x, -weights, d, geometry, algorithm=algorithm)
        for result in (y, gradients.err_input, gradients.weights):
            same_bits(result, np.zeros_like(result))


OF_BOTH_SHAPES = (
    ConvCase("384 channels", 2, (5, 6), 384, 70, (3, 2), (1, 2, 0, 1)),
    ConvCase("odd channels", 3, (9, 21), 67, 129, (3, 3), (1, 1, 1, 1), dilation=(2, 1)),
    ConvCase("depthwise", 3, (30, 21), 6, 12, (3, 3), (1, 1, 1, 1), sliding=(2, 3), groups=6),
    ConvCase("chunks", 5, (33, 40), 5, 7, (3, 2), (1, 1, 1, 1), groups=1),
)


@pytest.mark.parametrize("activation", ["linear", "tanh", "relu"])
@pytest.mark.parametrize("case", OF_BOTH_SHAPES, ids=str)
def test_both_shapes_have_the_same_bits(device_backend, opencl, case, activation):
    """Larger layers than the judge has patience for, and activations."""
    shape = device_backend.driver.profile.shape
    if shape == CPU:
        pytest.skip("it is what GPU shape is compared with")
    assert shape == GPU
    other = opencl.open_backend(device_backend.name, shape=CPU)
    x, weights, bias, d = drawn(case)
    geometry, keywords = operations.conv_geometry(case), {"activation": activation}
    y, twin = (
        operations.conv_forward(b, x, weights, bias, geometry, **keywords) for b in (device_backend, other)
    )
    same_bits(y, twin)
    keywords |= {"output": y, "old": x, "alpha": 0.7, "beta": -0.3}
    one, two = (
        operations.conv_backward(b, x, weights, d, geometry, **keywords) for b in (device_backend, other)
    )
    for result, wanted in zip(one, two, strict=True):
        assert np.isfinite(wanted).all()
        same_bits(result, wanted)
