"""What may be handed to the functions: memory layouts, dtypes, kinds of array, options; and what may not."""

from __future__ import annotations

import inspect
import itertools
import re
from functools import partial

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from convgrad import functional
from convgrad.backends.numpy import NumpyBackend
from convgrad.errors import BadFormatError
from convgrad.memory import DeviceArray
from tests.cases import ConvCase
from tests.golden.shapes import SENSELESS, TOO_LARGE

DTYPES = (np.float32, np.float64)
CASE = ConvCase("layer", 3, (6, 7), 4, 6, (2, 3), (1, 2, 0, 1), (2, 1), (1, 2), 2, seed=7)
POINTWISE = ConvCase("pointwise", 3, (6, 7), 4, 6, (1, 1), groups=2, seed=8)
SMOOTH = ConvCase("smooth", 3, (6, 7), 4, 6, (2, 3), (1, 2, 0, 1), seed=9)


def reversed_view(array):
    backwards = (slice(None, None, -1),) * array.ndim
    return array[backwards].copy()[backwards]


def every_second(array):
    wide = np.full([2 * size for size in array.shape], np.nan, array.dtype)
    wide[(slice(1, None, 2),) * array.ndim] = array
    return wide[(slice(1, None, 2),) * array.ndim]


def transposed(array):
    return (
        np.ascontiguousarray(array.T).T
        if array.ndim < 4
        else array.transpose(3, 0, 2, 1).copy().transpose(1, 3, 2, 0)
    )


def inner_slice(array):
    wide = np.full([size + 3 for size in array.shape], np.nan, array.dtype)
    inner = tuple(slice(1, size + 1) for size in array.shape)
    wide[inner] = array
    return wide[inner]


def misaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def read_only(array):
    view = array.copy()
    view.setflags(write=False)
    return view


LAYOUTS = {
    "fortran": np.asfortranarray,
    "reversed": reversed_view,
    "every second": every_second,
    "transposed": transposed,
    "inner slice": inner_slice,
    "misaligned": misaligned,
    "read-only": read_only,
}


def conv_results(backend, case, arrays, activation="tanh"):
    """Every function on the arrays x, weights, bias, err_output, output, as bytes by name."""
    x, weights, bias, d, output = arrays
    keywords = {**case.window, "activation": activation, "backend": backend}
    given = {**keywords, "output": output}
    gradients = functional.conv_backward(x, weights, d, **given)
    adjoint = {**keywords, "output_size": case.size}
    results = {
        "forward": functional.conv_forward(x, weights, bias, **keywords),
        **{f"backward {name}": array for name, array in gradients._asdict().items()},
        "input": functional.conv_input_gradient(d, weights, case.size, **given),
        "weights": functional.conv_weight_gradient(x, d, case.kernel, **given),
        "bias": functional.bias_gradient(d, backend=backend),
        "deconv": functional.deconv_forward(d, weights, None, **adjoint),
    }
    deconv = functional.deconv_backward(d, weights, x, output=x, **keywords)
    return results | {f"deconv {name}": array for name, array in deconv._asdict().items()}


def plain_arrays(case, dtype, rng):
    x, weights, bias, d = (rng.standard_normal(shape).astype(dtype) for shape in case.shapes)
    return [x, weights, bias, d, rng.standard_normal(d.shape).astype(dtype)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [CASE, POINTWISE, SMOOTH], ids=str)
def test_memory_layout_changes_no_bit(backend, case, dtype, layout, rng):
    """Each array on its own in this layout, then all of them."""
    arrays = plain_arrays(case, dtype, rng)
    known = {name: array.tobytes() for name, array in conv_results(backend, case, arrays).items()}
    for chosen in [{0}, {1}, {2}, {3}, {4}, set(range(5))]:
        laid_out = [LAYOUTS[layout](a) if i in chosen else a for i, a in enumerate(arrays)]
        assert all(np.array_equal(a, b) for a, b in zip(arrays, laid_out, strict=True))
        found = conv_results(backend, case, laid_out)
        assert {name: array.tobytes() for name, array in found.items()} == known


@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast_arrays(backend, dtype, rng):
    """All samples, kernels and errors the same memory, stride 0."""
    x, weights, bias, d, output = plain_arrays(CASE, dtype, rng)
    one = [x[:1], weights[:1], bias[:1], d[:1], output[:1]]
    shapes = [x.shape, weights.shape, bias.shape, d.shape, output.shape]
    views = [np.broadcast_to(a, shape) for a, shape in zip(one, shapes, strict=True)]
    views[3] = as_strided(d, d.shape, (0, 0, 0, d.itemsize))
    copies = [view.copy() for view in views]
    found, known = (conv_results(backend, CASE, arrays) for arrays in (views, copies))
    assert {n: a.tobytes() for n, a in found.items()} == {n: a.tobytes() for n, a in known.items()}


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_new_contiguous_and_of_the_same_dtype(backend, dtype, rng):
    arrays = plain_arrays(POINTWISE, dtype, rng)
    for activation in ("linear", "tanh"):
        for name, result in conv_results(backend, POINTWISE, arrays, activation).items():
            assert (type(result), result.dtype) == (np.ndarray, dtype), name
            assert result.flags.c_contiguous, name
            assert result.flags.writeable, name
            assert not any(np.shares_memory(result, array) for array in arrays), name


def test_no_input_is_modified_and_twice_is_as_once(backend, rng):
    arrays = plain_arrays(CASE, np.float32, rng)
    before = [array.tobytes() for array in arrays]
    first, second = (conv_results(backend, CASE, arrays) for _ in range(2))
    assert [array.tobytes() for array in arrays] == before
    assert {n: a.tobytes() for n, a in first.items()} == {n: a.tobytes() for n, a in second.items()}


def test_one_array_may_be_handed_in_several_times(backend, rng):
    """A 1x1 layer of one image that is its own weights, errors and output."""
    a = rng.standard_normal((4, 1, 1, 4)).astype(np.float32)
    keywords = {"activation": "tanh", "backend": backend}
    same = functional.conv_backward(a, a, a, output=a, **keywords)
    apart = functional.conv_backward(a.copy(), a.copy(), a.copy(), output=a.copy(), **keywords)
    for one, other in zip(same, apart, strict=True):
        assert one.tobytes() == other.tobytes()
    y = functional.conv_forward(a, a, a[0, 0, 0], backend=backend)
    assert (
        y.tobytes()
        == functional.conv_forward(a.copy(), a.copy(), a[0, 0, 0].copy(), backend=backend).tobytes()
    )


REFUSED = (
    np.float16,
    np.int32,
    np.int64,
    np.uint8,
    np.bool_,
    np.complex64,
    np.longdouble,
    object,
    ">f4",
    ">f8",
)


@pytest.mark.parametrize("dtype", REFUSED, ids=lambda d: np.dtype(d).str)
@pytest.mark.parametrize("position", range(4))
def test_other_dtypes_are_refused_by_name(backend, dtype, position, rng):
    names = ("x", "weights", "bias", "err_output")
    arrays = plain_arrays(CASE, np.float64, rng)[:4]
    arrays[position] = np.zeros(arrays[position].shape, dtype)
    message = f"{names[position]} must be float32 or float64 in native byte order, got"
    x, weights, bias, d = arrays
    keywords = {**CASE.window, "backend": backend}
    if position < 3:
        with pytest.raises(BadFormatError, match=message):
            functional.conv_forward(x, weights, bias, **keywords)
    if position != 2:
        with pytest.raises(BadFormatError, match=message):
            functional.conv_backward(x, weights, d, **keywords)


@pytest.mark.parametrize("dtypes", [*itertools.product(DTYPES, repeat=4)], ids=str)
def test_mixtures_are_refused_by_name(backend, dtypes, rng):
    x, weights, d, output = plain_arrays(CASE, np.float64, rng)[:2] + plain_arrays(CASE, np.float64, rng)[3:]
    arrays = [a.astype(dtype) for a, dtype in zip((x, weights, d, output), dtypes, strict=True)]
    keywords = {**CASE.window, "output": arrays[3], "activation": "tanh", "backend": backend}
    if len(set(dtypes)) == 1:
        assert functional.conv_backward(*arrays[:3], **keywords).weights.dtype == dtypes[0]
        return
    names = ("x", "weights", "err_output", "output")
    odd = next(name for name, dtype in zip(names, dtypes, strict=True) if dtype != dtypes[0])
    with pytest.raises(BadFormatError, match=f"{odd} must have the dtype of x"):
        functional.conv_backward(*arrays[:3], **keywords)


def test_subclasses_are_taken_as_plain_arrays(backend, rng, tmp_path):
    arrays = plain_arrays(CASE, np.float32, rng)
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=arrays[0].shape)
    mapped[...] = arrays[0]
    known = conv_results(backend, CASE, arrays)
    found = conv_results(backend, CASE, [mapped, *arrays[1:]])
    for name, array in found.items():
        assert type(array) is np.ndarray
        assert array.tobytes() == known[name].tobytes()


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda a: a.tolist(), "list"),
        (lambda a: np.ma.masked_array(a, mask=a < 0), "MaskedArray"),
        (memoryview, "memoryview"),
        (lambda a: a.dtype.type(3), "float32"),
        (lambda a: "x", "str"),
    ],
)
@pytest.mark.parametrize("position", range(3))
def test_only_arrays_are_arrays(backend, wrong, kind, position, rng):
    arrays = plain_arrays(CASE, np.float32, rng)[:3]
    arrays[position] = wrong(arrays[position])
    name = ("x", "weights", "bias")[position]
    with pytest.raises(
        BadFormatError, match=rf"{name} must be a numpy\.ndarray or a device array, got {kind}"
    ):
        functional.conv_forward(*arrays, **CASE.window, backend=backend)


def missing():
    """Calls that lack an array, and its name."""
    x, weights, bias, d = CASE.data(np.float32)
    conv, pool = functional.conv_forward, functional.pool_forward
    yield "x", lambda: conv(None, weights, bias)
    yield "weights", lambda: conv(x, None)
    yield "x", lambda: conv(None, None)
    for backward in (functional.conv_backward, functional.deconv_backward):
        for position, name in enumerate(("x", "weights", "err_output")):
            arrays = [x, weights, d]
            arrays[position] = None
            yield name, partial(backward, *arrays)
    yield "err_output", lambda: functional.conv_input_gradient(None, weights, CASE.size)
    yield "weights", lambda: functional.conv_input_gradient(d, None, CASE.size)
    yield "x", lambda: functional.conv_weight_gradient(None, d, CASE.kernel)
    yield "err_output", lambda: functional.conv_weight_gradient(x, None, CASE.kernel)
    yield "err_output", lambda: functional.bias_gradient(None)
    yield "x", lambda: functional.deconv_forward(None, weights)
    yield "weights", lambda: functional.deconv_forward(d, None)
    yield "x", lambda: pool(None, "max", (2, 2))
    yield "err_output", lambda: functional.pool_backward(None, x.shape, "average", (2, 2))
    offset = np.zeros((1, 1, 1, 1), np.int64)
    yield "err_output", lambda: functional.pool_backward(None, x.shape, "max", (2, 2), offset=offset)


@pytest.mark.parametrize(("name", "call"), [*missing()])
def test_none_is_no_array(name, call):
    message = rf"{name} must be a numpy\.ndarray or a device array, got NoneType"
    with pytest.raises(BadFormatError, match=message):
        call()


@pytest.mark.parametrize(
    "need", [np.zeros((2, 3)), np.array(3), 3, None, "bias", (), [None], [b"bias"]], ids=repr
)
def test_need_holds_names(need):
    x, weights, _, d = CASE.data(np.float32)
    with pytest.raises(
        BadFormatError, match="need must be a tuple of names from err_input, weights, bias; got"
    ):
        functional.conv_backward(x, weights, d, need=need, **CASE.window)


@pytest.mark.parametrize("values", [np.array(3), np.zeros((2, 2, 2)), None, 3], ids=repr)
def test_sizes_that_hold_no_integers_are_named(values):
    x, weights, _, d = CASE.data(np.float32)
    pool_backward = functional.pool_backward
    calls = {
        "input_size": lambda: functional.conv_input_gradient(d, weights, values, **CASE.window),
        "kernel": lambda: functional.conv_weight_gradient(x, d, values, **CASE.window),
        "input_shape": lambda: pool_backward(x, values, "average", (2, 2)),
    }
    if values is not None:
        calls["output_size"] = lambda: functional.deconv_forward(
            d, weights, output_size=values, **CASE.window
        )
    for name, call in calls.items():
        with pytest.raises(BadFormatError, match=f"^{name} "):
            call()


def test_results_that_no_address_reaches_are_refused():
    batch = np.broadcast_to(np.float32(1), (2**40, 1, 1, 1))
    with pytest.raises(BadFormatError, match=r"the result must be an array of less than 2\*\*63 bytes"):
        functional.conv_forward(batch, np.broadcast_to(np.float32(1), (2**22, 1, 1, 1)))
    with pytest.raises(BadFormatError, match="the padded input must be an array of less than"):
        functional.pool_forward(batch[:1], "max", (2**40, 2**40), padding=(2**40,) * 4)


@pytest.mark.parametrize("shape", [(2, 0, 6, 4), (2, 5, 0, 4), (0, 5, 6, 4), (2, 5, 6, 0), (2, 0, 0, 0)])
def test_the_sum_of_no_errors_is_zero(backend, shape):
    found = functional.bias_gradient(np.ones(shape, np.float32), backend=backend)
    assert found.tobytes() == bytes(4 * shape[3])


def test_device_arrays_in_device_arrays_out(backend, rng):
    arrays = plain_arrays(CASE, np.float32, rng)
    known = conv_results(backend, CASE, arrays)
    for chosen in (backend, None):  # None: the arrays know where they are
        found = conv_results(chosen, CASE, [backend.array(a) for a in arrays])
        for name, array in found.items():
            assert isinstance(array, DeviceArray)
            assert array.backend is backend
            assert array.get().tobytes() == known[name].tobytes()
    x = backend.array(arrays[0])
    pooled = functional.pool_forward(x, "max", (2, 2))
    offset = functional.pool_forward(arrays[0], "max", (2, 2), backend=backend).offset
    assert (pooled.offset.get() == offset).all()
    err_input = functional.pool_backward(pooled.output, x.shape, "max", (2, 2), offset=pooled.offset)
    assert isinstance(err_input, DeviceArray)


def test_kinds_of_array_are_not_mixed(rng):
    backend, other = NumpyBackend(), NumpyBackend()
    x, weights, bias, *_ = plain_arrays(CASE, np.float32, rng)
    message = r"weights must be a numpy\.ndarray, as x is; got a device array on 'numpy'"
    with pytest.raises(BadFormatError, match=message):
        functional.conv_forward(x, backend.array(weights), **CASE.window)
    message = r"bias must be a device array on 'numpy', as x is; got a numpy\.ndarray"
    with pytest.raises(BadFormatError, match=message):
        functional.conv_forward(backend.array(x), backend.array(weights), bias, **CASE.window)
    with pytest.raises(BadFormatError, match="weights must be a device array on 'numpy', as x is"):
        functional.conv_forward(backend.array(x), other.array(weights), **CASE.window)
    with pytest.raises(BadFormatError, match="backend must be that of the arrays, 'numpy', or None"):
        functional.conv_forward(backend.array(x), backend.array(weights), **CASE.window, backend=other)


class HalfBackend(NumpyBackend):
    """A device without double precision."""

    def supports(self, dtype):
        return np.dtype(dtype) == np.float32


def test_a_dtype_that_the_device_lacks_is_refused(rng):
    with pytest.raises(BadFormatError, match=r"arrays must have a dtype that .* has, got float64"):
        functional.bias_gradient(np.zeros((2, 3, 3, 4)), backend=HalfBackend())
    functional.bias_gradient(np.zeros((2, 3, 3, 4), np.float32), backend=HalfBackend())


def entry_points(case, dtype=np.float32):
    """Every function as a call that takes changes to its keywords."""
    x, weights, bias, d = case.data(dtype)
    return {
        "conv_forward": lambda **k: functional.conv_forward(x, weights, bias, **k),
        "conv_backward": lambda **k: functional.conv_backward(x, weights, d, **k),
        "conv_input_gradient": lambda **k: functional.conv_input_gradient(d, weights, case.size, **k),
        "conv_weight_gradient": lambda **k: functional.conv_weight_gradient(x, d, case.kernel, **k),
        "deconv_forward": lambda **k: functional.deconv_forward(d, weights, output_size=case.size, **k),
        "deconv_backward": lambda **k: functional.deconv_backward(d, weights, x, **k),
    }


ENTRY_POINTS = tuple(entry_points(CASE))


@pytest.mark.parametrize("name", ENTRY_POINTS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sliding": (0, 1)}, "sliding x must be at least 1, got 0"),
        ({"sliding": (1, 2, 3)}, r"sliding must be 2 integers \(x, y\), got \(1, 2, 3\)"),
        ({"dilation": (1, 0)}, "dilation y must be at least 1, got 0"),
        ({"dilation": (1.0, 1)}, "dilation x must be an integer, got 1.0"),
        ({"padding": (1, 1)}, r"padding must be 4 integers \(left, top, right, bottom\), got \(1, 1\)"),
        ({"padding": (0, -1, 0, 0)}, "padding top must be at least 0, got -1"),
        ({"padding": 1}, "padding must be 4 integers"),
        ({"groups": 0}, "groups must be at least 1, got 0"),
        ({"groups": True}, "groups must be an integer, got True"),
        (
            {"activation": "relu6"},
            "activation must be one of linear, tanh, sigmoid, relu, strict_relu; got 'relu6'",
        ),
        ({"activation": None}, "activation must be one of"),
        ({"numerics": "loose"}, "numerics must be one of fast, fixed; got 'loose'"),
        ({"algorithm": "winograd"}, "algorithm must be one of im2col; got 'winograd'"),
        ({"algorithm": 3}, "algorithm must be one of im2col; got 3"),
        ({"backend": "metal"}, "backend must be one of auto, numpy, opencl, cuda"),
        ({"backend": "numpy:1"}, "backend must be one of"),
        ({"backend": 3}, "backend must be a name, None or a backend object, got 3"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wrong_options_are_named_by_every_function(name, changes, message):
    arguments = {**CASE.window, "backend": "numpy", **changes}
    with pytest.raises(BadFormatError, match=message):
        entry_points(CASE)[name](**arguments)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_no_padding_and_the_only_provider_are_legal_everywhere(name):
    case = ConvCase("bare", 2, (5, 6), 2, 3, (2, 3), seed=1)
    call = entry_points(case)[name]
    plain, named = call(padding=(0, 0, 0, 0)), call(algorithm="im2col", backend="numpy")
    pairs = [(plain, named)] if isinstance(plain, np.ndarray) else zip(plain, named, strict=True)
    for one, other in pairs:
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "name", ["conv_backward", "conv_input_gradient", "conv_weight_gradient", "deconv_backward"]
)
@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu", "strict_relu"])
def test_gradients_behind_an_activation_need_its_output(name, activation):
    call = entry_points(CASE)[name]
    with pytest.raises(
        BadFormatError, match=f"output must be the forward's result where activation is '{activation}'"
    ):
        call(**CASE.window, activation=activation)
    with pytest.raises(BadFormatError, match="output must have shape"):
        call(**CASE.window, activation=activation, output=np.zeros((1, 2, 3, 4), np.float32))


@pytest.mark.parametrize("shape", [*TOO_LARGE, *SENSELESS], ids=str)
def test_windows_that_do_not_fit_are_refused_by_every_function(shape):
    x = np.zeros((2, *shape.size, 2), np.float32)
    weights = np.zeros((3, *shape.kernel[::-1], 2), np.float32)
    d = np.zeros((2, 1, 1, 3), np.float32)
    for call in (
        lambda: functional.conv_forward(x, weights, **shape.window),
        lambda: functional.conv_backward(x, weights, d, **shape.window),
        lambda: functional.conv_input_gradient(d, weights, shape.size, **shape.window),
        lambda: functional.conv_weight_gradient(x, d, shape.kernel, **shape.window),
        lambda: functional.deconv_forward(d, weights, output_size=shape.size, **shape.window),
        lambda: functional.deconv_backward(d, weights, x, **shape.window),
    ):
        with pytest.raises(BadFormatError):
            call()


@pytest.mark.parametrize("need", [(), [], "weights", ("weights", "x"), None, 3, ("Bias",), (None,)], ids=str)
@pytest.mark.parametrize("name", ["conv_backward", "deconv_backward"])
def test_need_names_gradients(name, need):
    message = f"need must be a tuple of names from err_input, weights, bias; got {need!r}"
    with pytest.raises(BadFormatError, match=re.escape(message if isinstance(need, str) else message[:60])):
        entry_points(CASE)[name](**CASE.window, need=need)


@pytest.mark.parametrize(
    "need", [["bias"], {"weights"}, ("bias", "bias"), iter(["weights", "bias"])], ids=str
)
def test_need_may_be_any_collection(need):
    names = (
        set(need) if not inspect.isgenerator(need) and not hasattr(need, "__next__") else {"weights", "bias"}
    )
    gradients = entry_points(CASE)["conv_backward"](**CASE.window, need=need)
    assert {name for name, array in gradients._asdict().items() if array is not None} == names


def zeros(*shape):
    return np.zeros(shape, np.float32)


X, W, B, D = zeros(2, 5, 6, 4), zeros(6, 3, 2, 4), zeros(6), zeros(2, 3, 5, 6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: functional.conv_forward(zeros(5, 6, 4), W),
            r"x must have 4 axes \(N, H, W, C\), got shape \(5, 6, 4\)",
        ),
        (
            lambda: functional.conv_forward(X, zeros(6, 24)),
            r"weights must have 4 axes .* got shape \(6, 24\)",
        ),
        (
            lambda: functional.conv_forward(X, zeros(6, 3, 2, 3)),
            r"weights must have shape .* = \(6, 3, 2, 4\), got",
        ),
        (
            lambda: functional.conv_forward(X, W, groups=2),
            r"weights must have shape .* = \(6, 3, 2, 2\), got",
        ),
        (
            lambda: functional.conv_forward(X, zeros(6, 3, 2, 1), groups=3),
            "groups must divide channels: 4 % 3",
        ),
        (
            lambda: functional.conv_forward(X, zeros(6, 3, 2, 1), groups=4),
            "groups must divide n_kernels: 6 % 4",
        ),
        (
            lambda: functional.conv_forward(X, W, zeros(4)),
            r"bias must have shape \(n_kernels,\) = \(6\), got \(4,\)",
        ),
        (lambda: functional.conv_forward(X, W, zeros(6, 1)), "bias must have shape"),
        (lambda: functional.conv_forward(zeros(2, 0, 6, 4), W), "height must be at least 1, got 0"),
        (lambda: functional.conv_forward(X, zeros(0, 3, 2, 4)), "n_kernels must be at least 1, got 0"),
        (
            lambda: functional.conv_backward(X, W, zeros(2, 3, 4, 6)),
            r"err_output must have shape .* = \(2, 3, 5, 6\)",
        ),
        (
            lambda: functional.conv_backward(X, W, zeros(1, 3, 5, 6)),
            r"err_output must have shape .* = \(2, 3, 5, 6\)",
        ),
        (lambda: functional.conv_backward(X, W, D, output=zeros(2, 3, 5, 1)), "output must have shape"),
        (
            lambda: functional.conv_input_gradient(D, W, (5, 7)),
            r"input_size \(5, 7\) must lead to the size of err_o",
        ),
        (lambda: functional.conv_input_gradient(D, W, 5), r"input_size must be 2 integers \(H, W\), got 5"),
        (lambda: functional.conv_input_gradient(D, W, (5, 6, 4)), "input_size must be 2 integers"),
        (lambda: functional.conv_input_gradient(zeros(3, 5, 6), W, (5, 6)), "err_output must have 4 axes"),
        (lambda: functional.conv_input_gradient(zeros(2, 3, 5, 5), W, (5, 6)), "err_output must have shape"),
        (lambda: functional.conv_input_gradient(D, zeros(6, 24), (5, 6)), "weights must have 4 axes"),
        (lambda: functional.conv_weight_gradient(X, D, (3, 2)), "err_output must have shape"),
        (lambda: functional.conv_weight_gradient(X, D, 3), r"kernel must be 2 integers \(x, y\), got 3"),
        (lambda: functional.conv_weight_gradient(X, zeros(2, 90), (2, 3)), "err_output must have 4 axes"),
        (lambda: functional.conv_weight_gradient(zeros(2, 120), D, (2, 3)), "x must have 4 axes"),
        (lambda: functional.bias_gradient(zeros(30, 6)), "err_output must have 4 axes"),
        (lambda: functional.deconv_forward(zeros(2, 3, 5), W), "x must have 4 axes"),
        (
            lambda: functional.deconv_forward(zeros(2, 3, 5, 4), W),
            r"x must have shape \(N, h, w, n_kernels\)",
        ),
        (lambda: functional.deconv_forward(D, zeros(6, 24)), "weights must have 4 axes"),
        (
            lambda: functional.deconv_forward(D, W, zeros(6)),
            r"bias must have shape \(C,\) = \(4\), got \(6,\)",
        ),
        (lambda: functional.deconv_forward(D, W, output_size=(6, 6)), r"output_size \(6, 6\) must lead back"),
        (lambda: functional.deconv_forward(D, W, output_size=5), "output_size must be 2 integers"),
        (lambda: functional.deconv_backward(D, W, zeros(2, 5, 6, 3)), "err_output must have shape"),
        (lambda: functional.deconv_backward(D, W, zeros(5, 6, 4)), "err_output must have 4 axes"),
        (lambda: functional.deconv_backward(D, W, X, output=zeros(2, 5, 6, 3)), "output must have shape"),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, message):
    with pytest.raises(BadFormatError, match=message):
        call()


FUNCTIONS = [name for name in functional.__all__ if not inspect.isclass(getattr(functional, name))]
OF_RANGES = ("gradient_nodes", "images_together", "merge_gradient_nodes")  # whose numerics are fixed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_tells_every_keyword(name):
    function = getattr(functional, name)
    parameters = inspect.signature(function).parameters
    assert not [p for p in parameters.values() if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    assert function.__doc__
    if name not in OF_RANGES:
        assert parameters["backend"].default is None
        assert parameters["numerics"].default == "fast"


def test_the_default_backend_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("CONVGRAD_BACKEND", "nonsense")
    with pytest.raises(BadFormatError, match="got 'nonsense'"):
        functional.bias_gradient(D)
    monkeypatch.setenv("CONVGRAD_BACKEND", "numpy")
    assert functional.bias_gradient(D).shape == (6,)
