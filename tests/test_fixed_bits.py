"""Fixed numerics: the bits of NumPy, the slow judge, on every device."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from convgrad import backends
from convgrad.backends import verdict
from convgrad.backends.verdict import Verdict
from convgrad.geometry import POOL_KINDS
from convgrad.interfaces import ACTIVATIONS
from convgrad.update_rule import UpdateRule
from tests import operations
from tests.backends.faults import Wrapper, around
from tests.cases import ConvCase, PoolCase, generator, random_conv_cases, random_pool_cases

SCALED = {"alpha": 0.7, "beta": -0.3}


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    """Devices pass their check without it: what is wrong with one must show here."""
    monkeypatch.setattr(verdict, "on", lambda _: Verdict({"device": ""}))


def fixed(backend):
    """A backend whose operations are fixed, for tests.operations."""
    found = backend.operations("fixed")
    places = {"upload": backend.upload, "download": backend.download}
    return SimpleNamespace(conv=found.conv, pool=found.pool, update=found.update, **places)


def numpy():
    return fixed(backends.get("numpy"))


def drawn(random, seed, *shapes):
    """Normal numbers plain, of many magnitudes, or so small that products are subnormal; or near ties.

    The last are sums next to halfway between two float32, nearer than float64 tells.
    """
    if seed % 4 == 3:
        sizes = (random.choice([-1, 1, -(2.0**-12), 2.0**-12], shape) for shape in shapes)
        return [(a * (1 + random.integers(-1, 2, a.shape) * 2.0**-23)).astype(np.float32) for a in sizes]
    arrays = [random.standard_normal(shape) for shape in shapes]
    if seed % 4 == 1:
        arrays = [a * 2.0 ** random.integers(-12, 13, a.shape) for a in arrays]
    if seed % 4 == 2:
        arrays = [a * 2.0 ** random.integers(-74, -60, a.shape) for a in arrays]
    return [a.astype(np.float32) for a in arrays]


def same(found, wanted):
    """Equal in every bit, both {name: array}."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert np.isfinite(array).all(), name
        unsigned = f"u{array.itemsize}"
        np.testing.assert_array_equal(found[name].view(unsigned), array.view(unsigned), err_msg=name)


# --- convolution


def layer(place, case, activation, **keywords):
    """All that the layers of a case give: convolution and its adjoint, with their gradients."""
    random, geometry = generator(case.seed), operations.conv_geometry(case)
    shapes = case.shapes
    x, w, b, d, back = drawn(random, case.seed, *shapes, (case.channels,))
    if case.seed % 2:
        w, keywords = np.ascontiguousarray(w.reshape(len(w), -1).T), {**keywords, "weights_transposed": True}
    keywords |= {"activation": activation}
    results = {"y": operations.conv_forward(place, x, w, b, geometry, **keywords)}
    given = {"output": results["y"], "old": x, **SCALED}
    gradients = operations.conv_backward(place, x, w, d, geometry, **given, **keywords)
    results |= gradients._asdict()
    images = operations.deconv_forward(place, d, w, back, geometry, **keywords)
    gradients = operations.deconv_backward(place, d, w, x, geometry, output=images, **keywords)
    results |= {"images": images} | {f"deconv {name}": a for name, a in gradients._asdict().items()}
    sums = operations.filled(place, (case.n_kernels,), np.float32)
    place.conv.bias_gradient(*operations.uploaded(place, d), sums)
    return results | {"bias alone": operations.host(place, sums)}


@cache
def judged(case, activation):
    return layer(numpy(), case, activation)


def turn(case):
    """An activation, each in its turn."""
    return ACTIVATIONS[case.seed % len(ACTIVATIONS)]


@pytest.mark.parametrize("case", [*random_conv_cases(60, seed=300)], ids=str)
def test_random_layers(device_backend, case):
    same(layer(fixed(device_backend), case, turn(case)), judged(case, turn(case)))


@pytest.mark.slow
@pytest.mark.parametrize("case", [*random_conv_cases(600, seed=9000)], ids=str)
def test_more_random_layers(device_backend, case):
    same(layer(fixed(device_backend), case, turn(case)), judged(case, turn(case)))


CHANNELS = (
    ConvCase("384 channels", 1, (3, 4), 384, 3, (2, 2), (1, 0, 0, 1), seed=3),
    ConvCase("384 kernels", 1, (4, 3), 3, 384, (2, 2), (0, 1, 1, 0), seed=6),
    ConvCase("384 both ways in groups", 2, (2, 3), 768, 770, (1, 2), groups=2, seed=12),
    ConvCase("256 channels", 1, (3, 3), 256, 5, (2, 2), seed=9),
    ConvCase("257 channels", 1, (3, 3), 257, 5, (2, 2), seed=15),
    ConvCase("85 by 3 taps", 2, (4, 5), 85, 7, (3, 3), (1, 1, 1, 1), seed=18),
    ConvCase("86 by 2 taps", 2, (4, 5), 86, 128, (3, 3), (2, 1, 0, 3), seed=21),
    ConvCase("odd channels", 2, (7, 9), 67, 33, (3, 2), (1, 0, 2, 1), (2, 1), (1, 2), seed=24),
    ConvCase("17 by 19", 3, (6, 5), 17, 19, (2, 3), (0, 2, 1, 1), (1, 2), seed=27),
    ConvCase("three groups", 3, (6, 7), 15, 21, (3, 3), (1, 1, 1, 1), (2, 3), groups=3, seed=30),
    ConvCase("depthwise", 2, (9, 8), 37, 37, (3, 3), (1, 1, 1, 1), groups=37, seed=33),
    ConvCase("many taps", 1, (17, 19), 1, 2, (17, 16), (3, 2, 1, 4), seed=36),
    ConvCase("taps outside", 2, (3, 2), 50, 40, (5, 5), (4, 3, 2, 4), seed=39),
    ConvCase("window beside the image", 1, (2, 2), 3, 2, (2, 2), (4, 5, 6, 7), (2, 3), seed=42),
)
BATCHES = tuple(
    ConvCase(f"leaves of {together}", batch, size, 5, 6, kernel, seed=60 + 3 * batch)
    for together, size, kernel in ((16, (4, 4), (1, 1)), (8, (6, 6), (2, 3)), (1, (12, 12), (1, 2)))
    for batch in (0, 1, 15, 16, 17, 33)
)
POSITIONS = tuple(
    ConvCase(f"{rows}x{columns} positions", 3, (rows, columns + 1), 4, 5, (2, 1), seed=3 * rows)
    for rows, columns in ((15, 17), (16, 16), (1, 257), (257, 1), (3, 43), (2, 64), (5, 129), (20, 27))
)
BANDS = (
    ConvCase("bands of rows", 2, (33, 40), 5, 7, (3, 2), (1, 1, 1, 1), seed=45),
    ConvCase("a row is a leaf", 2, (5, 300), 3, 2, (3, 3), (2, 1, 0, 1), dilation=(2, 1), seed=48),
    ConvCase("many bands", 1, (90, 61), 2, 3, (2, 2), sliding=(1, 1), seed=51),
    ConvCase("bands of strided windows", 2, (50, 47), 3, 4, (3, 3), (1, 2, 2, 1), (2, 2), seed=54),
)
DENSE = tuple(
    ConvCase("dense", 70, (1, 1), channels, kernels, (1, 1), seed=57 + channels)
    for channels, kernels in ((300, 10), (65, 384))
)
CASES = (*CHANNELS, *BATCHES, *POSITIONS, *BANDS, *DENSE)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layers(device_backend, case):
    same(layer(fixed(device_backend), case, turn(case)), judged(case, turn(case)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("case", [CHANNELS[7], BATCHES[-1]], ids=str)
def test_all_activations(device_backend, case, activation):
    same(layer(fixed(device_backend), case, activation), judged(case, activation))


CUT = (
    ConvCase("leaves of 4 images", 19, (7, 9), 4, 6, (3, 2), (1, 1, 1, 0), seed=3),
    ConvCase("images of several leaves", 5, (20, 19), 3, 5, (2, 3), (1, 0, 0, 1), (1, 2), seed=6),
)


@pytest.mark.parametrize("case", CUT, ids=str)
def test_any_unpack_size(device_backend, case):
    for unpack_size in range(1, case.batch + 1):
        same(layer(fixed(device_backend), case, "tanh", unpack_size=unpack_size), judged(case, "tanh"))


@pytest.mark.parametrize("case", CUT, ids=str)
@pytest.mark.parametrize("workspace", [1, 5000, 100_000])
def test_tiny_workspaces(device_backend, case, workspace):
    small = around(device_backend, Wrapper)
    small.workspace = workspace
    same(layer(fixed(small), case, "sigmoid"), judged(case, "sigmoid"))


@pytest.mark.parametrize("case", CUT, ids=str)
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_images_past_the_batch(device_backend, case, batch):
    found = (cut_to(place, case, batch) for place in (fixed(device_backend), numpy()))
    same(*found)


def cut_to(place, case, batch):
    """Results where the first images alone count."""
    x, w, b, d = drawn(generator(case.seed), case.seed, *case.shapes)
    geometry, keywords = operations.conv_geometry(case), {"activation": "relu", "batch": batch}
    y = operations.conv_forward(place, x, w, b, geometry, **keywords)
    gradients = operations.conv_backward(place, x, w, d, geometry, output=y, **keywords)
    return {"y": y, **gradients._asdict()}


# --- pooling


def pooled(place, case):
    """All kinds, forward and backward; numbers that tie and those that do not in turns."""
    geometry = operations.pool_geometry(case)
    x, d = case.data(np.float32)
    if case.seed % 2:
        x, d = drawn(generator(case.seed), case.seed, x.shape, d.shape)
    results = {}
    for kind in POOL_KINDS:
        results[kind], offset = operations.pool_forward(place, x, geometry, kind)
        if offset is not None:
            results[f"{kind} offset"] = offset
        results[f"{kind} gradient"] = operations.pool_backward(place, d, offset, geometry, kind)
    return results


POOLS = (
    *(PoolCase(f"{n} images", n, (7, 6), 5, (3, 2), (2, 1), (1, 1, 0, 0), seed=n) for n in (0, 1, 17, 33)),
    *(PoolCase(f"{c} channels", 2, (6, 9), c, (3, 3), (1, 2), seed=c) for c in (1, 7, 16, 33, 384)),
    PoolCase("large windows", 1, (40, 38), 3, (17, 19), (1, 2), (5, 4, 3, 2), seed=1),
    PoolCase("padding counts", 2, (9, 9), 3, (4, 3), (3, 2), (2, 1, 1, 2), count_include_pad=True, seed=3),
    PoolCase("long rows", 1, (2, 3001), 2, (3, 2), (2, 1), seed=5),
)


@pytest.mark.parametrize("case", [*random_pool_cases(60, seed=400), *POOLS], ids=str)
def test_pooling(device_backend, case):
    same(*(pooled(place, case) for place in (fixed(device_backend), numpy())))


@pytest.mark.slow
@pytest.mark.parametrize("case", [*random_pool_cases(600, seed=8000)], ids=str)
def test_more_pooling(device_backend, case):
    same(*(pooled(place, case) for place in (fixed(device_backend), numpy())))


# --- the training step

PARAMETERS = ((1,), (33,), (5, 7), (64, 25), (3, 4099), (2, 3, 5, 7))


def stepped(place, seed, transposed):
    """What two steps by a random rule leave in the buffers."""
    random = generator(seed)
    names = "parameter", "gradient", *(n for n in ("accumulator", "velocity") if random.integers(2))
    shape = PARAMETERS[seed % len(PARAMETERS)]
    arrays = drawn(random, seed // len(PARAMETERS), *[shape] * len(names))
    rule = UpdateRule(*random.uniform(-1, 1, 9) * random.integers(0, 2, 9))
    buffers = dict(zip(names, operations.uploaded(place, *arrays), strict=True))
    memory = {name: buffers[name] for name in names[2:]}
    turned = transposed and len(shape) == 2
    for _ in range(2):
        place.update.step(
            buffers["parameter"], buffers["gradient"], rule, weights_transposed=turned, **memory
        )
    return {name: operations.host(place, buffer) for name, buffer in buffers.items()}


@pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize("seed", range(36))
def test_steps(device_backend, seed, transposed):
    same(*(stepped(place, seed, transposed) for place in (fixed(device_backend), numpy())))
