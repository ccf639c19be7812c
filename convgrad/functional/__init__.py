"""Convolution, transposed convolution and pooling as plain functions: arrays in, new arrays out.

All arrays of a call are float32 or all float64, in native byte order; all are ndarrays (of any strides) or
all device arrays of one backend. Results are of the same kind and dtype, new and C-contiguous. No argument
is ever modified. What does not fit raises BadFormatError before anything is computed.

Keywords that mean the same everywhere:

- padding: (left, top, right, bottom) cells around the image; sliding, dilation: (x, y) cells;
- groups: consecutive groups of channels, each seen by its own n_kernels // groups kernels;
- activation: "linear", "tanh", "sigmoid", "relu" (softplus) or "strict_relu"; the gradients of all but the
  first need `output`, the forward's result;
- backend: a name, a backend object, or None: that of the device arrays, else the default one;
- numerics: "fast"; algorithm: the name of a provider, or None for the first that is suitable.
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
from convgrad.interfaces import ConvGradients

__all__ = [
    "ConvGradients",
    "Pooled",
    "bias_gradient",
    "conv_backward",
    "conv_forward",
    "conv_input_gradient",
    "conv_weight_gradient",
    "deconv_backward",
    "deconv_forward",
    "pool_backward",
    "pool_forward",
]
