"""Arrays on a device, and the scratch memory that is one piece for all."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.backends.device.buffers import Buffer, Scratch
from convgrad.backends.device.driver import OutOfDeviceMemory
from tests.backends.faults import CountingDriver, SmallDriver
from tests.backends.small_kernels import host


def test_a_buffer_knows_its_size():
    buffer = Buffer("memory", [3, 4, 2], "float64")
    assert (buffer.shape, buffer.dtype, buffer.size, buffer.nbytes) == ((3, 4, 2), np.float64, 24, 192)
    assert len(buffer) == 3
    other = buffer.reshape((6, 4))
    assert (other.memory, other.shape, other.dtype) == ("memory", (6, 4), np.float64)


def test_a_buffer_of_nothing():
    buffer = Buffer(None, (3, 0, 2), np.float32)
    assert (buffer.size, buffer.nbytes, len(buffer)) == (0, 0, 3)
    assert Buffer(None, (), np.float32).size == 1


@pytest.mark.parametrize("shape", [(0,), (0, 3, 4), (2, 0)])
def test_arrays_without_elements_have_no_memory(device_backend, shape):
    buffer = device_backend.empty(shape, np.float32)
    assert buffer.memory is None
    array = np.empty(shape, np.float32)
    assert device_backend.upload(array).memory is None
    device_backend.download(buffer, array)
    assert device_backend.array(array).get().shape == shape


@pytest.fixture
def counting(driver):
    return CountingDriver(driver)


@pytest.fixture
def scratch(counting):
    return Scratch(counting)


def filled(driver, scratch, sizes):
    """Write a number of its own into each part; what the parts hold when all are written."""
    parts = scratch.parts([(f"part {number}", size) for number, size in enumerate(sizes)])
    for number, (part, size) in enumerate(zip(parts.values(), sizes, strict=True)):
        driver.upload(np.full(size // 4, number, np.float32), part)
    return [
        host(driver, Buffer(part, (size // 4,), np.float32))
        for part, size in zip(parts.values(), sizes, strict=True)
    ]


@pytest.mark.parametrize("sizes", [(4,), (4, 4, 4), (1000, 4, 132, 128, 124, 4096), (4,) * 50])
def test_parts_do_not_overlap(counting, scratch, sizes):
    for number, content in enumerate(filled(counting, scratch, sizes)):
        assert (content == number).all()
    assert counting.calls["allocate"] == 1


def test_parts_of_nothing_are_nothing(counting, scratch):
    assert scratch.parts([]) == {}
    assert scratch.parts([("a", 0), ("b", 0)]) == {"a": None, "b": None}
    assert counting.calls["allocate"] == 0
    parts = scratch.parts([("a", 0), ("b", 8), ("c", 0)])
    assert parts["a"] is None
    assert parts["b"] is not None
    assert parts["c"] is None


def test_memory_grows_to_the_largest_request_and_stays(counting, scratch):
    one = counting.profile.alignment
    for size, allocations in ((one - 28, 1), (4, 1), (one, 1), (one + 4, 2), (one, 2), (5 * one, 3)):
        scratch.parts([("one", size)])
        assert counting.calls["allocate"] == allocations
        assert counting.live[0] == 1
    scratch.release()
    assert counting.live == (0, 0)


def test_parts_lie_in_the_memory_of_the_present(counting, scratch):
    """Not in that from before it grew."""
    small = [("part", 64)]
    scratch.parts(small)
    whole = Buffer(scratch.parts([("whole", 1 << 16)])["whole"], (1 << 14,), np.float32)
    counting.upload(np.full(whole.shape, 7, np.float32), whole.memory)
    part = Buffer(scratch.parts(small)["part"], (16,), np.float32)
    assert (host(counting, part) == 7).all()


def test_the_same_request_makes_nothing_new(counting, scratch):
    wanted = [("a", 300), ("b", 500)]
    first = scratch.parts(wanted)
    assert scratch.parts(wanted) == first
    assert scratch.parts([("other name", 300)])["other name"] is first["a"]


def test_parts_are_not_remembered_without_end(scratch):
    scratch.parts([("one", 4 * 5000)])
    for size in range(1, 3000):
        scratch.parts([("one", 4 * size)])
    assert 1 <= len(scratch._parts) <= 1024


def test_scratch_works_on_after_a_request_too_large(driver):
    small = SmallDriver(driver)
    small.limit, scratch = 1024, Scratch(small)
    assert scratch.parts([("one", 900)])["one"] is not None
    with pytest.raises(OutOfDeviceMemory):
        scratch.parts([("one", 500), ("two", 700)])
    assert (filled(driver, scratch, (400, 200))[1] == 1).all()
