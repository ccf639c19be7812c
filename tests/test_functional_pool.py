"""Pooling: equal to the oracle and to known answers; roundings bit by bit, ties, NaN, blocks, batches."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy.ndimage import maximum_filter
from scipy.signal import correlate2d

from convgrad import functional
from convgrad.backends.numpy import NumpyBackend
from convgrad.errors import BadFormatError
from convgrad.geometry import POOL_KINDS
from convgrad.testing import assert_close, check_vjp, distinct_values
from tests import operations
from tests.cases import PoolCase, random_pool_cases
from tests.golden import reports_pooling, veles_pooling
from tests.golden.shapes import EMPTY_WINDOW
from tests.reference import pooling as oracle

DTYPES = (np.float32, np.float64)
LAYER = PoolCase("layer", 5, (9, 8), 3, (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), seed=3)
GAPS = PoolCase("gaps", 4, (7, 10), 2, (2, 1), (3, 2), count_include_pad=True, seed=4)
LAYERS = (LAYER, GAPS, PoolCase("own_step", 3, (6, 9), 4, (2, 3), seed=5))
BAD = (math.nan, -math.nan, math.inf, -math.inf, -0.0, 0.0)


def spoiled(x, rng):
    """x with a third of its values replaced by NaN, infinities and zeros of both signs."""
    x = x.copy()
    places = rng.random(x.shape) < 0.33
    x[places] = rng.choice(BAD, places.sum())
    return x


def same_numbers(found, known):
    """Equal, NaN to NaN, zeros in their sign."""
    np.testing.assert_array_equal(found, known)
    numbers = ~np.isnan(known)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(known)[numbers])


def check_maxima(backend, case, x, err_output):
    geometry = operations.pool_geometry(case)
    for kind in ("max", "maxabs"):
        output, offset = operations.pool_forward(backend, x, geometry, kind)
        known, winners = oracle.pool_forward(x, kind, case.kernel, **case.window)
        same_numbers(output, known)
        assert offset.dtype == np.int64
        np.testing.assert_array_equal(offset, winners)
        err_input = operations.pool_backward(backend, err_output, offset, geometry, kind)
        keywords = {"offset": winners, **case.window}
        known = oracle.pool_backward(err_output, x.shape, kind, case.kernel, **keywords)
        same_numbers(err_input, known)


def check_average(backend, case, x, err_output):
    geometry, precision = operations.pool_geometry(case), {"length": 64}
    output, _ = operations.pool_forward(backend, x, geometry, "average")
    assert_close(output, oracle.pool_forward(x, "average", case.kernel, **case.window)[0], **precision)
    err_input = operations.pool_backward(backend, err_output, None, geometry, "average")
    known = oracle.pool_backward(err_output, x.shape, "average", case.kernel, **case.window)
    assert_close(err_input, known, **precision)


@pytest.mark.parametrize("case", [*LAYERS, *random_pool_cases(72, seed=1)], ids=str)
def test_equal_to_the_loops_of_the_definition(backend, case, rng):
    for dtype in DTYPES:
        x, err_output = case.data(dtype)
        check_maxima(backend, case, x, err_output)
        check_maxima(backend, case, spoiled(x, rng), err_output)
        check_average(backend, case, x, err_output)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_equal_to_the_loops_over_many_geometries(backend, seed, rng):
    for case in random_pool_cases(72, seed=seed):
        x, err_output = case.data(np.float32)
        check_maxima(backend, case, spoiled(x, rng), err_output)
        check_average(backend, case, x, err_output)


@pytest.mark.parametrize("case", [*LAYERS, *random_pool_cases(12, seed=2)], ids=str)
@pytest.mark.parametrize("kind", POOL_KINDS)
def test_functions_give_what_the_operations_give(backend, case, kind):
    x, err_output = case.data(np.float32)
    geometry = operations.pool_geometry(case)
    output, offset = operations.pool_forward(backend, x, geometry, kind)
    pooled = functional.pool_forward(x, kind, case.kernel, **case.window, backend=backend)
    assert pooled.output.tobytes() == output.tobytes()
    assert (pooled.offset is None) == (kind == "average")
    if offset is not None:
        assert pooled.offset.tobytes() == offset.tobytes()
    keywords = {"offset": pooled.offset, **case.window, "backend": backend}
    err_input = functional.pool_backward(err_output, x.shape, kind, case.kernel, **keywords)
    assert err_input.flags.c_contiguous
    known = operations.pool_backward(backend, err_output, offset, geometry, kind)
    assert err_input.tobytes() == known.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("golden", [*veles_pooling.POOLS, *reports_pooling.POOLS], ids=str)
def test_known_answers(backend, golden, dtype):
    golden = golden.cast(dtype)
    arguments = {"kind": golden.kind, "kernel": golden.kernel, **golden.window, "backend": backend}
    output, offset = functional.pool_forward(golden.x, **arguments)
    same_numbers(output, golden.output)
    if golden.offset is not None:
        np.testing.assert_array_equal(offset, golden.offset)
    if golden.err_input is not None:
        found = functional.pool_backward(golden.err_output, golden.x.shape, offset=offset, **arguments)
        np.testing.assert_array_equal(found, golden.err_input)


@pytest.mark.parametrize("kind", ["max", "maxabs"])
def test_veles_known_gradient(backend, kind):
    golden = veles_pooling
    keywords = {"offset": golden.GD_OFFSET, "backend": backend}
    found = functional.pool_backward(golden.GD_ERR_OUTPUT, golden.GD_INPUT_SHAPE, kind, (2, 2), **keywords)
    np.testing.assert_array_equal(found, golden.GD_ERR_INPUT)


def test_an_average_rounds_as_written(backend, rng):
    """The sum in raster order, times 1 / area rounded once; n * (1 / n) is not 1 for every n."""
    x = rng.standard_normal((1, 7, 9, 2)).astype(np.float32)
    keywords = {"sliding": (2, 1), "padding": (1, 2, 0, 1), "backend": backend}
    output = functional.pool_forward(x, "average", (3, 5), **keywords).output
    vertical, horizontal = oracle.axes((7, 9), (3, 5), (2, 1), (1, 2, 0, 1), (1, 1), ceil=True)
    for oy, ox, c in np.ndindex(output.shape[1:]):
        total, rows, columns = np.float32(0), vertical.cells(oy), horizontal.cells(ox)
        for iy in rows:
            for ix in columns:
                total += x[0, iy, ix, c]
        inverse = np.float32(1 / (len(rows) * len(columns)))
        assert output[0, oy, ox, c].tobytes() == (total * inverse + np.float32(0)).tobytes()


def test_an_average_that_underflows_is_plus_zero(backend):
    x = np.array([-1e-45, 0, 0, 0], np.float32).reshape(1, 2, 2, 1)
    output = functional.pool_forward(x, "average", (2, 2), backend=backend).output
    assert output.tobytes() == np.zeros(1, np.float32).tobytes()


def test_errors_are_added_in_the_order_of_the_outputs(backend, rng):
    """Row by row: an order that changes the last bits of float32 sums."""
    x = np.zeros((1, 6, 7, 1), np.float32)
    x[0, 3, 3] = 1
    pooled = functional.pool_forward(x, "max", (5, 5), sliding=(1, 1), backend=backend)
    d = rng.standard_normal(pooled.output.shape) * 10.0 ** rng.integers(-4, 4, 6).reshape(1, 2, 3, 1)
    d = d.astype(np.float32)
    keywords = {"sliding": (1, 1), "offset": pooled.offset, "backend": backend}
    err_input = functional.pool_backward(d, x.shape, "max", (5, 5), **keywords)
    total = np.float32(0)
    for error in d.ravel():
        total += error
    assert (pooled.output == 1).all()
    assert err_input[0, 3, 3, 0].tobytes() == total.tobytes()


@pytest.mark.parametrize("value", [0.0, -0.0, 3.5, -math.inf, math.nan])
@pytest.mark.parametrize("kind", ["max", "maxabs"])
def test_a_constant_image_is_won_by_first_cells(backend, kind, value):
    x = np.full((2, 4, 6, 3), value, np.float32)
    output, offset = functional.pool_forward(x, kind, (2, 2), backend=backend)
    flat = np.arange(x.size).reshape(x.shape)
    np.testing.assert_array_equal(offset, flat[:, ::2, ::2])
    same_numbers(output, x[:, ::2, ::2])


def test_an_infinite_error_stays_with_the_winner(backend):
    x = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 4, 1)
    d = np.array([5, math.inf, math.nan], np.float32).reshape(1, 1, 3, 1)
    pooled = functional.pool_forward(x, "max", (2, 1), sliding=(1, 1), backend=backend)
    keywords = {"sliding": (1, 1), "offset": pooled.offset, "backend": backend}
    found = functional.pool_backward(d, x.shape, "max", (2, 1), **keywords)
    np.testing.assert_array_equal(found.ravel(), [0, 5, math.inf, math.nan])


@pytest.mark.parametrize("kind", POOL_KINDS)
@pytest.mark.parametrize("case", LAYERS, ids=str)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_past_the_batch_are_not_read_and_become_zero(backend, case, kind, count):
    x, d = case.data(np.float32)
    x[count:], d[count:] = np.nan, np.nan
    geometry = operations.pool_geometry(case)
    output, offset = operations.pool_forward(backend, x, geometry, kind, batch=count)
    part, winners = operations.pool_forward(backend, x[:count], geometry, kind)
    assert output[:count].tobytes() == part.tobytes()
    assert output[count:].tobytes() == bytes(output[count:].nbytes)
    if offset is not None:
        assert offset[:count].tobytes() == winners.tobytes()
        assert not offset[count:].any()
    err_input = operations.pool_backward(backend, d, offset, geometry, kind, batch=count)
    known = operations.pool_backward(backend, d[:count], winners, geometry, kind)
    assert err_input[:count].tobytes() == known.tobytes()
    assert err_input[count:].tobytes() == bytes(err_input[count:].nbytes)


@pytest.mark.parametrize("kind", POOL_KINDS)
@pytest.mark.parametrize("case", LAYERS, ids=str)
def test_blocks_and_threads_change_no_bit(case, kind, rng):
    """Of NumPy: bands down to one row, several images at a time, one to seven threads."""
    geometry = operations.pool_geometry(case)
    x = spoiled(rng.standard_normal(case.data()[0].shape), rng).astype(np.float32)
    if kind == "average":
        x = np.nan_to_num(x, posinf=2, neginf=3)  # inf - inf would warn
    d = rng.standard_normal((len(x), *geometry.output_shape)).astype(np.float32)
    results = set()
    for threads in (1, 2, 7):
        for workspace in (1, 2000, 9000, 30_000, 64 << 20):
            backend = NumpyBackend(threads=threads)
            backend.workspace = workspace
            output, offset = operations.pool_forward(backend, x, geometry, kind)
            err_input = operations.pool_backward(backend, d, offset, geometry, kind)
            winners = b"" if offset is None else offset.tobytes()
            results.add(np.nan_to_num(output).tobytes() + winners + err_input.tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("kind", POOL_KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 60, 90, 24), (40, 12, 9, 24), (1, 900, 290, 1)])
def test_scratch_stays_within_the_workspace(kind, dtype, shape):
    """Of NumPy; on devices pooling needs none."""
    backend = NumpyBackend(threads=1)
    backend.workspace = 1 << 20
    geometry = operations.PoolGeometry.of(shape, (3, 2), sliding=(2, 1), padding=(1, 0, 1, 1))
    x = distinct_values(shape).astype(dtype)
    out = np.empty((shape[0], *geometry.output_shape), dtype)
    offset = None if kind == "average" else np.empty(out.shape, np.int64)
    for call in (
        lambda: backend.pool.forward(x, out, offset, geometry, kind),
        lambda: backend.pool.backward(out, offset, x, geometry, kind),
    ):
        tracemalloc.start()
        try:
            call()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= backend.workspace + 150_000  # NumPy's cast buffers of 8192 elements


def test_scipy_agrees(backend, rng):
    """SciPy's filters slide over every cell and are centred; the windows wholly inside are the valid ones."""
    x = rng.standard_normal((2, 9, 10, 3))
    largest = functional.pool_forward(x, "max", (4, 3), sliding=(1, 1), backend=backend).output
    mean = functional.pool_forward(x, "average", (4, 3), sliding=(1, 1), backend=backend).output
    for n, c in np.ndindex(2, 3):
        filtered = maximum_filter(x[n, ..., c], size=(3, 4), origin=(-1, -2))[:7, :7]
        np.testing.assert_array_equal(largest[n, ..., c], filtered)
        assert_close(mean[n, ..., c], correlate2d(x[n, ..., c], np.full((3, 4), 1 / 12), "valid"), length=12)


@pytest.mark.parametrize("kind", POOL_KINDS)
@pytest.mark.parametrize("full", [False, True], ids=["direction", "every element"])
@pytest.mark.parametrize("include", [False, True])
def test_gradients_agree_with_differences(backend, kind, full, include, rng):
    x = distinct_values((2, 5, 6, 2), seed=1)
    window = {"sliding": (2, 1), "padding": (1, 0, 0, 1), "dilation": (1, 2), "count_include_pad": include}
    keywords = {**window, "backend": backend}
    pooled = functional.pool_forward(x, kind, (3, 2), **keywords)
    d = rng.standard_normal(pooled.output.shape)
    gradient = functional.pool_backward(d, x.shape, kind, (3, 2), offset=pooled.offset, **keywords)

    def forward(array):
        return functional.pool_forward(array, kind, (3, 2), **keywords).output

    check_vjp(forward, [x], d, [gradient], full=full)


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_an_empty_batch(backend, kind):
    x = np.empty((0, 5, 6, 2), np.float32)
    pooled = functional.pool_forward(x, kind, (2, 2), backend=backend)
    assert pooled.output.shape == (0, 3, 3, 2)
    keywords = {"offset": pooled.offset, "backend": backend}
    assert functional.pool_backward(pooled.output, x.shape, kind, (2, 2), **keywords).shape == x.shape


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", POOL_KINDS)
@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray,
        lambda a: np.ascontiguousarray(a[::-1, :, ::-1])[::-1, :, ::-1],
        lambda a: np.repeat(a, 2, axis=3)[..., ::2],
        lambda a: np.ascontiguousarray(a.transpose(2, 0, 3, 1)).transpose(1, 3, 0, 2),
    ],
    ids=["fortran", "reversed", "every second", "transposed"],
)
def test_strides_change_no_bit(backend, kind, dtype, view, rng):
    x = rng.standard_normal(LAYER.data()[0].shape).astype(dtype)
    keywords = {"kind": kind, "kernel": LAYER.kernel, **LAYER.window, "backend": backend}
    plain, strided = functional.pool_forward(x, **keywords), functional.pool_forward(view(x), **keywords)
    assert plain.output.tobytes() == strided.output.tobytes()
    d = rng.standard_normal(plain.output.shape).astype(dtype)
    offset = None if kind == "average" else view(plain.offset)
    known = functional.pool_backward(d, x.shape, offset=plain.offset, **keywords)
    assert functional.pool_backward(view(d), x.shape, offset=offset, **keywords).tobytes() == known.tobytes()


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_outputs_of_any_strides(kind, rng):
    """NumPy's operations write into whatever views units hand them."""
    backend, geometry = NumpyBackend(), operations.pool_geometry(LAYER)
    x, d = (array.astype(np.float32) for array in LAYER.data())
    output, offset = operations.pool_forward(backend, x, geometry, kind)
    wide = np.full((*output.shape, 2), np.nan, np.float32)
    winners = None if offset is None else np.full(output.shape, -1, order="F")
    backend.pool.forward(x, wide[..., 1], winners, geometry, kind)
    np.testing.assert_array_equal(wide[..., 1], output)
    assert np.isnan(wide[..., 0]).all()
    err_input = np.full(x.shape[::-1], np.nan, np.float32).T
    backend.pool.backward(d, winners, err_input, geometry, kind)
    np.testing.assert_array_equal(err_input, operations.pool_backward(backend, d, offset, geometry, kind))


@pytest.mark.parametrize("kind", ["max", "maxabs"])
def test_without_an_offset_the_maximum_is_the_same(backend, kind, rng):
    geometry, x = operations.pool_geometry(LAYER), rng.standard_normal(LAYER.data()[0].shape)
    known, _ = operations.pool_forward(backend, x, geometry, kind)
    out = operations.filled(backend, known.shape, known.dtype)
    backend.pool.forward(backend.upload(x), out, None, geometry, kind)
    assert operations.host(backend, out).tobytes() == known.tobytes()


PLAIN = {"kind": "max", "kernel": (2, 2), "backend": "numpy"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "min"}, "kind must be one of max, maxabs, average; got 'min'"),
        ({"kind": None}, "kind must be one of"),
        ({"kernel": 2}, r"kernel must be 2 integers \(x, y\), got 2"),
        ({"kernel": (2, 0)}, "kernel y must be at least 1, got 0"),
        ({"kernel": (7, 2)}, "kernel must fit into the padded image: along x it spans 7 cells"),
        ({"sliding": (0, 1)}, "sliding x must be at least 1, got 0"),
        ({"dilation": (1, 0)}, "dilation y must be at least 1"),
        ({"padding": (1, 1)}, r"padding must be 4 integers \(left, top, right, bottom\), got \(1, 1\)"),
        ({"padding": (0, 0, -1, 0)}, "padding right must be at least 0, got -1"),
        ({"padding": (2, 0, 0, 0)}, "padding .* leaves a window .* without a cell"),
        ({"numerics": "exact"}, "numerics must be one of fast, fixed; got 'exact'"),
        (
            {"backend": "metal"},
            "backend must be one of auto, numpy, opencl, cuda or a device of them, got 'metal'",
        ),
    ],
)
def test_wrong_options_are_named(changes, message):
    arguments = {**PLAIN, **changes}
    x, d = np.zeros((2, 4, 5, 3), np.float32), np.zeros((2, 2, 3, 3), np.float32)
    offset = np.zeros(d.shape, np.int64)
    with pytest.raises(BadFormatError, match=message):
        functional.pool_forward(x, **arguments)
    with pytest.raises(BadFormatError, match=message):
        functional.pool_backward(d, x.shape, offset=offset, **arguments)


@pytest.mark.parametrize("name", ["ceil", "count_include_pad"])
@pytest.mark.parametrize("value", ["yes", 1, None, [True]])
def test_flags_are_true_or_false(name, value):
    with pytest.raises(BadFormatError, match=f"{name} must be True or False, got"):
        functional.pool_forward(np.zeros((2, 4, 5, 3)), "average", (2, 2), **{name: value})


def test_shapes_are_compared_before_anything_as_large_as_they_is_made():
    """A thousand million windows that err_output does not have."""
    d, offset = np.zeros((1, 3, 1, 1)), np.zeros((1, 3, 1, 1), np.int64)
    for kind, winners in (("max", offset), ("average", None)):
        with pytest.raises(BadFormatError, match=r"err_output must have shape .* = \(1, 1000000000, 1, 1\)"):
            functional.pool_backward(d, (1, 10**9, 1, 1), kind, (1, 1), offset=winners)


@pytest.mark.parametrize("shape", EMPTY_WINDOW, ids=str)
def test_windows_without_a_cell_are_refused(backend, shape):
    with pytest.raises(BadFormatError, match="leaves a window"):
        functional.pool_forward(
            np.zeros((1, *shape.size, 2)), "max", shape.kernel, **shape.window, backend=backend
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offset": None}, "offset must be that of pool_forward for kind 'max', got NoneType"),
        ({"offset": [0]}, "offset must be a numpy.ndarray or a device array, got list"),
        (
            {"offset": np.zeros((2, 2, 3, 3), np.int32)},
            "offset must be int64 in native byte order, got int32",
        ),
        ({"offset": np.zeros((2, 2, 3, 3), ">i8")}, "offset must be int64 in native byte order, got >i8"),
        (
            {"offset": np.zeros((2, 2, 3, 1), np.int64)},
            r"offset must have shape \(N, OH, OW, C\) = \(2, 2, 3, 3\)",
        ),
        ({"offset": np.zeros((2, 2, 3, 3), np.int64)}, "offset must name a cell of its own window"),
        ({"kind": "average"}, "offset must be None for kind 'average', got ndarray"),
        ({"input_shape": (2, 4, 5)}, r"input_shape must be 4 integers \(N, H, W, C\), got \(2, 4, 5\)"),
        (
            {"input_shape": (3, 4, 5, 3)},
            r"err_output must have shape .* = \(3, 2, 3, 3\), got \(2, 2, 3, 3\)",
        ),
        (
            {"input_shape": (2, 4, 7, 3)},
            r"err_output must have shape .* = \(2, 2, 4, 3\), got \(2, 2, 3, 3\)",
        ),
        ({"input_shape": (2, 4, 0, 3)}, "width must be at least 1, got 0"),
        ({"input_shape": (2, 4, 5.0, 3)}, "input_shape W must be an integer, got 5.0"),
    ],
)
def test_backward_names_what_does_not_fit(backend, changes, message):
    x = distinct_values((2, 4, 5, 3))
    offset = functional.pool_forward(x, "max", (2, 2), backend=backend).offset
    arguments = {"input_shape": x.shape, "offset": offset, **PLAIN, "backend": backend, **changes}
    with pytest.raises(BadFormatError, match=message):
        functional.pool_backward(np.zeros((2, 2, 3, 3)), **arguments)
