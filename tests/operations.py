"""Operations called on a backend's own buffers, whose outputs hold NaN before: what stays unwritten shows."""

from __future__ import annotations

import numpy as np

from convgrad.geometry import ConvGeometry, PoolGeometry
from convgrad.interfaces import ConvGradients


def filled(backend, shape, dtype, value=np.nan):
    """A new buffer full of `value`."""
    return backend.upload(np.full(shape, value, dtype))


def uploaded(backend, *arrays):
    """These arrays as buffers, on NumPy the arrays themselves; None stays None."""
    return [None if array is None else backend.upload(array) for array in arrays]


def host(backend, buffer):
    """The content of a buffer, None stays None."""
    if buffer is None:
        return None
    content = np.empty(buffer.shape, buffer.dtype)
    backend.download(buffer, content)
    return content


def conv_geometry(case):
    """The geometry of a tests.cases.ConvCase."""
    return ConvGeometry(*case.size, case.channels, case.n_kernels, *case.kernel, **case.window)


def pool_geometry(case):
    """The geometry of a tests.cases.PoolCase."""
    return PoolGeometry(*case.size, case.channels, *case.kernel, **case.window)


def conv_forward(backend, x, weights, bias, geometry, **keywords):
    out = filled(backend, (len(x), *geometry.output_shape), x.dtype)
    backend.conv.forward(*uploaded(backend, x, weights, bias), out, geometry, **keywords)
    return host(backend, out)


def deconv_forward(backend, x, weights, bias, geometry, **keywords):
    out = filled(backend, (len(x), *geometry.input_shape), x.dtype)
    backend.conv.deconv_forward(*uploaded(backend, x, weights, bias), out, geometry, **keywords)
    return host(backend, out)


def conv_backward(backend, x, weights, err_output, geometry, *, old=None, output=None, **keywords):
    """All three gradients; `old` is the content of err_input before."""
    shapes = x.shape, weights.shape, (geometry.n_kernels,)
    return _backward(backend, "backward", (x, weights, err_output, output), shapes, geometry, old, keywords)


def deconv_backward(backend, x, weights, err_output, geometry, *, old=None, output=None, **keywords):
    """As conv_backward, of the transposed convolution."""
    shapes = x.shape, weights.shape, (geometry.channels,)
    arrays = (x, weights, err_output, output)
    return _backward(backend, "deconv_backward", arrays, shapes, geometry, old, keywords)


def _backward(backend, name, arrays, shapes, geometry, old, keywords):
    gradients = [filled(backend, shape, arrays[2].dtype) for shape in shapes]
    if old is not None:
        gradients[0] = backend.upload(old.copy())
    getattr(backend.conv, name)(*uploaded(backend, *arrays), ConvGradients(*gradients), geometry, **keywords)
    return ConvGradients(*(host(backend, gradient) for gradient in gradients))


def pool_forward(backend, x, geometry, kind, *, batch=None):
    """(output, offset); offset is None for "average"."""
    shape = (len(x), *geometry.output_shape)
    out = filled(backend, shape, x.dtype)
    offset = None if kind == "average" else filled(backend, shape, np.int64, -1)
    backend.pool.forward(*uploaded(backend, x), out, offset, geometry, kind, batch=batch)
    return host(backend, out), host(backend, offset)


def pool_backward(backend, err_output, offset, geometry, kind, *, batch=None):
    err_input = filled(backend, (len(err_output), *geometry.input_shape), err_output.dtype)
    backend.pool.backward(*uploaded(backend, err_output, offset), err_input, geometry, kind, batch=batch)
    return host(backend, err_input)
