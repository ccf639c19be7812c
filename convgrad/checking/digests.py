"""Cases of fixed numerics, which has the same bits everywhere; digests.json holds their digests.

`python -m convgrad.checking.digests` makes that file anew, by NumPy. Operands come from convgrad/prng.py,
since NumPy's own distributions may change.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad import backends
from convgrad.backends.device.backend import DeviceBackend
from convgrad.checking.cases import Arrays, Case, content, unwritten
from convgrad.checking.convolution import LOPSIDED
from convgrad.files import write_whole
from convgrad.geometry import ConvGeometry, PoolGeometry
from convgrad.interfaces import ConvGradients
from convgrad.prng import Random
from convgrad.update_rule import UpdateRule

FAMILY = "fixed"
FILE = Path(__file__).with_name("digests.json")
Floats = NDArray[np.float32]
Compute = Callable[[Random, Any, Any], list[Arrays]]  # of (operands, a backend, its operations)

FORWARD, GRADIENTS = ("forward",), ("err_input", "weights", "bias")
SUMS = "weights", "bias"


@dataclass(frozen=True)
class Layer:
    """A convolution, or its adjoint, and which of its results are wanted; `options` go to the operations.

    scale: of what goes in or comes back, and of weights; powers of two.
    """

    geometry: ConvGeometry
    images: int
    wanted: tuple[str, ...]
    transposed: bool = False
    scale: tuple[float, float] = (1.0, 1.0)
    options: dict[str, Any] = field(default_factory=dict)


PLAIN_LAYER = Layer(LOPSIDED, 2, FORWARD)
GRADIENT = replace(PLAIN_LAYER, wanted=GRADIENTS)
ALL = replace(PLAIN_LAYER, wanted=FORWARD + GRADIENTS)
ADJOINT = replace(PLAIN_LAYER, transposed=True)
BENT = "tanh", "sigmoid", "relu", "strict_relu"
LAYERS = {
    "forward": PLAIN_LAYER,
    **{f"forward, {kind}": replace(PLAIN_LAYER, options={"activation": kind}) for kind in BENT},
    "err_input": replace(GRADIENT, wanted=("err_input",)),
    "weights": replace(GRADIENT, wanted=("weights",)),
    "bias": replace(GRADIENT, wanted=("bias",)),
    **{f"gradients, {kind}": replace(GRADIENT, options={"activation": kind}) for kind in BENT},
    "weights transposed": replace(ALL, options={"weights_transposed": True}),
    "images past the batch": replace(ALL, images=3, options={"batch": 2}),
    "err_input onto what was there": replace(
        GRADIENT, wanted=("err_input",), options={"alpha": 0.7, "beta": 0.3}
    ),
    "384 channels, each tap in segments": Layer(ConvGeometry(1, 2, 384, 3, 2, 1, (1, 0, 0, 0)), 1, FORWARD),
    "384 kernels, each tap in segments": Layer(
        ConvGeometry(1, 2, 3, 384, 2, 1, (1, 0, 0, 0)), 1, ("err_input",)
    ),
    "64 taps of 5 channels": Layer(ConvGeometry(8, 9, 5, 2, 8, 8, (1, 2, 0, 1)), 1, FORWARD),
    "64 taps of 5 kernels": Layer(ConvGeometry(8, 2, 2, 5, 8, 8, (5, 1, 3, 2)), 1, ("err_input",)),
    "images in bands of rows": Layer(ConvGeometry(21, 17, 2, 1, 2, 1), 2, SUMS),
    "leaves of 16 images": Layer(ConvGeometry(4, 4, 1, 2, 2, 1, (1, 0, 0, 0)), 35, SUMS),
    "leaves of 8 images": Layer(ConvGeometry(5, 6, 1, 2, 2, 1), 20, SUMS, options={"batch": 19}),
    "leaves of 4 images": Layer(ConvGeometry(5, 9, 1, 2, 3, 2, (1, 0, 1, 1)), 11, SUMS),
    "transposed, forward": replace(ADJOINT, options={"activation": "sigmoid"}),
    "transposed, gradients": replace(ADJOINT, wanted=GRADIENTS, options={"activation": "tanh"}),
    "transposed, leaves": Layer(ConvGeometry(5, 7, 2, 1, 3, 1), 11, SUMS, transposed=True),
    "subnormal values": replace(ALL, scale=(2.0**-130, 1.0)),
    "subnormal products": replace(ALL, scale=(2.0**-70, 2.0**-70)),
}
CURVES = "tanh", "sigmoid", "relu"

WINDOWS = PoolGeometry(5, 7, 3, 3, 2, padding=(1, 0, 0, 1), sliding=(2, 1))
POOLS = {
    "pooling, max": (WINDOWS, "max"),
    "pooling, maxabs": (WINDOWS, "maxabs"),
    "pooling, average": (WINDOWS, "average"),
    "pooling, average over padding too": (replace(WINDOWS, count_include_pad=True), "average"),
}

SHAPE = 6, 35  # of weights that are stepped
PLAIN = UpdateRule(learning_rate=0.1, weights_decay=0.3)
RULES = {
    "step": PLAIN,
    "step, l1": replace(PLAIN, l1_vs_l2=0.25),
    "step, momentum": replace(PLAIN, gradient_moment=0.9),
    "step, accumulating": replace(PLAIN, acc_alpha=0.6, acc_beta=0.8, gd_alpha=0.4, gd_beta=0.7),
    "step, orthogonality": replace(PLAIN, factor_ortho=0.7),
}
EVERYTHING = UpdateRule(0.1, 0.3, 0.25, 0.9, 0.7, 0.6, 0.8, 0.4, 0.7)


def cases() -> Iterator[Case]:
    """Of family "fixed"."""
    for title in computations():
        yield Case(FAMILY, title, partial(_run, title), digest=True)


def _run(title: str, backend: Any) -> tuple[Arrays, Arrays]:
    return _octets(digest(title, backend)), _octets(known()[title])


def _octets(text: str) -> Arrays:
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def known() -> dict[str, str]:
    """What digests.json says."""
    found: dict[str, str] = json.loads(FILE.read_bytes())
    return found


def digest(title: str, backend: Any) -> str:
    """SHA-256 of the results of a case, one after another, little-endian.

    A device computes by its own operations, which are in the order of fixed numerics. To ask it for
    `operations("fixed")` would be to ask for the verdict of its check, of which this is a part.
    """
    operations = backend if isinstance(backend, DeviceBackend) else backend.operations("fixed")
    random = Random(zlib.crc32(title.encode()))
    results = computations()[title](random, backend, operations)
    little = (array.astype(array.dtype.newbyteorder("<")).tobytes() for array in results)
    return hashlib.sha256(b"".join(little)).hexdigest()


def computations() -> dict[str, Compute]:
    """All cases, by title."""
    return {
        **{title: partial(_layer, layer) for title, layer in LAYERS.items()},
        **{f"{kind} over all magnitudes": partial(_curve, kind) for kind in CURVES},
        **{title: partial(_pool, *pool) for title, pool in POOLS.items()},
        **{title: partial(_step, rule, False, 1.0) for title, rule in RULES.items()},
        "step, everything, transposed": partial(_step, EVERYTHING, True, 1.0),
        "step, subnormal values": partial(_step, replace(EVERYTHING, l1_vs_l2=0.0), False, 2.0**-130),
    }


def _drawn(random: Random, shape: tuple[int, ...], scale: float = 1.0) -> Floats:
    return (scale * random.uniform(-1, 1, shape)).astype(np.float32)


def _layer(layer: Layer, random: Random, backend: Any, operations: Any) -> list[Arrays]:
    """Results in the order of `layer.wanted`; operands are NaN past the batch, which is not to be read."""
    g, (scale, weight) = layer.geometry, layer.scale
    sizes = (layer.images, *g.input_shape), (layer.images, *g.output_shape)
    before, behind = sizes[::-1] if layer.transposed else sizes
    x, err_output = _drawn(random, before, scale), _drawn(random, behind, scale)
    weights = _drawn(random, (g.n_kernels, g.taps), weight)
    bias = _drawn(random, behind[3:], scale * weight)
    output = _drawn(random, behind)  # an output of no activation, but what factors are computed from
    for array in (x, err_output, output):
        array[layer.options.get("batch", layer.images) :] = np.nan
    if layer.options.get("weights_transposed"):
        weights = np.ascontiguousarray(weights.T)
    old = _drawn(random, before)
    results = {
        "forward": unwritten(backend, behind, np.float32),
        "err_input": backend.upload(old) if "beta" in layer.options else unwritten(backend, before, x.dtype),
        "weights": unwritten(backend, weights.shape, np.float32),
        "bias": unwritten(backend, bias.shape, np.float32),
    }
    d, y, x, weights, bias = map(backend.upload, (err_output, output, x, weights, bias))
    conv, options = operations.conv, {"algorithm": "direct", **layer.options}
    if "forward" in layer.wanted:
        forward = conv.deconv_forward if layer.transposed else conv.forward
        forward(x, weights, bias, results["forward"], g, **options)
    gradients = {name: results[name] for name in GRADIENTS if name in layer.wanted}
    if gradients:
        backward = conv.deconv_backward if layer.transposed else conv.backward
        backward(x, weights, d, y, ConvGradients(**gradients), g, **options)
    return [content(backend, results[name]) for name in layer.wanted]


def _curve(kind: str, random: Random, backend: Any, operations: Any) -> list[Arrays]:
    """An activation behind a convolution that passes each number through, and its gradient."""
    sums = _magnitudes(random)
    outputs, one = np.minimum(np.abs(sums), np.float32(2**60)), backend.upload(np.ones((1, 1), np.float32))
    geometry = ConvGeometry(1, sums.shape[2], 1, 1, 1, 1)
    d = backend.upload(_drawn(random, sums.shape))
    y, err_input = unwritten(backend, sums.shape, np.float32), unwritten(backend, sums.shape, np.float32)
    conv, options = operations.conv, {"activation": kind, "algorithm": "direct"}
    conv.forward(backend.upload(sums), one, None, y, geometry, **options)
    gradients = ConvGradients(err_input=err_input)
    conv.backward(None, one, d, backend.upload(outputs), gradients, geometry, **options)
    return [content(backend, y), content(backend, err_input)]


def _magnitudes(random: Random) -> Floats:
    """Numbers of both signs with every second exponent of float32, more of those around 1, and infinities."""
    exponents = np.arange(-149, 127, 2)
    large = np.ldexp(random.uniform(1, 2, exponents.size), exponents)
    numbers = [large, random.uniform(0, 1, 20), random.uniform(0, 20, 40), random.uniform(20, 110, 20)]
    line = np.concatenate([*numbers, [0.0, np.inf]])
    return np.concatenate([line, -line]).astype(np.float32).reshape(1, 1, -1, 1)


def _pool(geometry: PoolGeometry, kind: str, random: Random, backend: Any, operations: Any) -> list[Arrays]:
    """Winners and their places, or averages, then the way back."""
    x = random.uniform(-1, 1, (2, *geometry.input_shape)).astype(np.float32)
    if kind != "average":
        x = np.floor(3 * x)  # so that there are ties
        x[0, :, :3, 0] = -np.inf
        x[1, :, :, 1] = 0.0
        x[1, ::2, ::2, 1] = -0.0
    shape = (len(x), *geometry.output_shape)
    out, offset = unwritten(backend, shape, np.float32), unwritten(backend, shape, np.int64)
    places = None if kind == "average" else offset
    err_input = unwritten(backend, x.shape, np.float32)
    operations.pool.forward(backend.upload(x), out, places, geometry, kind)
    operations.pool.backward(backend.upload(_drawn(random, shape)), places, err_input, geometry, kind)
    return [content(backend, buffer) for buffer in (out, places, err_input) if buffer is not None]


def _step(
    rule: UpdateRule, transposed: bool, scale: float, random: Random, backend: Any, operations: Any
) -> list[Arrays]:
    """Parameter, accumulator and velocity after the step."""
    w, gradient, accumulator, velocity = (_drawn(random, SHAPE, scale) for _ in range(4))
    w.flat[:3] = 0.0, -0.0, 0.0
    stored = [array.T.copy() if transposed else array for array in (w, gradient, accumulator, velocity)]
    w, gradient, accumulator, velocity = map(backend.upload, stored)
    kept = {"accumulator": accumulator} if rule.acc_alpha else {}
    kept |= {"velocity": velocity} if rule.gradient_moment else {}
    operations.update.step(w, gradient, rule, **kept, weights_transposed=transposed)
    return [content(backend, buffer) for buffer in (w, *kept.values())]


def text() -> str:
    """What digests.json is to hold, computed by NumPy."""
    numpy = backends.get("numpy")
    return json.dumps({title: digest(title, numpy) for title in computations()}, indent=1) + "\n"


if __name__ == "__main__":
    write_whole(FILE, text().encode())
