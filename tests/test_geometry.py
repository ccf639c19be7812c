"""The shape rules, against counting by hand: properties over random windows, and every refusal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convgrad.errors import BadFormatError
from convgrad.geometry import Axis, ConvGeometry, DeconvGeometry, PoolGeometry, windows
from convgrad.geometry.checks import common_dtype, option, rank, shape_of, whole
from convgrad.geometry.conv import smallest_output_size
from convgrad.geometry.windows import check_offset, first_cells, origins, taps
from tests.golden.shapes import EMPTY_WINDOW, REACHABLE, SENSELESS, TOO_LARGE
from tests.reference import pooling as oracle
from tests.reference.conv import output_size

SMALL = {"kernel": st.integers(1, 5), "stride": st.integers(1, 5), "dilation": st.integers(1, 3)}


def fits(size, kernel, dilation, before, after):
    return (kernel - 1) * dilation + 1 <= before + size + after


@st.composite
def axes(draw, ceil=False):
    size, before, after = draw(st.integers(1, 12)), draw(st.integers(0, 6)), draw(st.integers(0, 6))
    kernel, stride, dilation = (draw(SMALL[name]) for name in ("kernel", "stride", "dilation"))
    assume(fits(size, kernel, dilation, before, after))
    return Axis("x", size, kernel, stride, dilation, before, after, draw(st.booleans()) if ceil else False)


def place(axis, output, tap):
    return output * axis.stride - axis.before + tap * axis.dilation


def count_windows(axis):
    """Windows that lie in the padded image, by trying one after the other."""
    last = axis.size + axis.after
    return sum(place(axis, output, axis.kernel - 1) < last for output in range(axis.padded + 1))


@given(axes())
def test_output_counts_the_windows_that_fit(axis):
    assert axis.output == count_windows(axis) >= 1


@given(axes(ceil=True))
def test_ceil_adds_a_window_for_a_step_not_filled(axis):
    floor = count_windows(axis)
    cells_left = place(axis, floor - 1, axis.kernel - 1) < axis.size + axis.after - 1
    begins_early = place(axis, floor, 0) < axis.size
    assert axis.output == floor + (axis.ceil and cells_left and begins_early)


@given(axes(ceil=True), st.data())
def test_reach_lists_the_outputs_whose_tap_is_inside(axis, data):
    start = data.draw(st.integers(0, axis.output))
    band = data.draw(st.sampled_from([None, range(start, data.draw(st.integers(start, axis.output)))]))
    for tap in range(axis.kernel):
        outputs, cells = axis.reach(tap, band)
        wanted = [(o, place(axis, o, tap)) for o in (range(axis.output) if band is None else band)]
        assert list(zip(outputs, cells, strict=True)) == [(o, c) for o, c in wanted if 0 <= c < axis.size]


def inside(axis, output):
    return [cell for tap in range(axis.kernel) if 0 <= (cell := place(axis, output, tap)) < axis.size]


@given(axes(ceil=True))
def test_covered_says_whether_every_window_has_a_cell(axis):
    assert axis.covered == all(inside(axis, output) for output in range(axis.output))


@given(st.data())
def test_taps_far_apart_may_step_over_the_image(data):
    """Many windows that start before an image smaller than the dilation."""
    dilation = data.draw(st.integers(2, 30))
    size = data.draw(st.integers(1, dilation))
    kernel, stride = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 40))
    before = data.draw(st.integers(0, (kernel - 1) * dilation))
    after = data.draw(st.integers(0, dilation))
    assume(fits(size, kernel, dilation, before, after))
    axis = Axis("x", size, kernel, stride, dilation, before, after, data.draw(st.booleans()))
    assert axis.covered == all(inside(axis, output) for output in range(axis.output))


def test_windows_are_not_tried_one_by_one():
    """A thousand million of them, some of which start before the image, are judged at once."""
    far = 10**9
    assert PoolGeometry(far, 1, 1, 1, 1).output_shape == (far, 1, 1)
    window = {"sliding": (1, 1), "ceil": False}
    assert (
        PoolGeometry(3, 1, 1, 1, far, padding=(0, far - 1, 0, far - 1), **window).output_shape[0] == far + 2
    )
    with pytest.raises(BadFormatError, match=r"leaves a window of kernel .* along y"):
        PoolGeometry(3, 1, 1, 1, 2, padding=(0, far, 0, far), dilation=(1, far), **window)


@given(axes(ceil=True))
def test_a_step_past_the_image_is_as_good_as_one_of_any_length(axis):
    far = replace(axis, stride=10**30)
    assert far.output == 1
    assert far.stride == axis.padded
    for tap in range(axis.kernel):
        assert far.reach(tap) == axis.reach(tap, range(1))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "before", "after", "windows"),
    [
        (5, 2, 2, 0, 0, 3),
        (5, 3, 2, 0, 0, 2),
        (4, 2, 3, 0, 0, 2),
        (3, 2, 4, 0, 0, 1),  # the next would start beyond the image
        (5, 2, 2, 1, 0, 3),
        (6, 3, 2, 1, 1, 4),
        (6, 3, 3, 2, 2, 3),  # a fourth would start at cell 7
        (2, 3, 3, 2, 2, 2),
        (4, 2, 3, 0, 1, 2),
        (3, 2, 2, 0, 2, 2),  # the third would start in the padding behind the image
    ],
)
def test_ceil_sizes_worked_out_by_hand(size, kernel, stride, before, after, windows):
    assert Axis("x", size, kernel, stride, 1, before, after, ceil=True).output == windows


def conv(shape, **changes):
    sizes = {"height": shape.size[0], "width": shape.size[1], "channels": 2, "n_kernels": 3}
    return ConvGeometry(**{**sizes, "kx": shape.kernel[0], "ky": shape.kernel[1], **shape.window, **changes})


def pool(shape):
    return PoolGeometry(*shape.size, 2, *shape.kernel, **shape.window)


@pytest.mark.parametrize("shape", TOO_LARGE, ids=str)
@pytest.mark.parametrize("make", [conv, pool])
def test_a_kernel_larger_than_the_padded_image_is_refused(make, shape):
    with pytest.raises(BadFormatError, match=r"kernel must fit into the padded image: along [xy] it spans"):
        make(shape)


@pytest.mark.parametrize("shape", SENSELESS, ids=str)
@pytest.mark.parametrize("make", [conv, pool])
def test_senseless_windows_are_refused_by_name(make, shape):
    with pytest.raises(BadFormatError, match=shape.why.split()[0]):
        make(shape)


@pytest.mark.parametrize("shape", EMPTY_WINDOW, ids=str)
def test_a_pooling_window_without_a_cell_is_refused(shape):
    with pytest.raises(BadFormatError, match=r"padding .* leaves a window"):
        pool(shape)


def conv_sizes(**changes):
    sizes = {"height": 5, "width": 6, "channels": 4, "n_kernels": 6, "kx": 2, "ky": 3}
    return {**sizes, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        *({name: value} for name in conv_sizes() for value in (0, -1, 1.0, True, "2", None)),
        *({"groups": value} for value in (0, -1, 3, 4, 2.0, True)),
        *({"sliding": value} for value in (2, (2,), (1, 2, 3), "12", (1.0, 1), None)),
        *({"dilation": value} for value in (2, (0, 1), (1, -1), (True, 1))),
        *({"padding": value} for value in (0, (1, 1), (0, 0, 0), (0, 0, 0, -1), (0, 0, 0.5, 0), None)),
    ],
    ids=str,
)
def test_every_field_of_a_convolution_is_checked(changes):
    with pytest.raises(BadFormatError, match=next(iter(changes))):
        ConvGeometry(**conv_sizes(**changes))


def test_numpy_integers_and_lists_are_as_good_as_ints_and_tuples():
    numbers = {name: np.int32(value) for name, value in conv_sizes().items()}
    lists = {"padding": [1, 2, 3, 4], "sliding": np.array([2, 1]), "dilation": [1, 2]}
    tuples = {"padding": (1, 2, 3, 4), "sliding": (2, 1), "dilation": (1, 2)}
    assert ConvGeometry(**numbers, **lists) == ConvGeometry(**conv_sizes(), **tuples)
    assert hash(ConvGeometry(**numbers, **lists)) == hash(ConvGeometry(**conv_sizes(), **tuples))


def test_the_shapes_of_a_lopsided_convolution():
    geometry = ConvGeometry(**conv_sizes(), padding=(1, 2, 3, 4), sliding=(2, 3), dilation=(3, 1), groups=2)
    assert geometry.output_shape == (*output_size((5, 6), (2, 3), (1, 2, 3, 4), (2, 3), (3, 1)), 6)
    assert (geometry.input_shape, geometry.weights_shape) == ((5, 6, 4), (6, 3, 2, 2))
    assert (geometry.group_channels, geometry.group_kernels, geometry.taps) == (2, 3, 12)


@pytest.mark.parametrize("case", REACHABLE, ids=str)
def test_every_reachable_size_of_the_adjoint_and_no_other(case):
    window = {"sliding": (1, case.sliding), "dilation": (1, case.dilation)}
    window["padding"] = (0, case.top, 0, case.bottom)
    x, weights = np.empty((2, case.rows, 4, 3)), np.empty((3, case.kernel, 2, 1))
    least = smallest_output_size((case.rows, 4), (2, case.kernel), **window)
    assert least == (case.heights.start, 5)
    assert DeconvGeometry.of(x, weights, **window).output_shape == (*least, 1)
    for height in case.heights:
        geometry = DeconvGeometry.of(x, weights, output_size=(height, 5), **window)
        assert geometry.output_shape == (height, 5, 1)
    for height in (case.heights.start - 1, case.heights.stop):
        with pytest.raises(BadFormatError, match=r"output_size .* must lead back"):
            DeconvGeometry.of(x, weights, output_size=(height, 5), **window)


def test_an_adjoint_whose_padding_takes_all_is_refused():
    with pytest.raises(BadFormatError, match=r"padding .* leaves no output"):
        DeconvGeometry.of(np.empty((1, 1, 1, 3)), np.empty((3, 2, 2, 1)), padding=(1, 1, 1, 1))


@st.composite
def poolings(draw):
    """Small poolings as (PoolGeometry, its axes written by the oracle)."""
    size = draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
    window = {"sliding": draw(pairs), "dilation": draw(pairs), "ceil": draw(st.booleans())}
    window["padding"] = draw(st.tuples(*[st.integers(0, 2)] * 4))
    try:
        geometry = PoolGeometry(*size, 2, *kernel, **window)
    except BadFormatError:
        assume(False)
    return geometry, oracle.axes(size, kernel, **window)


@given(poolings(), st.data())
def test_taps_and_flat_indices_name_every_cell_of_every_window(pooling, data):
    geometry, (vertical, horizontal) = pooling
    height, width, channels = geometry.output_shape
    row = data.draw(st.integers(0, height - 1))
    rows = range(row, data.draw(st.integers(row + 1, height)))
    indices = np.arange(3 * geometry.height * geometry.width * channels).reshape(3, *geometry.input_shape)
    images = slice(1, 3)
    found = {(n, oy, ox): [] for n in range(2) for oy in range(len(rows)) for ox in range(width)}
    start = origins(geometry, images, rows)
    for tap in taps(geometry, rows):
        cells = indices[images][tap.cells]
        np.testing.assert_array_equal(start[tap.outputs] + tap.local, cells)
        places = np.moveaxis(np.indices(start.shape[:3])[(slice(None), *tap.outputs)], 0, -1).reshape(-1, 3)
        for where, cell in zip(places, cells[..., 0].ravel(), strict=True):
            found[tuple(map(int, where))].append(int(cell))
    for (n, oy, ox), cells in found.items():
        inside = [(iy, ix) for iy in vertical.cells(rows[oy]) for ix in horizontal.cells(ox)]
        assert cells == [indices[images][n, iy, ix, 0] for iy, ix in inside]


@given(axes(ceil=True))
def test_first_cells(axis):
    for output, cell in enumerate(first_cells(axis, range(axis.output))):
        inside = [c for t in range(axis.kernel) if 0 <= (c := place(axis, output, t)) < axis.size]
        assert not inside or cell == inside[0]


@given(poolings(), st.data())
def test_area_counts_the_divisors(pooling, data):
    geometry, (vertical, horizontal) = pooling
    cells = [[len(vertical.cells(y)) * len(horizontal.cells(x)) for x in range(horizontal.count())]
             for y in range(vertical.count())]  # fmt: skip
    height = vertical.count()
    start = data.draw(st.integers(0, height - 1))
    stop = data.draw(st.integers(start + 1, height))
    np.testing.assert_array_equal(geometry.area(range(start, stop)), cells[start:stop])


@given(poolings())
def test_area_with_the_padding_counts_the_cells_of_the_padded_image(pooling):
    geometry, _ = pooling
    padded = replace(geometry, count_include_pad=True)
    rows, columns = (
        [
            sum(-a.before <= place(a, o, t) < a.size + a.after for t in range(a.kernel))
            for o in range(a.output)
        ]
        for a in (geometry.y, geometry.x)
    )
    np.testing.assert_array_equal(padded.area(range(len(rows))), np.outer(rows, columns))


@pytest.mark.parametrize("block", [1, 20, 2**14])
def test_an_offset_must_lie_in_its_own_window(block, monkeypatch):
    """Also where the outputs are checked row by row, or a few rows at a time."""
    monkeypatch.setattr(windows, "BLOCK", block)
    geometry = PoolGeometry(4, 5, 2, 2, 2, sliding=(2, 1), padding=(1, 0, 0, 0))
    x = np.arange(3 * 4 * 5 * 2).reshape(3, 4, 5, 2)
    offset = np.ascontiguousarray(x[:, 1:, 0::2][:, :, :3])
    check_offset(offset, geometry, 3)
    for n, oy, ox, c in ((0, 0, 0, 1), (2, 2, 2, 0), (1, 1, 1, 1)):
        for wrong in (
            -1,
            x.size,
            offset[n, oy, ox, c] + 1,
            offset[n - 1, oy, ox, c],
            offset[n, oy - 2, ox, c],
        ):
            spoiled = offset.copy()
            spoiled[n, oy, ox, c] = wrong
            with pytest.raises(
                BadFormatError, match=rf"offset must name a cell .* got {wrong} at \({n}, {oy}, {ox}, {c}\)"
            ):
                check_offset(spoiled, geometry, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"padding": (10**9,) * 4},
            r"the padded input must be an array of less than 2\*\*63 bytes, got shape",
        ),
        ({"height": 10**30}, "the padded input"),
        ({"channels": 10**30}, "the padded input"),
        ({"n_kernels": 10**30}, "the weights"),
        ({"n_kernels": 2**55, "padding": (9, 9, 9, 9), "kx": 1, "ky": 1, "channels": 1}, "the output"),
    ],
    ids=str,
)
def test_arrays_that_no_address_reaches_are_refused(changes, message):
    with pytest.raises(BadFormatError, match=message):
        ConvGeometry(**{**conv_sizes(), **changes})
    if "n_kernels" not in changes:
        sizes = {**conv_sizes(), **changes}
        del sizes["n_kernels"]
        with pytest.raises(BadFormatError, match=message):
            PoolGeometry(**sizes)


def test_a_sliding_of_any_length_is_taken():
    assert ConvGeometry(**conv_sizes(), sliding=(10**30, 10**30)).output_shape == (1, 1, 6)


@pytest.mark.parametrize("values", [np.array(3), np.zeros((2, 2)), None, 3, "12", b"12", object()], ids=repr)
def test_pairs_and_paddings_of_what_holds_no_integers(values):
    for name in ("padding", "sliding", "dilation"):
        with pytest.raises(BadFormatError, match=f"^{name}"):
            ConvGeometry(**conv_sizes(), **{name: values})
    for name, arguments in (("input_shape", (values, (2, 2))), ("kernel", ((2, 4, 5, 3), values))):
        with pytest.raises(BadFormatError, match=f"^{name} "):
            PoolGeometry.of(*arguments)


@pytest.mark.parametrize("name", ["ceil", "count_include_pad"])
def test_flags_are_true_or_false(name):
    assert getattr(PoolGeometry(4, 5, 2, 2, 2, **{name: np.bool_(True)}), name) is True
    for value in (1, 0, None, "yes", np.array([True, False])):
        with pytest.raises(BadFormatError, match=f"{name} must be True or False, got"):
            PoolGeometry(4, 5, 2, 2, 2, **{name: value})


def test_no_arrays_have_no_dtype():
    with pytest.raises(BadFormatError, match="one of x, bias must be an array, got None only"):
        common_dtype({"x": None, "bias": None})


@pytest.mark.parametrize("value", [1.0, True, np.bool_(True), "1", None, np.float32(2), [1]])
def test_whole_numbers_only(value):
    with pytest.raises(BadFormatError, match="kx must be an integer, got"):
        whole("kx", value, least=0)


def test_messages_name_argument_wish_and_value():
    array = np.zeros((2, 3), np.float32)
    with pytest.raises(BadFormatError, match=r"x must have 4 axes \(N, H, W, C\), got shape \(2, 3\)"):
        rank("x", array, "(N, H, W, C)")
    with pytest.raises(BadFormatError, match=r"bias must have shape \(n,\) = \(4\), got \(2, 3\)"):
        shape_of("bias", array, (4,), "(n,)")
    with pytest.raises(BadFormatError, match="kind must be one of max, average; got 'min'"):
        option("kind", "min", ("max", "average"))
    with pytest.raises(BadFormatError, match="w must have the dtype of x, float32; got float64"):
        common_dtype({"x": array, "b": None, "w": array.astype(np.float64)})
