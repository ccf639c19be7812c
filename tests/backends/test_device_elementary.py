"""The kernels' exp, expm1, tanh, sigmoid and softplus, activations made of them, and element-wise kernels."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from convgrad.backends.device import elementwise
from convgrad.backends.device.execution import no_planner
from convgrad.backends.numpy import activation as numpy_activation
from convgrad.interfaces import ACTIVATIONS
from convgrad.kernel_source import kernel_text
from convgrad.testing import assert_close
from tests.golden.reports_activation import FACTORS, LIMITS, SOFTPLUS, TANH
from tests.operations import filled, host
from tests.reference import activation as oracle

DTYPES = (np.float32, np.float64)
LANES = (1, 4, 8, 16)
ITEMS = 64
BLOCK = 2**20  # values at once, of all float32
ULP = {"exp": 1, "expm1": 2, "tanh": 2, "sigmoid": 2, "softplus": 2}
EXACT = {
    "exp": np.exp,
    "expm1": np.expm1,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x))),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
}
# Where the functions change their formula, overflow, or leave the normal numbers; zeros, infinities, NaN.
EDGES = (
    *(0.0, 1e-45, 1e-40, 2**-126, 2**-25, 2**-24, 0.34657359, 0.5, 0.6, 0.69314718, 10.0, 15.0, 17.0, 20.0),
    *(44.5, 87.3, 88.0, 88.72284, 88.72285, 89.0, 90.0, 103.28, 103.97, 104.0, 105.0, 3e38, np.inf, np.nan),
)
SOURCE = """
#include "lib/activation.h"
KERNEL(64, 1, 1) void {name}(GLOBAL const VALUE *x, GLOBAL VALUE *y, int activation) {{
  INT64 i = (INT64)GROUP(0) * 64 + ITEM(0);
  y[i] = {expression};
}}
"""


def edges():
    """The edges and three floats to each side of them, of both signs."""
    values = np.array(EDGES, np.float32)
    steps = [values]
    for _ in range(3):
        steps = [
            np.nextafter(steps[0], np.float32(-np.inf)),
            *steps,
            np.nextafter(steps[-1], np.float32(np.inf)),
        ]
    around = np.concatenate(steps)
    return np.concatenate([around, -around])


def dense():
    """Every 4099th float, and the edges; a multiple of 16 * 64 in all."""
    bits = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32)
    values = np.concatenate([edges(), bits.view(np.float32)])
    return values[: len(values) // 1024 * 1024]


class Functions:
    """`name(x)` as kernels compute it, LANES values at a time."""

    def __init__(self, backend):
        self._backend, self._programs = backend, {}

    def __call__(self, expression, x, lanes, activation=0):
        driver = self._backend.driver
        key = expression, x.dtype, lanes
        if key not in self._programs:
            text = SOURCE.format(name="values", expression=expression)
            text = text.replace('#include "lib/activation.h"', kernel_text("lib/activation.h"))
            options = f"-DDOUBLE={int(x.dtype == np.float64)}", f"-DLANES={lanes}"
            self._programs[key] = driver.kernel(driver.build(text, options), "values")
        source, target = self._backend.upload(x), filled(self._backend, x.shape, x.dtype)
        groups = len(x) // (ITEMS * lanes), 1, 1
        arguments = source.memory, target.memory, np.int32(activation)
        driver.launch(self._programs[key], groups, (ITEMS, 1, 1), arguments)
        return host(self._backend, target)


@pytest.fixture
def functions(device_backend):
    return Functions(device_backend)


def padded(values, dtype):
    """The values, repeated to a length that every number of lanes divides."""
    return np.resize(np.asarray(values, dtype), ITEMS * 16)


def ulps(found, exact):
    """Distances in units of the spacing of float32 at the exact value; 0 where both round to the same."""
    _, exponent = np.frexp(exact)
    spacing = np.ldexp(1.0, np.clip(exponent - 24, -149, 104))
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(found.astype(np.float64) - exact) / spacing
        return np.where(found == exact.astype(np.float32), 0, distance)


@pytest.mark.parametrize("name", ULP)
def test_within_the_promised_distance_of_the_exact_value(functions, name):
    x = dense()
    found = functions(f"{name}_of(x[i])", x, 16)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
    numbers = ~np.isnan(x)
    assert np.isnan(found[~numbers]).all()
    distance = ulps(found[numbers], exact[numbers])
    worst = np.argmax(np.nan_to_num(distance, nan=np.inf))
    assert distance[worst] <= ULP[name], (x[numbers][worst], found[numbers][worst], distance[worst])


@pytest.mark.slow
@pytest.mark.parametrize("name", ULP)
def test_every_float_is_within_the_promised_distance(functions, device_backend, name):
    """All 2**32, which takes many minutes a function. To see the distances:

    .venv/bin/python -m pytest tests/backends/test_device_elementary.py -m slow -s --backend opencl-cpu
    """
    worst, where, off = 0.0, np.float32(0), 0
    for start in range(0, 2**32, BLOCK):
        x = np.arange(start, start + BLOCK, dtype=np.uint32).view(np.float32)
        found = functions(f"{name}_of(x[i])", x, 16)
        with np.errstate(all="ignore"):
            exact = EXACT[name](x.astype(np.float64))
            differ = found != exact.astype(np.float32)  # NaN too
        differ &= ~(np.isnan(found) & np.isnan(x))
        if not differ.any():
            continue
        off += np.count_nonzero(differ)
        distance = np.nan_to_num(ulps(found[differ], exact[differ]), nan=np.inf)
        at = np.argmax(distance)
        if distance[at] > worst:
            worst, where = distance[at], x[differ][at]
    sys.stdout.write(
        f"\n{device_backend.name}: {name} at most {worst:.4f} ulp off, at {where!r}; "
        f"{off / 2**32:.2%} are not the nearest float32\n"
    )
    assert worst <= ULP[name]


@pytest.mark.parametrize("name", ULP)
def test_every_number_of_lanes_gives_the_same_bits(functions, name):
    x = dense()
    found = [functions(f"{name}_of(x[i])", x, lanes) for lanes in LANES]
    numbers = ~np.isnan(x)
    assert len({values[numbers].tobytes() for values in found}) == 1


@pytest.mark.parametrize("name", ULP)
@pytest.mark.parametrize("lanes", LANES)
def test_double_is_as_close_as_the_language_has_it(functions, device_backend, name, lanes, rng):
    if not device_backend.supports(np.float64):
        pytest.skip("the device has no float64")
    x = padded(
        [*rng.uniform(-40, 40, 500), *rng.uniform(-1, 1, 400), 0.0, -0.0, 1e-20, -800, 800, np.nan],
        np.float64,
    )
    found = functions(f"{name}_of(x[i])", x, lanes)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    numbers = ~np.isnan(x)
    assert_close(found[numbers], exact[numbers], rtol=16 * np.finfo(np.float64).eps, atol=0)


@pytest.mark.parametrize("lanes", [1, 16])
def test_zeros_keep_their_sign_and_infinities_their_limit(functions, lanes):
    x = padded([0.0, -0.0, np.inf, -np.inf], np.float32)
    for name, known in (
        ("exp", [1, 1, np.inf, 0]),
        ("expm1", [0.0, -0.0, np.inf, -1]),
        ("tanh", [0.0, -0.0, 1, -1]),
        ("sigmoid", [0.5, 0.5, 1, 0]),
        ("softplus", [np.log(np.float32(2)), np.log(np.float32(2)), np.inf, 0]),
    ):
        assert (
            functions(f"{name}_of(x[i])", x, lanes)[:4].tobytes() == np.array(known, np.float32).tobytes()
        ), name


def activated(functions, kind, s, lanes, dtype):
    expression = "ACTIVATE(activation, x[i])"
    return functions(expression, padded(s, dtype), lanes, ACTIVATIONS.index(kind))[: len(s)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations_agree_with_the_oracle(functions, device_backend, kind, lanes, dtype, rng):
    if not device_backend.supports(dtype):
        pytest.skip("the device has no float64")
    s = [*rng.uniform(-20, 20, 300), -np.inf, np.inf, np.nan]
    y = activated(functions, kind, s, lanes, dtype)
    exact = oracle.activate(kind, np.asarray(s[:-3], dtype))
    assert_close(y[:-3], exact, rtol=8 * np.finfo(dtype).eps, atol=0)
    low, high = LIMITS[kind]
    assert (y[-3], y[-2]) == (dtype(low), dtype(high))
    assert np.isnan(y[-1])


@pytest.mark.parametrize("lanes", [1, 16])
def test_activations_at_known_points(functions, lanes):
    for kind, points, bound in (("relu", [row[:2] for row in SOFTPLUS], 2), ("tanh", TANH, 6)):
        s, y = (np.array(column) for column in zip(*points, strict=True))
        assert ulps(activated(functions, kind, s, lanes, np.float32), y).max() <= bound


def scaled(backend, kind, err_output, output):
    """err_output * factor(output), by the kernel that layers use."""
    dtype, profile = err_output.dtype, backend.driver.profile
    plan = elementwise.scale("d", "y", "out", err_output.size, kind, dtype, profile)
    out = filled(backend, err_output.shape, dtype)
    buffers = {"d": backend.upload(err_output), "y": backend.upload(output), "out": out}
    backend.executor.run(no_planner(plan), 1, **buffers)
    return host(backend, out)


@pytest.mark.parametrize("count", [1, 63, 4096, 10000])
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_factors_have_the_bits_that_numpy_has(device_backend, kind, count, rng):
    """But for the smooth relu, whose expm1 is the library's there."""
    for dtype in filter(device_backend.supports, DTYPES):
        d, y = rng.standard_normal((2, count)).astype(dtype)
        y[rng.random(count) < 0.1] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0])
        d[rng.random(count) < 0.1] = np.inf
        known = np.empty_like(y)
        numpy_activation.scale(kind, d, y, known)
        found = scaled(device_backend, kind, d, y)
        numbers = ~np.isnan(known)
        np.testing.assert_array_equal(np.isnan(found), ~numbers)
        if kind == "relu":
            assert_close(found[numbers], known[numbers], rtol=8 * np.finfo(dtype).eps, atol=0)
        else:
            assert found[numbers].tobytes() == known[numbers].tobytes()


def test_known_factors(device_backend):
    for kind, output, factor in FACTORS:
        y = np.array([output], np.float32)
        assert_close(
            scaled(device_backend, kind, np.ones_like(y), y), np.array([factor]), rtol=5e-7, atol=3e-7
        )


@pytest.mark.parametrize(("start", "count"), [(0, 1), (3, 64), (5, 9000), (7, 0)])
def test_fill_changes_its_range_only(device_backend, start, count):
    for dtype in filter(device_backend.supports, DTYPES):
        content = np.arange(1.0, 9102.0, dtype=dtype)
        buffer = device_backend.upload(content)
        plan = elementwise.fill("out", start, count, buffer.dtype, device_backend.driver.profile)
        device_backend.executor.run(no_planner(plan), 1, out=buffer)
        content[start : start + count] = 0
        assert host(device_backend, buffer).tobytes() == content.tobytes()


def test_scale_may_start_further_on(device_backend, rng):
    """From element `start` of err_output and output, into the beginning of another buffer."""
    d, y = rng.standard_normal((2, 300)).astype(np.float32)
    plan = elementwise.scale("d", "y", "out", 200, "tanh", d.dtype, device_backend.driver.profile, start=70)
    out = filled(device_backend, (210,), np.float32, 7)
    device_backend.executor.run(
        no_planner(plan), 1, d=device_backend.upload(d), y=device_backend.upload(y), out=out
    )
    found = host(device_backend, out)
    assert found[:200].tobytes() == scaled(device_backend, "tanh", d, y)[70:270].tobytes()
    assert (found[200:] == 7).all()
