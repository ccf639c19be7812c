"""How NumPy's convolution cuts its work: blocks, bands, columns, and the three ways to gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convgrad.backends.numpy import NumpyBackend, blocks, columns, conv
from convgrad.backends.numpy.columns import Columns
from convgrad.backends.numpy.products import Scratch
from convgrad.errors import BadFormatError
from convgrad.geometry import Axis, ConvGeometry
from convgrad.interfaces import ConvGradients
from tests.cases import random_conv_cases
from tests.reference import conv as reference

small = st.integers(1, 5)
paddings = st.integers(0, 6)


@st.composite
def axes(draw, name):
    numbers = draw(st.integers(1, 12)), draw(small), draw(small), draw(small), draw(paddings), draw(paddings)
    size, kernel, stride, dilation, before, after = numbers
    assume(before + size + after >= (kernel - 1) * dilation + 1)
    axis = Axis(name, size, kernel, stride, dilation, before, after)
    return axis.adjoint if stride == 1 and draw(st.booleans()) else axis


@given(
    batch=st.integers(0, 40),
    rows=st.integers(1, 30),
    threads=small,
    budget=st.integers(1, 10**7),
    per_row=st.integers(1, 10**5),
    unpack_size=st.none() | small,
)
def test_every_row_of_every_image_is_in_one_block_and_blocks_fit(
    batch, rows, threads, budget, per_row, unpack_size
):
    plan = blocks.plan_blocks(
        lambda images, band: images * band * per_row,
        100,
        batch=batch,
        rows=rows,
        work=10**9,
        budget=budget,
        threads=threads,
        unpack_size=unpack_size,
    )
    seen = np.zeros((batch, rows), int)
    for worker in range(plan.workers):
        for images, band in plan.of_worker(worker):
            assert unpack_size is None or images.stop - images.start <= unpack_size
            seen[images, band.start : band.stop] += 1
    assert (seen == 1).all()
    largest = plan.images * plan.rows * per_row
    assert plan.workers * (largest + 100) <= budget or largest == per_row  # one row is the least there is


@given(axes("y"), axes("x"), st.sampled_from([(1, 1), (3, 1), (4, 2)]), st.booleans(), st.data())
def test_pack_is_the_adjoint_of_unpack(y, x, channels_groups, planar, data):
    channels, groups = channels_groups
    layer = Columns(y, x, channels, groups, planar)
    first = data.draw(st.integers(0, y.output - 1))
    band = range(first, data.draw(st.integers(first, y.output - 1)) + 1)
    rng = np.random.default_rng(1)
    images = rng.integers(-3, 4, (2, y.size, x.size, channels)).astype(float)
    scratch = Scratch(images.dtype)
    unpacked = layer.unpack(images, band, scratch).copy()
    packed = np.zeros_like(images)
    errors = layer.matrix(scratch, 2, len(band))
    errors[...] = rng.integers(-3, 4, errors.shape)
    weighed = (unpacked * errors).sum()
    layer.pack(packed, band, scratch, 1)
    assert (packed * images).sum() == weighed
    assert unpacked.shape == (groups, 2 * len(band) * x.output, layer.taps)


@given(axes("y"), st.integers(1, 4))
def test_bands_read_all_rows_and_own_each_once(y, rows):
    layer = Columns(y, Axis("x", 1, 1), 1, 1, planar=False)
    owner = 0
    for start in range(0, y.output, rows):
        band = range(start, min(start + rows, y.output))
        read = layer.source_rows(band)
        assert read.start == owner
        owner += layer.owned_rows(band)
        assert owner <= read.stop
        assert read.stop - read.start <= layer.most_source_rows(rows)
        for output in band:
            for tap in range(y.kernel):
                _, cells = y.reach(tap, range(output, output + 1))
                assert all(read.start <= cell < read.stop for cell in cells)
    assert owner == y.size


def tiny_blocks(monkeypatch, threads):
    """Make every call use all threads, on as little as it can at once."""
    monkeypatch.setattr(blocks, "LEAST_WORK", 0)
    monkeypatch.setattr(blocks, "CACHE_BYTES", 1)
    backend = NumpyBackend(threads=threads)
    backend.workspace = 4096
    return backend


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("way", ["gather", "pack"])
def test_gradients_by_either_way_in_bands_and_by_several_workers(way, threads, monkeypatch):
    backend = tiny_blocks(monkeypatch, threads)
    gathers = conv.gathers
    monkeypatch.setattr(
        conv,
        "gathers",
        lambda geometry, room: (geometry.sliding == (1, 1) and way == "gather") or geometry.pointwise,
    )
    ways = set()
    for case in random_conv_cases(96, seed=9):
        x, weights, bias, d = case.data(np.float32)
        geometry = ConvGeometry(*case.size, case.channels, case.n_kernels, *case.kernel, **case.window)
        ways.add(gathers(geometry, 10**6))
        out = ConvGradients(*(np.full_like(a, np.nan) for a in (x, weights, bias)))
        backend.conv.backward(x, weights, d, None, out, geometry)
        assert (out.err_input == reference.conv_input_gradient(d, weights, case.size, **case.window)).all()
        assert (out.weights == reference.conv_weight_gradient(x, d, case.kernel, **case.window)).all()
        assert (out.bias == reference.bias_gradient(d)).all()
    assert ways == {False, True}


def test_weights_gradients_too_large_for_two_are_summed_in_slices_of_kernels(monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_WORK", 0)
    backend = NumpyBackend(threads=2)
    backend.workspace = 40_000
    rng = np.random.default_rng(1)
    geometry = ConvGeometry(5, 4, 32, 48, 2, 3, (0, 1, 1, 0))
    x = rng.integers(-3, 4, (6, 5, 4, 32)).astype(np.float32)
    d = rng.integers(-3, 4, (6, *geometry.output_shape)).astype(np.float32)
    out = np.full(geometry.weights_shape, np.nan, np.float32)
    assert out.nbytes > backend.workspace // 2
    slices = []
    plain = conv.pack_gradients.__globals__["Sums"]
    monkeypatch.setitem(
        conv.pack_gradients.__globals__,
        "Sums",
        lambda weights, bias, plan, rows: (
            slices.append((plan.workers, rows)),
            plain(weights, bias, plan, rows),
        )[1],
    )
    backend.conv.backward(x, None, d, None, ConvGradients(weights=out), geometry)
    [(workers, rows)] = slices
    assert workers == 1
    assert rows < 48
    assert (out == reference.conv_weight_gradient(x, d, (2, 3), padding=(0, 1, 1, 0))).all()


def test_same_bits_from_run_to_run():
    backend = NumpyBackend(threads=2)
    rng = np.random.default_rng(1)
    geometry = ConvGeometry(28, 28, 16, 24, 3, 3, (1, 1, 1, 1))
    x, weights = rng.normal(size=(9, 28, 28, 16)), rng.normal(size=(24, 3, 3, 16))
    d = rng.normal(size=(9, 28, 28, 24))
    results = set()
    for _ in range(20):
        out = ConvGradients(np.empty_like(x), np.empty_like(weights), np.empty(24))
        backend.conv.backward(x, weights, d, None, out, geometry)
        results.add(b"".join(array.tobytes() for array in out))
    assert len(results) == 1


def test_few_channels_are_unpacked_in_planes_and_pixels_not_at_all():
    assert columns.columns_of_x(ConvGeometry(9, 8, 3, 64, 3, 3)).planar
    assert not columns.columns_of_x(ConvGeometry(9, 8, 64, 3, 3, 3)).planar
    pixels = columns.columns_of_x(ConvGeometry(9, 8, 6, 5, 1, 1))
    image = np.arange(2 * 9 * 8 * 6.0).reshape(2, 9, 8, 6)
    assert np.shares_memory(pixels.unpack(image, range(9), Scratch(image.dtype)), image)


def test_an_unknown_algorithm_is_refused(rng):
    x, w = rng.normal(size=(1, 3, 3, 1)), rng.normal(size=(1, 1, 1, 1))
    with pytest.raises(BadFormatError, match=r"algorithm must be one of im2col; got 'winograd'"):
        NumpyBackend().conv.forward(
            x, w, None, np.empty_like(x), ConvGeometry(3, 3, 1, 1, 1, 1), algorithm="winograd"
        )


LAYERS = {
    "pack": ConvGeometry(19, 21, 8, 12, 3, 2, (1, 2, 0, 3), (2, 4), (2, 2), 2),
    "gather": ConvGeometry(17, 18, 8, 12, 3, 2, (1, 2, 0, 3), groups=2),
    "wide": ConvGeometry(8, 7, 64, 256, 3, 3, (1, 1, 1, 1)),
    "pixels": ConvGeometry(14, 13, 32, 24, 1, 1),
}


@pytest.mark.parametrize("workspace", [60_000, 300_000, 2 << 20])
@pytest.mark.parametrize("layer", LAYERS)
def test_bits_depend_neither_on_the_other_gradients_nor_on_the_layout(layer, workspace, monkeypatch, rng):
    monkeypatch.setattr(blocks, "LEAST_WORK", 0)
    backend, geometry = NumpyBackend(threads=2), LAYERS[layer]
    backend.workspace = workspace
    x, weights = rng.normal(size=(7, *geometry.input_shape)), rng.normal(size=geometry.weights_shape)
    d, bias = rng.normal(size=(7, *geometry.output_shape)), np.empty(geometry.n_kernels)

    def gradients(*need, order="C"):
        arrays = {"err_input": x, "weights": weights, "bias": bias}
        wanted = ConvGradients(*(np.empty_like(a) if name in need else None for name, a in arrays.items()))
        operands = (np.array(array, order=order) for array in (x, weights, d))
        backend.conv.backward(*operands, None, wanted, geometry)
        return {name: array.tobytes() for name, array in wanted._asdict().items() if array is not None}

    whole = gradients("err_input", "weights", "bias")
    assert gradients("err_input", "weights", "bias", order="F") == whole
    for need in [("err_input",), ("weights",), ("bias",), ("err_input", "bias"), ("weights", "bias")]:
        assert gradients(*need) == {name: whole[name] for name in need}
