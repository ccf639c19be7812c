"""Pooling on devices: the bits of NumPy's backend, any number of channels, offsets of all kinds, plans."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from convgrad.backends.device import pooling
from convgrad.backends.device.driver import Profile
from convgrad.backends.device.execution import no_planner
from convgrad.backends.numpy import NumpyBackend
from convgrad.geometry import POOL_KINDS, PoolGeometry
from tests.backends.faults import CountingDriver, around
from tests.cases import PoolCase, random_pool_cases
from tests.operations import filled, host, pool_backward, pool_forward, pool_geometry

FLOAT32 = np.dtype(np.float32)
DTYPES = (np.float32, np.float64)
CHANNELS = (1, 3, 4, 6, 8, 15, 16, 21, 32, 37)
WINDOWS = (
    {"kernel": (3, 2), "sliding": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)},
    {"kernel": (2, 3), "sliding": (3, 2), "padding": (0, 1, 1, 2)},
    {"kernel": (2, 2), "sliding": (1, 1), "dilation": (3, 2), "ceil": False, "count_include_pad": True},
)
CPU = Profile("cpu", 16, 2, 2**34, 2**32, 2**15, 128, float64=True)
GPU = Profile("gpu", 1, 80, 2**36, 2**34, 2**15, 128, float64=True)


def lopsided(channels, window):
    window = dict(window)
    return PoolGeometry(9, 11, channels, *window.pop("kernel"), **window)


def spoiled(rng, shape, dtype):
    """Few different values, so that there are ties; NaN, infinities and zeros of both signs among them."""
    values = np.array([-2, -1, -0.0, 0.0, 1, 2, np.inf, -np.inf, np.nan], dtype)
    return rng.choice(values, shape, p=[0.15, 0.15, 0.15, 0.15, 0.15, 0.1, 0.05, 0.05, 0.05])


def same_bits(found, known):
    """Equal in every bit, but for the payload of NaN."""
    assert found.dtype == known.dtype
    np.testing.assert_array_equal(found, known)
    numbers = ~np.isnan(known)
    assert found[numbers].tobytes() == known[numbers].tobytes()


def check(device_backend, geometry, x, err_output):
    """As NumPy's backend, bit by bit; the gradient of averages is another test's matter."""
    judge = NumpyBackend()
    for kind in POOL_KINDS:
        output, offset = pool_forward(device_backend, x, geometry, kind)
        known, winners = pool_forward(judge, x, geometry, kind)
        same_bits(output, known)
        if kind != "average":
            np.testing.assert_array_equal(offset, winners)
            found = pool_backward(device_backend, err_output, winners, geometry, kind)
            same_bits(found, pool_backward(judge, err_output, winners, geometry, kind))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("channels", CHANNELS)
def test_any_number_of_channels(device_backend, channels, window, dtype, rng):
    if not device_backend.supports(dtype):
        pytest.skip("the device has no float64")
    geometry = lopsided(channels, window)
    x = rng.standard_normal((2, *geometry.input_shape)).astype(dtype)
    err_output = rng.standard_normal((2, *geometry.output_shape)).astype(dtype)
    check(device_backend, geometry, x, err_output)
    check(device_backend, geometry, spoiled(rng, x.shape, dtype), spoiled(rng, err_output.shape, dtype))


@pytest.mark.parametrize("case", [*random_pool_cases(24, seed=7)], ids=str)
def test_any_geometry(device_backend, case, rng):
    geometry = pool_geometry(case)
    x = rng.standard_normal((case.batch, *geometry.input_shape)).astype(np.float32)
    check(
        device_backend,
        geometry,
        x,
        rng.standard_normal((case.batch, *geometry.output_shape)).astype(np.float32),
    )


@pytest.mark.parametrize("channels", [2, 40])
def test_rows_longer_than_a_stretch(device_backend, channels, rng):
    """A CPU's part is then a piece of a row."""
    geometry = PoolGeometry(3, 5001, channels, 3, 2, sliding=(2, 1))
    x = rng.standard_normal((1, *geometry.input_shape)).astype(np.float32)
    check(device_backend, geometry, x, rng.standard_normal((1, *geometry.output_shape)).astype(np.float32))


def rounded(exact):
    """A Fraction as float32, to nearest, ties to even."""
    near = np.float32(float(exact))
    candidates = near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))
    even = sorted(candidates, key=lambda value: int(value.view(np.int32)) & 1)
    return min(even, key=lambda value: abs(Fraction(float(value)) - exact))


@pytest.mark.parametrize("channels", [1, 5])
def test_the_gradient_of_averages_is_a_chain_of_fused_products(device_backend, channels, rng):
    """s = fma(d, 1 / area, s) over the windows that hold a cell, ascending, from +0.0."""
    geometry = PoolGeometry(4, 5, channels, 3, 2, sliding=(1, 1), padding=(1, 0, 0, 1))
    err_output = rng.standard_normal((1, *geometry.output_shape)).astype(np.float32)
    found = pool_backward(device_backend, err_output, None, geometry, "average")
    inverse = (1 / geometry.area(range(geometry.y.output))).astype(np.float32)
    known = np.zeros(geometry.input_shape, np.float32)
    for iy, ix, c in np.ndindex(known.shape):
        for oy, ox in np.ndindex(inverse.shape):
            if 0 <= iy - oy < 2 and 0 <= ix + 1 - ox < 3:
                d, share = (Fraction(float(value)) for value in (err_output[0, oy, ox, c], inverse[oy, ox]))
                known[iy, ix, c] = rounded(d * share + Fraction(float(known[iy, ix, c])))
    assert found[0].tobytes() == (known + np.float32(0)).tobytes()


@pytest.mark.parametrize("channels", [3, 16])
def test_offsets_outside_their_window_pass_nothing(device_backend, channels, rng):
    """Those of other windows, images and channels, and such as no memory has."""
    geometry = lopsided(channels, WINDOWS[0])
    x = rng.standard_normal((3, *geometry.input_shape)).astype(np.float32)
    err_output = rng.standard_normal((3, *geometry.output_shape)).astype(np.float32)
    _, winners = pool_forward(NumpyBackend(), x, geometry, "max")
    strange = rng.choice([0, -1, x.size, 2**31, 2**32, 2**40, -(2**63), 2**63 - 1], winners.shape)
    offset = np.where(rng.random(winners.shape) < 0.3, winners, strange)
    offset = np.where(rng.random(winners.shape) < 0.3, np.roll(winners, 1, axis=3), offset)
    offset = np.where(rng.random(winners.shape) < 0.3, winners + 2**32, offset)
    found = pool_backward(device_backend, err_output, offset, geometry, "max")
    known = pool_backward(NumpyBackend(), err_output, offset, geometry, "max")
    assert np.count_nonzero(known)
    same_bits(found, known)


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_images_past_the_batch_become_zero_unread(device_backend, kind, rng):
    geometry = lopsided(21, WINDOWS[1])
    x = rng.standard_normal((5, *geometry.input_shape)).astype(np.float32)
    err_output = rng.standard_normal((5, *geometry.output_shape)).astype(np.float32)
    whole = pool_forward(device_backend, x, geometry, kind)
    gradient = pool_backward(device_backend, err_output, whole[1], geometry, kind)
    for batch in (0, 3, 5):
        output, offset = pool_forward(device_backend, x, geometry, kind, batch=batch)
        found = pool_backward(device_backend, err_output, whole[1], geometry, kind, batch=batch)
        for part, all_of_it in ((output, whole[0]), (offset, whole[1]), (found, gradient)):
            if part is not None:
                assert part[:batch].tobytes() == all_of_it[:batch].tobytes()
                assert part[batch:].tobytes() == bytes(part[batch:].nbytes)


def test_maxima_without_an_offset(device_backend, rng):
    geometry = lopsided(21, WINDOWS[0])
    x = rng.standard_normal((2, *geometry.input_shape)).astype(np.float32)
    out = filled(device_backend, (2, *geometry.output_shape), np.float32)
    device_backend.pool.forward(device_backend.upload(x), out, None, geometry, "max")
    assert (
        host(device_backend, out).tobytes() == pool_forward(device_backend, x, geometry, "max")[0].tobytes()
    )


def test_wide_numbers_of_parts_change_no_bit(device_backend, rng):
    """Where 32 bits could not count the parts, the same kernel counts in 64."""
    geometry, profile = lopsided(21, WINDOWS[0]), device_backend.driver.profile
    x = rng.standard_normal((2, *geometry.input_shape)).astype(np.float32)
    plan = pooling.forward_plan(geometry, "max", 2, 2, True, FLOAT32, profile)
    [launch] = plan.launches
    defines = tuple(define.replace("INDEX=int", "INDEX=INT64") for define in launch.kernel.defines)
    arguments = list(launch.arguments)
    arguments[4] = np.int64(arguments[4])  # parts, after three roles and `absolute`
    wide = launch._replace(kernel=launch.kernel._replace(defines=defines), arguments=tuple(arguments))
    shape = 2, *geometry.output_shape
    buffers = {
        "x": device_backend.upload(x),
        "out": filled(device_backend, shape, np.float32),
        "offset": filled(device_backend, shape, np.int64, -1),
    }
    device_backend.executor.run(no_planner(pooling.Plan((wide,))), 1, **buffers)
    known = pool_forward(device_backend, x, geometry, "max")
    assert host(device_backend, buffers["out"]).tobytes() == known[0].tobytes()
    assert host(device_backend, buffers["offset"]).tobytes() == known[1].tobytes()


def test_inverse_areas_are_uploaded_once(device_backend, rng):
    backend = around(device_backend, CountingDriver)
    geometry = lopsided(4, WINDOWS[0])
    x = backend.upload(rng.standard_normal((2, *geometry.input_shape)).astype(np.float32))
    out = backend.empty((2, *geometry.output_shape), np.float32)
    backend.driver.clear()
    for _ in range(3):
        backend.pool.forward(x, out, None, geometry, "average")
        backend.pool.backward(out, None, x, geometry, "average")
    assert backend.driver.calls["upload"] == 1
    assert backend.driver.bytes["upload"] == 4 * geometry.y.output * geometry.x.output


@pytest.mark.parametrize("profile", [CPU, GPU], ids=lambda profile: profile.shape)
def test_a_plan_is_one_launch_made_once(profile):
    geometry = lopsided(21, WINDOWS[0])
    for kind in POOL_KINDS:
        forward = pooling.forward_plan(geometry, kind, 4, 4, kind != "average", FLOAT32, profile)
        backward = pooling.backward_plan(geometry, kind, 4, 4, FLOAT32, profile)
        assert (len(forward.launches), len(backward.launches)) == (1, 1)
        assert forward.scratch == backward.scratch == ()
        assert (
            pooling.forward_plan(lopsided(21, WINDOWS[0]), kind, 4, 4, kind != "average", FLOAT32, profile)
            is forward
        )


def test_a_plan_counts_in_64_bits_where_32_are_not_enough():
    geometry = PoolGeometry(2**10, 2**11, 2**6, 2, 2, sliding=(1, 1))
    for images, index in ((15, np.int32), (16, np.int64)):
        [launch] = pooling.backward_plan(geometry, "max", images, images, FLOAT32, GPU).launches
        parts, stretch = launch.arguments[3:5]
        assert isinstance(parts, index)
        assert int(parts) == images * 2**27
        assert launch.groups[0] * int(stretch) == images * 2**27


def test_few_programs_serve_all_geometries():
    cases = [*random_pool_cases(90, seed=3), *(PoolCase("wide", 2, (9, 8), c, (3, 2)) for c in range(1, 70))]
    for profile, most in ((CPU, 3), (GPU, 1)):
        kernels = set()
        for case in cases:
            geometry = pool_geometry(case)
            for kind in POOL_KINDS:
                plan = pooling.forward_plan(geometry, kind, 2, 2, kind != "average", FLOAT32, profile)
                plan += pooling.backward_plan(geometry, kind, 2, 2, FLOAT32, profile)
                kernels |= {(launch.kernel.file, launch.kernel.defines) for launch in plan.launches}
        assert len(kernels) <= most
