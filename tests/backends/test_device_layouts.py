"""What arrays may look like on their way to a device and back, and what a kernel may touch there."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad import functional
from convgrad.backends.device.buffers import Buffer
from convgrad.geometry import POOL_KINDS
from convgrad.interfaces import ConvGradients
from convgrad.units.dense import All2AllTanh, GDTanh
from convgrad.update_rule import UpdateRule
from tests import operations
from tests.backends.faults import CountingDriver, around
from tests.cases import ConvCase, PoolCase, random_conv_cases, random_pool_cases
from tests.test_functional_inputs import LAYOUTS
from tests.units.twins import host, ran

CASE = ConvCase("layer", 3, (6, 7), 4, 6, (2, 3), (1, 2, 0, 1), (2, 1), (1, 2), 2, seed=7)
POOL = PoolCase("layer", 3, (9, 8), 3, (3, 2), (2, 1), (1, 0, 2, 1), (1, 2), seed=3)
FLOATS = (np.float32, np.float64)


def numbers(rng, shape, dtype):
    return (1000 * rng.standard_normal(shape)).astype(dtype)


def broadcast(array):
    """As if all were copies of the first."""
    return np.broadcast_to(array[:1], array.shape)


VIEWS = {**LAYOUTS, "broadcast": broadcast}


WITH_GAPS = ("every second", "inner slice")  # filled with NaN, which integers do not have
ROUND_TRIPS = [(view, dtype) for view in VIEWS for dtype in FLOATS]
ROUND_TRIPS += [(view, np.int64) for view in VIEWS if view not in WITH_GAPS]


@pytest.mark.parametrize(("view", "dtype"), ROUND_TRIPS)
def test_there_and_back(device_backend, dtype, view, rng):
    for shape in ((3, 4, 5, 2), (7,), (1, 1, 1, 1), (2, 0, 3)):
        laid_out = VIEWS[view](numbers(rng, shape, dtype))
        known = laid_out.tobytes()
        array = device_backend.array(laid_out)
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.get().tobytes() == known
        kept = device_backend.upload(np.zeros(shape, dtype))
        assert device_backend.upload(laid_out, kept) is kept
        assert operations.host(device_backend, kept).tobytes() == laid_out.tobytes() == known


@pytest.mark.parametrize("view", [name for name in LAYOUTS if name != "read-only"])
def test_back_into_any_layout(device_backend, view, rng):
    known = numbers(rng, (3, 4, 5, 2), np.float32)
    target = LAYOUTS[view](np.full_like(known, np.nan))
    device_backend.download(device_backend.upload(known), target)
    np.testing.assert_array_equal(target, known)


def test_memory_may_go_as_soon_as_it_is_uploaded(device_backend):
    """A thousand arrays that are overwritten and dropped at once."""
    kept = []
    for number in range(1000):
        array = np.full((number % 7 + 1, 300), number, np.float32)
        kept.append(device_backend.upload(array))
        array[...] = -1
        del array
    for number, buffer in enumerate(kept):
        assert (operations.host(device_backend, buffer) == number).all()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", POOL_KINDS)
def test_pooling_of_any_layout(device_backend, kind, view, rng):
    x = rng.standard_normal(POOL.data()[0].shape).astype(np.float32)
    keywords = {"kind": kind, "kernel": POOL.kernel, **POOL.window, "backend": device_backend}
    seen = VIEWS[view](x)
    pooled = functional.pool_forward(seen, **keywords)
    plain = functional.pool_forward(np.ascontiguousarray(seen), **keywords)
    assert pooled.output.tobytes() == plain.output.tobytes()
    d = VIEWS[view](rng.standard_normal(plain.output.shape).astype(np.float32))
    lay_out = np.asarray if view in (*WITH_GAPS, "broadcast") else VIEWS[view]
    offset = None if kind == "average" else lay_out(plain.offset)
    found = functional.pool_backward(d, x.shape, offset=offset, **keywords)
    known = functional.pool_backward(d.copy(), x.shape, offset=plain.offset, **keywords)
    assert found.tobytes() == known.tobytes()


@pytest.mark.parametrize("view", VIEWS)
def test_units_on_arrays_of_any_layout(device_backend, view, rng):
    """Weights are stepped in place, where that is possible."""
    shapes = {"input": (4, 3, 2), "weights": (5, 6), "err_output": (4, 5)}
    arrays = {name: VIEWS[view](numbers(rng, shape, np.float32) / 1e4) for name, shape in shapes.items()}
    if view in ("read-only", "broadcast"):
        arrays["weights"] = arrays["weights"].copy()  # what a step changes must be writable
    results = []
    for laid_out in (arrays, {name: array.copy() for name, array in arrays.items()}):
        forward = All2AllTanh(output_sample_shape=5, include_bias=False)
        ran(forward, device_backend, input=laid_out["input"], weights=laid_out["weights"])
        gd = GDTanh(gradient_moment=0.5).link_forward(forward)
        ran(gd, device_backend, err_output=laid_out["err_output"])
        gd.run()
        results.append([host(a).tobytes() for a in (forward.output, gd.err_input, gd.weights)])
        np.testing.assert_array_equal(laid_out["weights"], host(forward.weights))
    assert results[0] == results[1]


def test_one_device_array_in_several_places(device_backend, rng):
    """A 1x1 layer of images that are their own weights, errors and output."""
    a = rng.standard_normal((4, 1, 1, 4)).astype(np.float32)
    same = device_backend.array(a)
    found = functional.conv_backward(same, same, same, output=same, activation="tanh")
    copies = [device_backend.array(a) for _ in range(4)]
    known = functional.conv_backward(*copies[:3], output=copies[3], activation="tanh")
    for one, other in zip(found, known, strict=True):
        assert one.get().tobytes() == other.get().tobytes()
    assert same.get().tobytes() == a.tobytes()


class Guarded:
    """Buffers that lie between NaN; `check` sees whether that is still so."""

    def __init__(self, backend):
        self._backend, self._places = backend, []

    def __call__(self, array):
        """A buffer with this content."""
        margin = 4 * self._backend.driver.profile.alignment // array.itemsize
        around = np.full(array.size + 2 * margin, np.nan if array.dtype.kind == "f" else -77, array.dtype)
        around[margin : margin + array.size] = array.ravel()
        whole = self._backend.upload(around)
        part = self._backend.driver.part(whole.memory, margin * array.itemsize, array.nbytes)
        self._places.append((whole, around, margin))
        return Buffer(part, array.shape, array.dtype)

    def new(self, shape, dtype=np.float32):
        """A buffer for a result, which holds NaN itself."""
        return self(np.full(shape, -77 if dtype == np.int64 else np.nan, dtype))

    def check(self):
        for whole, before, margin in self._places:
            after = operations.host(self._backend, whole)
            for side in (slice(None, margin), slice(-margin, None)):
                assert after[side].tobytes() == before[side].tobytes()


def guarded_conv(backend, case):
    """Results of a convolution and of its gradients, and of the transposed ones, all between NaN."""
    guard, geometry = Guarded(backend), operations.conv_geometry(case)
    x, weights, bias, d = case.data(np.float32)
    inputs = guard(x), guard(weights), guard(d)
    y, images = guard.new(d.shape), guard.new(x.shape)
    backend.conv.forward(inputs[0], inputs[1], guard(bias), y, geometry, activation="tanh")
    backend.conv.deconv_forward(inputs[2], inputs[1], None, images, geometry)
    gradients = ConvGradients(*(guard.new(a.shape) for a in (x, weights, bias)))
    backend.conv.backward(*inputs, y, gradients, geometry, activation="tanh")
    adjoint = ConvGradients(guard.new(d.shape), guard.new(weights.shape), guard.new(x.shape[3:]))
    backend.conv.deconv_backward(inputs[2], inputs[1], inputs[0], None, adjoint, geometry)
    guard.check()
    return [operations.host(backend, buffer) for buffer in (y, images, *gradients, *adjoint)]


EVEN = [  # windows that no symmetric padding centres
    ConvCase("even", 2, (5, 6), 3, 4, kernel, padding, seed=9)
    for kernel in ((2, 4), (4, 2), (1, 2), (2, 1))
    for padding in ((0, 1, 1, 0), (1, 0, 0, 1))
]


@pytest.mark.parametrize("case", [CASE, *EVEN, *random_conv_cases(24, seed=21)], ids=str)
def test_convolution_touches_nothing_beside_its_arrays(device_backend, case):
    if not case.batch:
        pytest.skip("an empty batch has no memory to stand beside")
    for result in guarded_conv(device_backend, case):
        assert np.isfinite(result).all()


@pytest.mark.parametrize("case", [POOL, *random_pool_cases(18, seed=22)], ids=str)
@pytest.mark.parametrize("kind", POOL_KINDS)
def test_pooling_touches_nothing_beside_its_arrays(device_backend, kind, case):
    if not case.batch:
        pytest.skip("an empty batch has no memory to stand beside")
    guard, geometry = Guarded(device_backend), operations.pool_geometry(case)
    x, d = case.data(np.float32)
    out, err_input = guard.new(d.shape), guard.new(x.shape)
    offset = None if kind == "average" else guard.new(d.shape, np.int64)
    device_backend.pool.forward(guard(x), out, offset, geometry, kind)
    device_backend.pool.backward(guard(d), offset, err_input, geometry, kind)
    guard.check()
    for result in (out, err_input):
        assert np.isfinite(operations.host(device_backend, result)).all()


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 63), (17, 257), (2, 4099), (4099,)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_step_touches_nothing_beside_its_arrays(device_backend, shape, transposed, rng):
    guard, arrays = Guarded(device_backend), rng.standard_normal((4, *shape)).astype(np.float32)
    w, gradient, velocity, accumulator = (guard(array) for array in arrays)
    rule = UpdateRule(factor_ortho=0.1, gradient_moment=0.5, acc_alpha=0.5, acc_beta=0.5, gd_alpha=0.5)
    keywords = {"velocity": velocity, "accumulator": accumulator}
    keywords["weights_transposed"] = transposed and len(shape) == 2
    device_backend.update.step(w, gradient, rule, **keywords)
    guard.check()
    for buffer in (w, velocity, accumulator):
        assert np.isfinite(operations.host(device_backend, buffer)).all()


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_an_empty_batch_needs_neither_memory_nor_work(device_backend, activation):
    """But the gradients of weights and bias, which are zeros."""
    backend = around(device_backend, CountingDriver)
    x, weights = np.empty((0, 5, 6, 8), np.float32), np.ones((3, 6, 5, 8), np.float32)
    keywords = {"padding": (0, 1, 0, 1), "activation": activation, "backend": backend}
    y = functional.conv_forward(x, weights, np.ones(3, np.float32), **keywords)
    err_input = functional.conv_input_gradient(y, weights, (5, 6), output=y, **keywords)
    pooled = functional.pool_forward(x, "max", (2, 2), backend=backend)
    assert (y.shape, err_input.shape, pooled.output.shape) == ((0, 2, 2, 3), x.shape, (0, 3, 3, 8))
    assert backend.driver.calls["launch"] == 0
    gradient = functional.conv_weight_gradient(x, y, (5, 6), output=y, **keywords)
    assert gradient.tobytes() == bytes(weights.nbytes)
