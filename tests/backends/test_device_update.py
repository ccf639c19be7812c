"""The training step on devices: the bits of NumPy's backend for every rule and shape, and its plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from convgrad.backends.device.driver import Profile
from convgrad.backends.device.update import step_plan
from convgrad.backends.numpy import NumpyBackend
from convgrad.update_rule import UpdateRule
from tests.operations import host

DTYPES = (np.float32, np.float64)
RULE = UpdateRule(
    learning_rate=0.3,
    weights_decay=0.01,
    l1_vs_l2=0.3,
    gradient_moment=0.7,
    factor_ortho=0.1,
    acc_alpha=0.6,
    acc_beta=0.8,
    gd_alpha=0.4,
    gd_beta=0.9,
)
PLAIN = UpdateRule(learning_rate=0.1)
# Elements within and beyond a vector, a group and a stretch, in rows and in columns.
SHAPES = ((1,), (17,), (5000,), (5, 7), (64, 25), (3, 4099), (4099, 3), (130, 300), (2, 3, 5, 7))
PROFILES = (
    Profile("cpu", 16, 2, 2**34, 2**32, 2**15, 128, float64=True),
    Profile("gpu", 1, 80, 2**36, 2**34, 2**15, 128, float64=True),
)
NAMES = "parameter", "gradient", "accumulator", "velocity"


def arrays_of(rng, shape, dtype):
    """Contents of the four buffers, some of them zeros of either sign, infinite or NaN."""
    arrays = rng.standard_normal((4, *shape)).astype(dtype)
    places = rng.random(arrays.shape) < 0.05
    arrays[places] = rng.choice([0.0, -0.0, 1e-40, np.inf, -np.inf, np.nan], places.sum())
    return dict(zip(NAMES, arrays, strict=True))


def stepped(backend, arrays, rule, transposed=False):
    """What a step leaves in the buffers."""
    buffers = {name: backend.upload(array.copy()) for name, array in arrays.items()}
    parameter, gradient = buffers["parameter"], buffers["gradient"]
    memory = {name: buffers.get(name) for name in ("accumulator", "velocity")}
    backend.update.step(parameter, gradient, rule, **memory, weights_transposed=transposed)
    return {name: host(backend, buffer) for name, buffer in buffers.items()}


def check(backend, arrays, rule, transposed=False):
    found = stepped(backend, arrays, rule, transposed)
    known = stepped(NumpyBackend(), arrays, rule, transposed)
    for name, values in known.items():
        numbers = ~np.isnan(values)
        np.testing.assert_array_equal(np.isnan(found[name]), ~numbers, err_msg=name)
        assert found[name][numbers].tobytes() == values[numbers].tobytes(), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rule", [RULE, PLAIN], ids=["full", "plain"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_bits_of_numpy(device_backend, shape, rule, dtype, rng):
    if not device_backend.supports(dtype):
        pytest.skip("the device has no float64")
    arrays = arrays_of(rng, shape, dtype)
    check(device_backend, arrays, rule)
    if len(shape) == 2:
        check(device_backend, arrays, rule, transposed=True)


@pytest.mark.parametrize("apply_gradient", [True, False])
@pytest.mark.parametrize("acc_beta", [0.8, 0.0])
@pytest.mark.parametrize("names", [NAMES[:2], NAMES[:3], (*NAMES[:2], "velocity"), NAMES], ids=len)
def test_buffers_that_are_there_or_not(device_backend, names, acc_beta, apply_gradient, rng):
    arrays = arrays_of(rng, (33, 21), np.float32)
    for factor_ortho in (0.0, 0.2):
        rule = replace(RULE, acc_beta=acc_beta, factor_ortho=factor_ortho, apply_gradient=apply_gradient)
        check(device_backend, {name: arrays[name] for name in names}, rule)


def test_column_sums_ascend_over_the_kernels(device_backend):
    """2**24 + 1 - 2**24 is 0 in float32, and 2**24 - 2**24 + 1 is 1."""
    rule = UpdateRule(learning_rate=1, factor_ortho=3)
    for order, total in (((2**24, 1, -(2**24)), 0), ((2**24, -(2**24), 1), 1)):
        weights = np.repeat(np.array(order, np.float32)[:, None], 20, axis=1)
        for transposed, stored in ((False, weights), (True, np.ascontiguousarray(weights.T))):
            arrays = {"parameter": stored, "gradient": np.zeros_like(stored)}
            found = stepped(device_backend, arrays, rule, transposed)["parameter"]
            known = weights - (np.float32(total) - weights)
            np.testing.assert_array_equal(found.T if transposed else found, known)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.shape)
def test_the_last_launch_alone_touches_what_is_kept(profile):
    """It is the only one to name accumulator and velocity; launches before it only read the parameter."""
    for shape, rule, transposed in product(SHAPES, (RULE, PLAIN), (False, True)):
        if transposed and len(shape) == 1:
            continue
        *before, last = step_plan(shape, np.dtype(np.float32), rule, transposed, profile).launches
        assert last.kernel.name == "update"
        assert {*NAMES, "sums"} == {argument for argument in last.arguments if isinstance(argument, str)}
        ortho = rule.factor_ortho and len(shape) > 1
        assert [launch.kernel.name for launch in before] == (["column_sums"] if ortho else [])


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.shape)
def test_one_program_serves_all_steps(profile):
    plans = [step_plan(shape, np.dtype(np.float32), RULE, False, profile) for shape in SHAPES]
    assert (
        len({(launch.kernel.file, launch.kernel.defines) for plan in plans for launch in plan.launches}) == 1
    )
