"""Little memory: sub-blocks down to one leaf or a band of rows, with the same bits. And sizes beyond 2**31.

Sizes that no machine of a tester has are planned on a device that is not there (`tests/backends/dry.py`); it
refuses grids that a GPU would refuse.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
import pytest

from convgrad.backends.device.driver import SHAPES, OutOfDeviceMemory
from convgrad.errors import ConvgradError
from convgrad.geometry import POOL_KINDS, ConvGeometry, PoolGeometry
from convgrad.interfaces import ConvGradients
from convgrad.update_rule import UpdateRule
from tests import operations
from tests.backends.dry import dry, dry_backend
from tests.backends.faults import OtherProfile, SmallDriver, Wrapper, around
from tests.cases import ConvCase

CASES = (
    ConvCase("strided", 7, (9, 11), 4, 6, (3, 2), (1, 2, 0, 3), (2, 4), (2, 2), 2, seed=3),
    ConvCase("smooth", 5, (7, 8), 4, 6, (3, 2), (1, 2, 0, 3), groups=2, seed=4),
    ConvCase("bands", 3, (37, 41), 3, 5, (5, 3), (2, 1, 1, 2), seed=5),  # a leaf is a part of an image
    ConvCase("wide", 2, (3, 600), 2, 20, (3, 2), (1, 0, 1, 1), seed=6),  # a leaf is one row
    ConvCase("many", 70, (4, 3), 33, 18, (2, 2), seed=7),  # a leaf is several images
    ConvCase("dense", 37, (1, 1), 70, 9, (1, 1), seed=8),
)


def results(backend, case, unpack_size=None):
    """Bytes of all operations on float32 data whose sums round."""
    rng, geometry = np.random.default_rng(case.seed), operations.conv_geometry(case)
    x, weights, bias, d = (rng.standard_normal(shape).astype(np.float32) for shape in case.shapes)
    keywords = {"activation": "tanh", "unpack_size": unpack_size}
    y = operations.conv_forward(backend, x, weights, bias, geometry, **keywords)
    gradients = operations.conv_backward(backend, x, weights, d, geometry, output=y, **keywords)
    plain = operations.conv_backward(backend, x, weights, d, geometry, unpack_size=unpack_size)
    images = operations.deconv_forward(backend, d, weights, None, geometry, **keywords)
    adjoint = operations.deconv_backward(backend, d, weights, x, geometry, output=images, **keywords)
    return [array.tobytes() for array in (y, *gradients, *plain, images, *adjoint)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
@pytest.mark.parametrize("workspace", [1, 1000, 20_000, 300_000])
def test_a_small_workspace_changes_no_bit(device_backend, case, workspace):
    known = results(device_backend, case)
    small = around(device_backend, Wrapper)
    small.workspace = workspace
    assert results(small, case) == known


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
@pytest.mark.parametrize("unpack_size", [1, 2, 3, 5, 100])
def test_unpack_size_changes_no_bit(device_backend, case, unpack_size):
    assert results(device_backend, case, unpack_size) == results(device_backend, case)


LARGE = ConvCase("large", 5, (40, 42), 6, 10, (3, 5), (1, 2, 1, 2), seed=9)
OPERATIONS = ("backward", "deconv_backward", "forward")


class Prepared:
    """An operation whose arrays are on the device: the memory that it asks for is scratch memory."""

    def __init__(self, device, name, case=LARGE, **profile):
        self.backend = around(device, SmallDriver)
        self.driver = self.backend.driver
        if profile:
            self.backend.executor.driver = self.backend.driver = OtherProfile(self.driver, **profile)
        self.name, self.geometry = name, operations.conv_geometry(case)
        rng = np.random.default_rng(1)
        x, weights, bias, d = (rng.standard_normal(shape).astype(np.float32) for shape in case.shapes)
        if name == "deconv_backward":
            x, d, bias = d, x, bias[: case.channels]
        arrays = (x, weights, bias) if name == "forward" else (x, weights, d, np.tanh(d))
        results = [d.shape] if name == "forward" else [x.shape, weights.shape, bias.shape]
        self.operands = operations.uploaded(self.backend, *arrays)
        self.results = [operations.filled(self.backend, shape, np.float32) for shape in results]
        self.driver.granted.clear()

    def run(self, limit=math.inf):
        """Bytes of the results, where no piece of scratch memory is larger than `limit`."""
        results = self.results if self.name == "forward" else [ConvGradients(*self.results)]
        self.driver.limit = limit
        try:
            operation = getattr(self.backend.conv, self.name)
            operation(*self.operands, *results, self.geometry, activation="tanh")
        finally:
            self.driver.limit = math.inf
        return [operations.host(self.backend, buffer).tobytes() for buffer in self.results]


def wanted(device, name, workspace=None):
    """The results, and the largest piece of scratch memory that went into them."""
    prepared = Prepared(device, name)
    if workspace is not None:
        prepared.backend.workspace = workspace
    return prepared.run(), max(prepared.driver.granted, default=0)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("share", [0.99, 0.5, 0.1, 0.0])
def test_less_scratch_memory_than_wanted_changes_no_bit(device_backend, name, share):
    """Down to the least with which the operation can do."""
    (known, most), (_, least) = wanted(device_backend, name), wanted(device_backend, name, workspace=1)
    small = Prepared(device_backend, name)
    assert small.run(least + int(share * (most - least))) == known
    assert bool(small.driver.refused) == (least < most)


@pytest.mark.parametrize("name", ["backward", "deconv_backward"])
def test_a_device_with_small_pieces_gives_the_same_bits(device_backend, name):
    """Such as one with 1 MiB for larger layers."""
    (known, most), (_, least) = wanted(device_backend, name), wanted(device_backend, name, workspace=1)
    piece = (least + most) // 2
    assert least < piece < most
    assert Prepared(device_backend, name, max_allocation=piece).run(piece) == known


@pytest.mark.parametrize("name", OPERATIONS)
def test_where_the_least_is_not_there_the_error_names_it(device_backend, name):
    """Nothing is broken by it."""
    (known, _), (_, least) = wanted(device_backend, name), wanted(device_backend, name, workspace=1)
    small = Prepared(device_backend, name)
    with pytest.raises(
        OutOfDeviceMemory, match=rf"no room for \d+ bytes; it has {small.driver.profile.memory}"
    ) as told:
        small.run(least - 1)
    assert 0 < told.value.nbytes <= least
    assert least - told.value.nbytes < 16 * small.driver.profile.alignment
    assert small.run() == known


def test_arrays_that_are_too_large_are_named(device_backend):
    small = around(device_backend, SmallDriver)
    small.driver.limit = 1000
    with pytest.raises(OutOfDeviceMemory, match="no room for 1004 bytes"):
        small.empty((251,), np.float32)
    assert isinstance(small.empty((250,), np.float32).nbytes, int)


# What is only planned.


def scratch_memory(shape, case, name, workspace):
    """Bytes that an operation asks for beside its arrays."""
    backend, g, n = dry_backend(shape), operations.conv_geometry(case), case.batch
    backend.workspace = workspace
    x, y, weights, bias = (
        dry(size)
        for size in ((n, *g.input_shape), (n, *g.output_shape), (g.n_kernels, g.taps), (g.n_kernels,))
    )
    operation = getattr(backend.conv, name)
    if name == "forward":
        operation(x, weights, bias, y, g, activation="tanh")
    elif name == "backward":
        operation(
            x,
            weights,
            y,
            y,
            ConvGradients(dry(x.shape), dry(weights.shape), dry(bias.shape)),
            g,
            activation="tanh",
        )
    else:
        operation(
            y,
            weights,
            x,
            x,
            ConvGradients(dry(y.shape), dry(weights.shape), dry((g.channels,))),
            g,
            activation="tanh",
        )
    return max(backend.driver.allocated, default=0)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("case", [*CASES, LARGE], ids=lambda case: case.kind)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_smaller_workspace_is_kept_to_as_well_as_a_larger_one(shape, case, name):
    """What an operation cannot do without may go beyond; cut finer, it has a few partial sums more."""
    workspaces = [1 << power for power in range(26)]
    sizes = [scratch_memory(shape, case, name, workspace) for workspace in workspaces]
    least = [*accumulate(reversed(sizes), min)][::-1]
    for workspace, size, below in zip(workspaces, sizes, least, strict=True):
        assert size <= max(workspace, 1.3 * below), sizes


HUGE = {  # images, geometry
    "columns beyond 2**31": (1, ConvGeometry(2802, 2802, 32, 48, 3, 3)),
    "image beyond 2**31": (3, ConvGeometry(50_000, 50_000, 1, 2, 3, 3, padding=(1, 1, 1, 1), sliding=(2, 1))),
    "images beyond 2**31": (600, ConvGeometry(2048, 2048, 1, 1, 5, 3)),
    "long row": (1, ConvGeometry(1, 3_000_000, 1, 4, 3, 1)),
    "tall column": (2, ConvGeometry(3_000_000, 1, 3, 4, 1, 3)),
    "depthwise 7x7": (8, ConvGeometry(14, 14, 1536, 1536, 7, 7, padding=(3, 3, 3, 3), groups=1536)),
    "depthwise on many": (2, ConvGeometry(5, 5, 70_000, 70_000, 3, 3, groups=70_000)),
    "dense on images": (32, ConvGeometry(1, 1, 224 * 224 * 64, 10, 1, 1)),
    "dense on few": (32, ConvGeometry(1, 1, 10, 5_000_000, 1, 1)),
    "weights beyond 2**31": (4, ConvGeometry(1, 1, 70_000, 60_000, 1, 1)),
    "many samples": (3_000_000, ConvGeometry(1, 1, 20, 30, 1, 1)),
}


@pytest.mark.parametrize("activation", ["linear", "tanh"])
@pytest.mark.parametrize("layer", HUGE)
@pytest.mark.parametrize("shape", SHAPES)
def test_layers_of_any_size_are_planned(shape, layer, activation):
    """The grids are legal and all numbers fit into their types; scratch memory stays in proportion."""
    backend, (images, g) = dry_backend(shape), HUGE[layer]
    backend.workspace = 1 << 30  # for few sub-blocks
    x, y = dry((images, *g.input_shape)), dry((images, *g.output_shape))
    weights, bias = dry((g.n_kernels, g.ky, g.kx, g.group_channels)), dry((g.n_kernels,))
    keywords = {"activation": activation}
    backend.conv.forward(x, weights, bias, y, g, **keywords)
    gradients = ConvGradients(dry(x.shape), dry(weights.shape), dry(bias.shape))
    backend.conv.backward(x, weights, y, y, gradients, g, **keywords)
    backend.conv.deconv_forward(y, weights, None, x, g, **keywords)
    adjoint = ConvGradients(dry(y.shape), dry(weights.shape), dry((g.channels,)))
    backend.conv.deconv_backward(y, weights, x, x, adjoint, g, **keywords)
    assert len(backend.driver.launched) > 5
    most = backend.workspace + max(a.nbytes for a in (x, y)) // images * 16 + 40 * weights.nbytes
    assert max(backend.driver.allocated, default=0) <= most


@pytest.mark.parametrize("shape", SHAPES)
def test_a_size_that_no_kernel_counts_is_refused_before_any_launch(shape):
    backend, g = dry_backend(shape), ConvGeometry(1, 1, 2**32, 1, 1, 1)
    arrays = dry((2, *g.input_shape)), dry((1, 1, 1, 2**32)), dry((1,)), dry((2, *g.output_shape))
    with pytest.raises(ConvgradError, match=r"too large for this device: .* needs 4294967296"):
        backend.conv.forward(*arrays, g, activation="tanh")
    assert not backend.driver.launched


POOLS = {
    "image beyond 2**31": (3, PoolGeometry(50_000, 50_000, 1, 2, 3, sliding=(2, 1))),
    "images beyond 2**31": (600, PoolGeometry(2048, 2048, 1, 2, 2)),
    "exactly 2**31": (1, PoolGeometry(2048, 2048, 512, 2, 2)),
    "winners beyond 2**31": (1, PoolGeometry(2048, 2048, 514, 2, 2)),
    "long row": (1, PoolGeometry(1, 3_000_000, 1, 3, 1, sliding=(1, 1))),
    "many channels": (2, PoolGeometry(4, 4, 100_000_000, 2, 2)),
}


# Averages keep 1 / area of each window, which the largest image has too many of to be tried.
POOLED = [(layer, kind) for layer in POOLS for kind in POOL_KINDS]
POOLED.remove(("image beyond 2**31", "average"))


@pytest.mark.parametrize(("layer", "kind"), POOLED)
@pytest.mark.parametrize("shape", SHAPES)
def test_poolings_of_any_size_are_planned(shape, layer, kind):
    backend, (images, g) = dry_backend(shape), POOLS[layer]
    x, y = dry((images, *g.input_shape)), dry((images, *g.output_shape))
    offset = None if kind == "average" else dry(y.shape, np.int64)
    backend.pool.forward(x, y, offset, g, kind)
    backend.pool.backward(y, offset, x, g, kind)
    assert len(backend.driver.launched) == 2


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("weights", [(70_000, 60_000), (3, 2**30), (2**21, 2**11), (2**32 + 1,)], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_of_any_size_are_planned(shape, weights, transposed):
    backend, transposed = dry_backend(shape), transposed and len(weights) == 2
    weights = weights[::-1] if transposed else weights
    arrays = {name: dry(weights) for name in ("accumulator", "velocity")}
    rule = UpdateRule(factor_ortho=0.1, gradient_moment=0.5)
    backend.update.step(dry(weights), dry(weights), rule, weights_transposed=transposed, **arrays)
    assert len(backend.driver.launched) == (2 if len(weights) == 2 else 1)
