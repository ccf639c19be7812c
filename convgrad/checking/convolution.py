"""Cases of convolutions: integers, which any order sums exactly, and real numbers, which show the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from convgrad.checking.cases import Arrays, Case, content, integers, reals, unwritten
from convgrad.checking.exact import Rounding, floats, fractions
from convgrad.checking.order import Order
from convgrad.geometry import ConvGeometry
from convgrad.interfaces import ConvGradients

FAMILIES = ("forward", "err_input", "weights", "bias")


@dataclass(frozen=True)
class Layer:
    """Some images of a geometry, and which families of kernels they show; `options` go to the operations.

    Of "activation" there is only what changes nothing: "strict_relu" of gradients whose output is positive.
    """

    title: str
    geometry: ConvGeometry
    images: int
    families: tuple[str, ...] = FAMILIES
    transposed: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    workspace: int | None = None

    @property
    def batch(self) -> int:
        """Images that count."""
        return int(self.options.get("batch", self.images))


LOPSIDED = ConvGeometry(5, 4, 4, 6, 3, 2, (2, 1, 0, 2), (2, 1), (1, 2), groups=2)
STEPS = ConvGeometry(7, 9, 2, 3, 2, 2, sliding=(3, 4))

WITH_INTEGERS = (
    Layer("lopsided windows in groups", LOPSIDED, 3),
    Layer("the same, one image at a time", LOPSIDED, 3, options={"unpack_size": 1}),
    Layer("the same by im2col", LOPSIDED, 2, options={"algorithm": "im2col"}),
    Layer("the same, weights transposed", LOPSIDED, 2, options={"weights_transposed": True}),
    Layer("the same, images past the batch", LOPSIDED, 3, options={"batch": 2}),
    Layer("the same convolution transposed", LOPSIDED, 3, transposed=True),
    Layer("steps that leave cells out", STEPS, 2),
    Layer("channels and kernels past a tile", ConvGeometry(2, 5, 17, 19, 2, 1, (0, 0, 1, 0)), 1),
    Layer("images enough to fill tiles at one place", ConvGeometry(2, 3, 3, 5, 3, 3, (1, 2, 1, 0)), 9),
    Layer("a window of one cell", ConvGeometry(3, 4, 5, 7, 1, 1), 2),
)
IN_ORDER = (
    Layer(
        "384 channels, each tap in segments", ConvGeometry(1, 2, 384, 3, 2, 1, (1, 0, 0, 0)), 1, ("forward",)
    ),
    Layer(
        "384 kernels, each tap in segments", ConvGeometry(1, 2, 3, 384, 2, 1, (1, 0, 0, 0)), 1, ("err_input",)
    ),
    Layer("64 taps of 5 channels", ConvGeometry(8, 9, 5, 2, 8, 8, (1, 2, 0, 1)), 1, ("forward",)),
    Layer("64 taps of 5 kernels", ConvGeometry(8, 2, 2, 5, 8, 8, (5, 1, 3, 2)), 1, ("err_input",)),
    Layer("images in bands of rows", ConvGeometry(21, 17, 2, 1, 2, 1), 2, ("weights", "bias")),
    Layer("leaves of several images", ConvGeometry(5, 7, 1, 3, 3, 1, (1, 0, 1, 1)), 11, ("weights", "bias")),
    Layer(
        "leaves of the transposed", ConvGeometry(5, 7, 2, 1, 3, 1), 11, ("weights", "bias"), transposed=True
    ),
    Layer(
        "each leaf alone, in the least workspace",
        *(ConvGeometry(9, 9, 1, 2, 1, 1), 7, ("weights", "bias")),
        options={"activation": "strict_relu"},
        workspace=1,
    ),
)


def cases() -> Iterator[Case]:
    """Of families "forward", "err_input", "weights" and "bias"."""
    for layer in WITH_INTEGERS:
        for family in layer.families:
            for dtype in (np.float32, np.float64):
                run = partial(_run, layer, family, integers, dtype)
                yield Case(family, f"{layer.title}, {np.dtype(dtype)}", run, dtype)
    for layer in IN_ORDER:
        for family in layer.families:
            run = partial(_run, layer, family, reals, np.float32)
            yield Case(family, layer.title, run, kernels_only=True)
    yield Case("err_input", "alpha and beta", _blended)


class _Arrays(NamedTuple):
    x: Any
    weights: Any  # (n_kernels, ky, kx, C / groups)
    bias: Any
    err_output: Any


def _draw(layer: Layer, draw: Callable[..., list[Arrays]], dtype: Any) -> _Arrays:
    g = layer.geometry
    small, large = (layer.images, *g.output_shape), (layer.images, *g.input_shape)
    ends = (small, large) if layer.transposed else (large, small)
    return _Arrays(*draw(dtype, ends[0], g.weights_shape, ends[1][3:], ends[1]))


def _run(layer: Layer, family: str, draw: Any, dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    arrays = _draw(layer, draw, dtype)
    exact = _Arrays(*map(fractions, _counting(layer, arrays)))
    right = floats(_right(layer, family, exact, Rounding(dtype)), dtype)
    if family in ("forward", "err_input"):  # what is past the batch becomes 0
        right = np.concatenate([right, np.zeros((layer.images - layer.batch, *right.shape[1:]), dtype)])
    stored = arrays._replace(weights=_stored(layer, arrays.weights))
    with _workspace(backend, layer.workspace):
        return _came(layer, family, stored, backend), _stored(layer, right) if family == "weights" else right


def _counting(layer: Layer, arrays: _Arrays) -> _Arrays:
    """The arrays without what is past the batch; that becomes NaN, which must not be read."""
    x, err_output = arrays.x[: layer.batch].copy(), arrays.err_output[: layer.batch].copy()
    arrays.x[layer.batch :] = arrays.err_output[layer.batch :] = np.nan
    return arrays._replace(x=x, err_output=err_output)


@contextmanager
def _workspace(backend: Any, size: int | None) -> Iterator[None]:
    before = backend.workspace
    backend.workspace = before if size is None else size
    try:
        yield
    finally:
        backend.workspace = before


def _stored(layer: Layer, weights: Arrays) -> Arrays:
    """(n_kernels, taps), or transposed."""
    matrix = weights.reshape(len(weights), -1)
    return np.ascontiguousarray(matrix.T if layer.options.get("weights_transposed") else matrix)


def _right(layer: Layer, family: str, exact: _Arrays, rounding: Rounding) -> Any:
    """The transposed convolution's passes are those of the convolution with the roles exchanged."""
    order, (x, w, bias, d) = Order(layer.geometry, rounding), exact
    there, back = (order.err_input, order.forward) if layer.transposed else (order.forward, order.err_input)
    if family == "forward":
        return np.frompyfunc(rounding, 1, 1)(there(x, w) + bias)
    if family == "err_input":
        return back(d, w)
    if family == "weights":
        return order.weights(*((d, x) if layer.transposed else (x, d)))
    return order.bias(d)


def _came(layer: Layer, family: str, arrays: _Arrays, backend: Any) -> Arrays:
    conv, g, dtype = backend.conv, layer.geometry, arrays.x.dtype
    x, weights, bias, err_output = map(backend.upload, arrays)
    if family == "forward":
        out = unwritten(backend, arrays.err_output.shape, dtype)
        forward = conv.deconv_forward if layer.transposed else conv.forward
        forward(x, weights, bias, out, g, **layer.options)
        return content(backend, out)
    shape = {"err_input": arrays.x, "weights": arrays.weights, "bias": arrays.bias}[family].shape
    out = unwritten(backend, shape, dtype)
    backward = conv.deconv_backward if layer.transposed else conv.backward
    output = backend.upload(np.ones_like(arrays.err_output)) if "activation" in layer.options else None
    backward(x, weights, err_output, output, ConvGradients(**{family: out}), g, **layer.options)
    return content(backend, out)


def _blended(backend: Any) -> tuple[Arrays, Arrays]:
    """err_input = 2 * new + 3 * old."""
    layer = Layer("", LOPSIDED, 2)
    arrays = _draw(layer, integers, np.float32)
    new = Order(LOPSIDED, Rounding(np.float32)).err_input(
        fractions(arrays.err_output), fractions(arrays.weights)
    )
    out = backend.upload(arrays.x.copy())
    weights, err_output = map(backend.upload, (_stored(layer, arrays.weights), arrays.err_output))
    gradients = ConvGradients(err_input=out)
    backend.conv.backward(None, weights, err_output, None, gradients, LOPSIDED, alpha=2.0, beta=3.0)
    return content(backend, out), floats(2 * new + 3 * fractions(arrays.x), np.float32)
