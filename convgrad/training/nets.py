"""The nets that `convgrad train` trains: layers, as StandardWorkflow takes them, and how to train them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

Layer = dict[str, Any]
Shape = tuple[int, int, int]  # H, W, C

XAVIER, RELU = 1, 2  # variances: as in Caffe; as ReLU wants it (He et al. 2015)

_TRAINING = {"learning_rate": 0.02, "gradient_moment": 0.9}


class Net(NamedTuple):
    """layers and lr_policy are those of StandardWorkflow; minibatch_size and epochs what suits the net."""

    layers: list[Layer]
    minibatch_size: int
    epochs: int
    lr_policy: dict[str, Any] | None = None


def digits() -> Net:
    """Two convolutions with ReLU, each halved by max pooling, for 8x8 grey images in ten classes."""
    return images((8, 8, 1), 10)


def images(shape: Shape, n_classes: int) -> Net:
    """3x3 convolutions with ReLU (16, 32, then 64 kernels), each halved by pooling, down to a side of 2."""
    height, width, channels = shape
    layers: list[Layer] = []
    n_kernels = 16
    while min(height, width) > 2:
        layers += _halving(channels, n_kernels)
        height, width, channels = (height + 1) // 2, (width + 1) // 2, n_kernels
        n_kernels = min(2 * n_kernels, 64)
    weights = _weights(height * width * channels, RELU)
    layers.append({"type": "softmax", "output_sample_shape": n_classes, **weights, **_TRAINING})
    return Net(layers, minibatch_size=50, epochs=30)


def mnist() -> Net:
    """Caffe's LeNet for 28x28 grey images in ten classes, with its rates and initial weights."""
    rates = {"learning_rate": 0.01, "learning_rate_bias": 0.02}
    training = {**rates, "gradient_moment": 0.9, "weights_decay": 5e-4, "weights_decay_bias": 0}
    layers = [
        {"type": "conv", "n_kernels": 20, "kx": 5, "ky": 5, **_weights(25, XAVIER), **training},
        {"type": "max_pooling", "kx": 2, "ky": 2},
        {"type": "conv", "n_kernels": 50, "kx": 5, "ky": 5, **_weights(25 * 20, XAVIER), **training},
        {"type": "max_pooling", "kx": 2, "ky": 2},
        {"type": "all2all_str", "output_sample_shape": 500, **_weights(4 * 4 * 50, XAVIER), **training},
        {"type": "softmax", "output_sample_shape": 10, **_weights(500, XAVIER), **training},
    ]
    return Net(layers, 64, 5, {"type": "inv", "gamma": 1e-4, "pow_ratio": 0.75})


def _halving(channels: int, n_kernels: int) -> list[Layer]:
    conv = {"type": "conv_str", "n_kernels": n_kernels, "kx": 3, "ky": 3, "padding": [1, 1, 1, 1]}
    return [
        {**conv, **_weights(9 * channels, RELU), **_TRAINING},
        {"type": "max_pooling", "kx": 2, "ky": 2},
    ]


def _weights(inputs: int, variance: int) -> Layer:
    """Uniform weights of this variance over the number of inputs, and no bias."""
    limit = math.sqrt(3 * variance / inputs)
    return {"weights_stddev": limit, "bias_filling": "constant", "bias_stddev": 0}
