"""The training step: known answers, the oracle, the order of roundings bit by bit, and all or nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convgrad.backends.numpy import NumpyBackend
from convgrad.errors import BadFormatError
from convgrad.testing import assert_close
from convgrad.update_rule import UpdateRule
from tests import operations
from tests.golden.steps import STEPS
from tests.reference.update import update

DTYPES = (np.float32, np.float64)
FULL = {
    "learning_rate": 0.3,
    "weights_decay": 0.01,
    "l1_vs_l2": 0.3,
    "gradient_moment": 0.7,
    "factor_ortho": 0.1,
    "acc_alpha": 0.6,
    "acc_beta": 0.8,
    "gd_alpha": 0.4,
    "gd_beta": 0.9,
}


class Parameter:
    """A parameter with its buffers on a backend; content comes and goes as ndarrays."""

    def __init__(self, backend, w, velocity=None, accumulator=None, transposed=False):
        self.backend, self.transposed = backend, transposed
        self.buffers = {"w": w, "velocity": velocity, "accumulator": accumulator}
        self.buffers = {
            name: self._upload(array) for name, array in self.buffers.items() if array is not None
        }

    def _upload(self, array):
        return self.backend.upload((array.T if self.transposed else array).copy())

    def step(self, gradient, rule):
        self.backend.update.step(
            self.buffers["w"],
            self._upload(gradient),
            rule,
            accumulator=self.buffers.get("accumulator"),
            velocity=self.buffers.get("velocity"),
            weights_transposed=self.transposed,
        )

    def get(self, name):
        buffer = self.buffers[name]
        host = np.empty(buffer.shape, buffer.dtype)
        self.backend.download(buffer, host)
        return host.T if self.transposed else host


@pytest.fixture
def arrays(rng):
    """Weights, gradient, velocity and accumulator (5, 7); some weights are zeros."""
    w, *others = (rng.standard_normal((5, 7)) for _ in range(4))
    w[1, :2] = 0.0, -0.0
    return w, *others


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("golden", STEPS, ids=str)
def test_known_steps(backend, golden, dtype):
    golden = golden.cast(dtype)
    keywords = dict(golden.keywords)
    zeros = np.zeros_like(golden.weights)
    accumulator = zeros if keywords.pop("accumulate_gradient", False) else None
    parameter = Parameter(backend, golden.weights, zeros, accumulator)
    for rate in golden.learning_rates:
        parameter.step(golden.gradient, UpdateRule(learning_rate=rate, **keywords))
    tolerance = {"rtol": 0, "atol": golden.tolerance[np.dtype(dtype).name]}
    assert_close(parameter.get("w"), golden.new_weights, **tolerance)
    for name, known in (("velocity", golden.velocity), ("accumulator", golden.accumulated)):
        if known is not None:
            assert_close(parameter.get(name), known, **tolerance)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dropped", [None, *FULL])
def test_every_term_agrees_with_the_oracle(backend, arrays, transposed, dropped):
    keywords = {**FULL, dropped: 0.0} if dropped else FULL
    w, gradient, velocity, accumulator = arrays
    expected = update(w, gradient, velocity, accumulator, accumulate_gradient=True, **keywords)
    parameter = Parameter(backend, w, velocity, accumulator, transposed)
    parameter.step(gradient, UpdateRule(**keywords))
    for name, known in (("w", "weights"), ("velocity", "velocity"), ("accumulator", "accumulated")):
        assert_close(parameter.get(name), getattr(expected, known), length=10)


@pytest.mark.parametrize("with_velocity", [False, True])
@pytest.mark.parametrize("with_accumulator", [False, True])
def test_buffers_that_are_not_there_take_no_part(backend, arrays, with_velocity, with_accumulator):
    w, gradient, velocity, accumulator = arrays
    keywords = FULL if with_velocity else {**FULL, "gradient_moment": 0.0}
    expected = update(w, gradient, velocity, accumulator, accumulate_gradient=with_accumulator, **keywords)
    buffers = velocity if with_velocity else None, accumulator if with_accumulator else None
    parameter = Parameter(backend, w, *buffers)
    parameter.step(gradient, UpdateRule(**FULL))
    assert_close(parameter.get("w"), expected.weights, length=10)


def test_not_applying_leaves_the_parameter_only(backend, arrays):
    w, gradient, velocity, accumulator = arrays
    expected = update(w, gradient, velocity, accumulator, accumulate_gradient=True, **FULL)
    parameter = Parameter(backend, w, velocity, accumulator)
    parameter.step(gradient, UpdateRule(**FULL, apply_gradient=False))
    assert parameter.get("w").tobytes() == w.tobytes()
    assert_close(parameter.get("velocity"), expected.velocity, length=10)
    assert_close(parameter.get("accumulator"), expected.accumulated, length=10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_accumulator_that_is_not_kept_is_not_read(backend, dtype):
    w, garbage = np.ones((2, 3), dtype), np.full((2, 3), math.nan, dtype)
    parameter = Parameter(backend, w, accumulator=garbage)
    parameter.step(w, UpdateRule(learning_rate=1, acc_alpha=0.5, acc_beta=0, gd_alpha=1))
    np.testing.assert_array_equal(parameter.get("accumulator"), np.full((2, 3), -0.5))
    np.testing.assert_array_equal(parameter.get("w"), np.full((2, 3), -0.5))


def rounded_step(w, dw, v, acc, sums, rule, kernels):
    """One weight in float32, each product and each sum rounding, as docs/numerics.md writes it."""
    one = np.float32
    t = one(1 - rule.l1_vs_l2) * w
    u = one(0.5 * rule.l1_vs_l2) * one((w > 0) - one(w < 0))
    t = one(rule.weights_decay) * (t + u)
    g = dw + t
    g = g + one(rule.factor_ortho / kernels) * (sums - w)
    step = one(-rule.learning_rate) * g
    acc = one(rule.acc_alpha) * step + one(rule.acc_beta) * acc
    step = one(rule.gd_beta) * step + one(rule.gd_alpha) * acc
    step = step + one(rule.gradient_moment) * v
    return w + step, step, acc


@pytest.mark.parametrize("transposed", [False, True])
def test_every_operation_rounds_in_the_order_written(backend, rng, transposed):
    w, gradient, velocity, accumulator = rng.standard_normal((4, 40, 9)).astype(np.float32)
    rule = UpdateRule(**FULL)
    sums = np.zeros(9, np.float32)
    for kernel in w:
        sums += kernel
    expected = np.empty((3, 40, 9), np.float32)
    for n, k in np.ndindex(40, 9):
        buffers = w[n, k], gradient[n, k], velocity[n, k], accumulator[n, k]
        expected[:, n, k] = rounded_step(*buffers, sums[k], rule, 40)
    parameter = Parameter(backend, w, velocity, accumulator, transposed)
    parameter.step(gradient, rule)
    for name, known in zip(("w", "velocity", "accumulator"), expected, strict=True):
        assert np.ascontiguousarray(parameter.get(name)).tobytes() == known.tobytes()


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_terms_with_a_factor_of_zero_still_settle_the_sign_of_zero(backend, signs):
    """-0.0 + 0.0 is +0.0: leaving the decay out would give other bits."""
    w, dw = np.array([[signs[0] * 0.0]], np.float32), np.array([[signs[1] * 0.0]], np.float32)
    parameter = Parameter(backend, w)  # a velocity would add +0.0 and hide the sign
    parameter.step(dw, UpdateRule(learning_rate=1))
    t = np.float32(0) * (np.float32(1) * w + np.float32(0) * np.float32(0))
    step = np.float32(-1) * (dw + t)
    assert parameter.get("w").tobytes() == (w + step).tobytes()


@pytest.mark.parametrize(
    "value", [0.25, np.float64(0.25), np.float32(0.25), np.array(0.25), np.array([0.25])]
)
def test_numbers_of_every_kind_give_the_same_bits(backend, arrays, value):
    w, gradient, *_ = (array.astype(np.float32) for array in arrays)
    results = []
    for rate in (0.25, value):
        parameter = Parameter(backend, w)
        parameter.step(gradient, UpdateRule(learning_rate=rate, weights_decay=rate))
        results.append(parameter.get("w"))
    assert results[0].dtype == results[1].dtype == np.float32
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("value", [math.nan, math.inf, "fast", None, [0.1, 0.2], 1j])
def test_rates_that_are_no_numbers_are_refused(value):
    with pytest.raises(BadFormatError, match="gradient_moment must be"):
        UpdateRule(gradient_moment=value)


def test_a_bias_has_no_orthogonality(backend):
    parameter = Parameter(backend, np.array([1.0, 2.0]))
    parameter.step(np.zeros(2), UpdateRule(factor_ortho=0.5))
    np.testing.assert_array_equal(parameter.get("w"), [1, 2])


def test_an_empty_parameter(backend):
    parameter = Parameter(backend, np.zeros((0, 3)), velocity=np.zeros((0, 3)))
    parameter.step(np.zeros((0, 3)), UpdateRule(**FULL))
    assert parameter.get("w").shape == (0, 3)


def test_threads_and_strides_do_not_change_a_bit(rng):
    """Of NumPy: large enough to be cut into blocks for several threads; then as views into larger arrays."""
    shape = 300, 700
    w, gradient, velocity = rng.standard_normal((3, *shape)).astype(np.float32)
    rule = UpdateRule(**FULL)
    results = set()
    for threads in (1, 2, 5):
        for transposed in (False, True):
            parameter = Parameter(NumpyBackend(threads=threads), w, velocity, velocity, transposed)
            parameter.step(gradient, rule)
            results.add(b"".join(np.ascontiguousarray(parameter.get(n)).tobytes() for n in parameter.buffers))
    wide = np.zeros((3, 600, 700), np.float32, order="F")
    views = wide[:, ::-2]
    views[...] = w, velocity, velocity
    backend = NumpyBackend()
    backend.update.step(views[0], gradient[::-1][::-1], rule, velocity=views[1], accumulator=views[2])
    results.add(b"".join(np.ascontiguousarray(view).tobytes() for view in views))
    assert len(results) == 1
    assert not wide[:, ::2].any()


def test_a_fault_on_the_way_leaves_everything_as_it_was(arrays, monkeypatch):
    """Of NumPy; for devices see tests/backends/test_device_atomicity.py."""
    from convgrad.backends.numpy import update as module

    def fail(*args):
        raise MemoryError

    w, gradient, velocity, accumulator = arrays
    parameter = Parameter(NumpyBackend(), w, velocity, accumulator)
    before = {name: parameter.get(name).tobytes() for name in parameter.buffers}
    monkeypatch.setattr(module, "_remember", fail)
    with pytest.raises(MemoryError):
        parameter.step(gradient, UpdateRule(**FULL))
    assert {name: parameter.get(name).tobytes() for name in parameter.buffers} == before


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("transposed", [False, True])
def test_an_overflow_is_an_infinity_without_a_warning(backend, transposed):
    """Where the parameter is stepped, and where its columns are summed."""
    large = np.full((3, 4), 3e38, np.float32)
    parameter = Parameter(backend, large, transposed=transposed)
    parameter.step(-large, UpdateRule(learning_rate=1.0))
    assert np.isposinf(parameter.get("w")).all()
    parameter = Parameter(backend, large, transposed=transposed)
    parameter.step(np.zeros_like(large), UpdateRule(learning_rate=1.0, factor_ortho=1.0))
    assert np.isneginf(parameter.get("w")).all()


def test_the_gradient_is_not_modified(backend, arrays):
    w, gradient, *others = arrays
    before = gradient.tobytes()
    gradient.setflags(write=False)
    buffer = backend.upload(gradient)
    velocity, accumulator = map(backend.upload, others)
    buffers = {"velocity": velocity, "accumulator": accumulator}
    backend.update.step(backend.upload(w), buffer, UpdateRule(**FULL), **buffers)
    assert operations.host(backend, buffer).tobytes() == gradient.tobytes() == before
