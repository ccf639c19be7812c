"""What a driver promises, on real devices: what it says of them, memory, copies, programs, launches."""

from __future__ import annotations

import time

import numpy as np
import pytest

from convgrad.backends.device.driver import OutOfDeviceMemory
from convgrad.errors import KernelBuildError
from convgrad.kernel_source import kernel_text
from tests.backends.small_kernels import TEXT, host, uploaded

ONE = (1, 1, 1)


@pytest.fixture
def program(driver):
    return driver.build(kernel_text("prelude/common.h") + TEXT, ["-DDOUBLE=0"])


# --- what it says


def test_a_profile_makes_sense(driver):
    profile = driver.profile
    assert profile.shape in ("cpu", "gpu")
    assert profile.vector >= 1
    assert profile.units >= 1
    assert 0 < profile.local_memory < profile.max_allocation <= profile.memory
    assert profile.alignment >= 128
    assert profile.alignment & (profile.alignment - 1) == 0


def test_the_identity_tells_versions(driver):
    assert len(driver.identity) > len(driver.device.split("(")[0])
    assert any(letter.isdigit() for letter in driver.identity)


# --- memory


def test_more_than_the_device_has_is_refused_at_once(driver):
    profile = driver.profile
    for nbytes in (profile.memory + 1, 10 * profile.memory):
        with pytest.raises(OutOfDeviceMemory) as error:
            driver.allocate(nbytes)
        told = (
            f"{nbytes} bytes; it has {profile.memory} in all, {profile.max_allocation} at most in one piece"
        )
        assert told in str(error.value)
        assert error.value.nbytes == nbytes


def test_a_thousand_pieces_leave_nothing_behind(driver):
    for _ in range(1000):
        driver.allocate(driver.profile.max_allocation // 4)


# --- copies


@pytest.mark.parametrize("shape", [(), (1,), (3, 5)])
def test_copies_of_any_rank(driver, rng, shape):
    array = rng.standard_normal(shape).astype(np.float32)
    memory, found = driver.allocate(array.nbytes), np.empty(shape, np.float32)
    array.flags.writeable = False
    driver.upload(array, memory)
    driver.download(memory, found)
    np.testing.assert_array_equal(found, array)


def test_what_is_uploaded_may_be_deleted_at_once(driver):
    """A thousand temporary arrays, each into memory of its own."""
    kept = [uploaded(driver, np.full(1000, number, np.float32) + 0) for number in range(1000)]
    for number, buffer in enumerate(kept):
        assert (host(driver, buffer) == number).all()


def test_a_part_lies_where_it_should(driver):
    step = driver.profile.alignment // 4
    whole = uploaded(driver, np.arange(4.0 * step, dtype=np.float32))
    part = driver.part(whole.memory, 2 * step * 4, step * 4)
    found = np.empty(step, np.float32)
    driver.download(part, found)
    np.testing.assert_array_equal(found, 2 * step + np.arange(step))
    del whole
    driver.upload(found + 1, part)
    driver.download(part, found)
    assert found[0] == 2 * step + 1


# --- programs


def test_a_program_that_does_not_compile_is_shown(driver):
    with pytest.raises(KernelBuildError) as error:
        driver.build("\n\nthis is no kernel;\n", [])
    text = str(error.value)
    assert "    3 this is no kernel;" in text.splitlines()
    assert text.index("no kernel;") < text.rindex("error")
    assert driver.device in text


def test_an_unknown_option_is_told(driver):
    with pytest.raises(KernelBuildError, match="--no-such-option"):
        driver.build(kernel_text("prelude/common.h") + TEXT, ["-DDOUBLE=0", "--no-such-option"])


def test_options_reach_the_compiler(driver, rng):
    text = kernel_text("prelude/common.h") + "KERNEL(1, 1, 1) void k(GLOBAL float *y) { y[0] = VALUE; }"
    memory = uploaded(driver, np.zeros(1, np.float32))
    for value in (3, 4):
        kernel = driver.kernel(driver.build(text, ["-DDOUBLE=0", f"-DVALUE={value}"]), "k")
        driver.launch(kernel, ONE, ONE, [memory.memory])
        assert host(driver, memory) == value


def test_a_compiler_may_say_something(driver):
    """pyopencl would warn of it, and in the tests a warning is an error."""
    text = "#warning of nothing\n" + kernel_text("prelude/common.h") + TEXT
    assert driver.kernel(driver.build(text, ["-DDOUBLE=0"]), "affine")


# --- launches


def test_arguments_of_every_type(driver, program, rng):
    x = rng.integers(-3, 4, 5).astype(np.float32)
    source, target = uploaded(driver, x), uploaded(driver, np.full(5, np.nan, np.float32))
    kernel = driver.kernel(program, "affine")
    for place, factor in ((7, 0.5), (-(2**24), 1.0), (0, -2.0)):  # the first launch learns the types
        arguments = [source.memory, target.memory, np.int32(place), np.float32(factor)]
        driver.launch(kernel, (5, 1, 1), ONE, arguments)
        np.testing.assert_array_equal(host(driver, target), np.float32(factor) * x + np.float32(place))


def test_a_null_pointer_and_a_long(driver, program):
    target = uploaded(driver, np.zeros(4, np.float32))
    kernel = driver.kernel(program, "count")
    for x, place in ((None, 3), (target.memory, 2), (None, 3)):
        driver.launch(kernel, ONE, ONE, [x, target.memory, np.int64(place)])
    np.testing.assert_array_equal(host(driver, target), [0, 0, 1, -2])


def test_groups_along_three_axes(driver):
    text = (
        kernel_text("prelude/common.h")
        + """
    KERNEL(2, 1, 3) void k(GLOBAL int *y) {
      int group = GROUP(0) + 2 * (GROUP(1) + 3 * GROUP(2));
      y[group * 6 + ITEM(0) + 2 * ITEM(2)] = 100 * GROUP(0) + 10 * GROUP(1) + GROUP(2);
    }"""
    )
    target = uploaded(driver, np.full((4, 3, 2, 6), -1, np.int32))
    kernel = driver.kernel(driver.build(text, ["-DDOUBLE=0"]), "k")
    driver.launch(kernel, (2, 3, 4), (2, 1, 3), [target.memory])
    z, y, x, _ = np.indices(target.shape)
    np.testing.assert_array_equal(host(driver, target), 100 * x + 10 * y + z)


def test_the_time_of_a_launch_is_in_seconds(driver, program):
    """Longer than any machine is quick, shorter than all around it."""
    target = uploaded(driver, np.zeros(1, np.float32))
    before = time.perf_counter()
    arguments = target.memory, np.int32(1 << 22), np.float32(1)
    event = driver.launch(driver.kernel(program, "slow"), ONE, ONE, arguments)
    seconds = driver.seconds(event)
    assert 1e-5 < seconds < time.perf_counter() - before
    assert host(driver, target) == 1 << 22


def test_memory_may_go_while_launches_use_it(driver, program):
    """The slow launch writes a part of memory that nothing refers to any more; then others get their own."""
    kernel, fill = driver.kernel(program, "slow"), driver.kernel(program, "affine")
    source = uploaded(driver, np.zeros(256, np.float32))
    for _ in range(20):
        memory = driver.allocate(1 << 20)
        part = driver.part(memory, 0, 1024)
        driver.launch(kernel, ONE, ONE, [part, np.int32(1 << 20), np.float32(1)])
        del memory, part
        others = [uploaded(driver, np.full(256, np.nan, np.float32)) for _ in range(4)]
        for number, other in enumerate(others):
            numbers = [np.int32(number), np.float32(1)]
            driver.launch(fill, (256, 1, 1), ONE, [source.memory, other.memory, *numbers])
        for number, other in enumerate(others):
            assert (host(driver, other) == number).all()
    driver.synchronize()
