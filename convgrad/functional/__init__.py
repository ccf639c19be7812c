"""Convolution, transposed convolution and pooling as plain functions: arrays in, new arrays out.

Arrays are NHWC. From NCHW: `x.transpose(0, 2, 3, 1)`, weights (K, C, kh, kw) likewise; pairs are (x, y), that
is (width, height), and padding is (left, top, right, bottom). `help` of each function tells its arguments.
"""

from convgrad.functional.conv import (
    bias_gradient,
    conv_backward,
    conv_forward,
    conv_input_gradient,
    conv_weight_gradient,
)
from convgrad.functional.deconv import deconv_backward, deconv_forward
from convgrad.functional.pooling import Pooled, pool_backward, pool_forward
from convgrad.functional.ranges import GradientNodes, gradient_nodes, images_together, merge_gradient_nodes
from convgrad.interfaces import ConvGradients

__all__ = [
    "ConvGradients",
    "GradientNodes",
    "Pooled",
    "bias_gradient",
    "conv_backward",
    "conv_forward",
    "conv_input_gradient",
    "conv_weight_gradient",
    "deconv_backward",
    "deconv_forward",
    "gradient_nodes",
    "images_together",
    "merge_gradient_nodes",
    "pool_backward",
    "pool_forward",
]
