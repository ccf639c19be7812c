"""Array's record of which copy is current, against a pretended device that counts what crosses over."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from convgrad.backends.numpy import NumpyBackend
from convgrad.errors import BadFormatError
from convgrad.memory import Array, DeviceArray


class Buffer:
    """Memory of the pretended device; it is never the host's."""

    def __init__(self, content):
        self.content = content
        self.shape, self.dtype = content.shape, content.dtype


class Device:
    name = "pretended"

    def __init__(self):
        self.crossings = []

    def upload(self, host, buffer=None):
        self.crossings.append("upload")
        buffer = buffer or Buffer(host.copy())
        buffer.content = host.copy()
        return buffer

    def download(self, buffer, host):
        self.crossings.append("download")
        host[...] = buffer.content


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def array(device):
    array = Array(np.arange(6.0).reshape(2, 3))
    array.initialize(device)
    return array


def test_the_content_crosses_over_once_for_many_reads(array, device):
    first = array.read_buffer()
    assert array.read_buffer() is first
    assert first.content is not array.mem
    np.testing.assert_array_equal(first.content, array.mem)
    array.map_read()
    assert device.crossings == ["upload"]


def test_what_the_host_wrote_reaches_the_same_buffer(array, device):
    buffer = array.read_buffer()
    array.map_write()
    array.mem[0, 0] = 7
    assert array.read_buffer() is buffer
    assert buffer.content[0, 0] == 7
    assert device.crossings == ["upload", "upload"]


def test_what_the_device_wrote_is_brought_once(array, device):
    array.write_buffer(keep=True).content[...] = 5
    array.map_read()
    array.map_read()
    np.testing.assert_array_equal(array.mem, np.full((2, 3), 5))
    assert device.crossings == ["upload", "download"]


def test_mapping_for_writing_brings_the_devices_content_first(array):
    array.write_buffer(keep=True).content[...] = 5
    array.map_write()
    array.mem[0, 0] = 7
    np.testing.assert_array_equal(array.read_buffer().content, [[7, 5, 5], [5, 5, 5]])


def test_invalidating_brings_nothing(array, device):
    array.write_buffer(keep=True).content[...] = 5
    array.map_invalidate()
    array.mem[...] = 3
    np.testing.assert_array_equal(array.read_buffer().content, np.full((2, 3), 3))
    assert "download" not in device.crossings


def test_a_buffer_to_overwrite_is_not_filled_again(array, device):
    buffer = array.read_buffer()
    array.map_write()
    assert array.write_buffer(keep=False) is buffer
    assert device.crossings == ["upload"]
    buffer.content[...] = 4
    array.map_read()
    np.testing.assert_array_equal(array.mem, np.full((2, 3), 4))


def test_a_change_of_backend_takes_the_content_along(array):
    array.write_buffer(keep=True).content[...] = 5
    array.initialize(Device())
    np.testing.assert_array_equal(array.read_buffer().content, np.full((2, 3), 5))


def test_initializing_on_the_same_backend_again_costs_nothing(array, device):
    buffer = array.read_buffer()
    array.initialize(device)
    assert array.read_buffer() is buffer
    assert device.crossings == ["upload"]


def test_reset_drops_the_devices_copy(array):
    array.write_buffer(keep=True).content[...] = 5
    array.reset(np.ones((4, 1)))
    np.testing.assert_array_equal(array.read_buffer().content, np.ones((4, 1)))


@pytest.mark.parametrize("keep", [True, False])
def test_on_numpy_all_is_one_memory(keep):
    array = Array(np.arange(6.0).reshape(2, 3))
    array.initialize(NumpyBackend())
    mem = array.mem
    assert array.read_buffer() is mem
    array.write_buffer(keep=keep)[...] = 9
    assert array.write_buffer(keep=keep) is mem
    array.map_read()
    np.testing.assert_array_equal(array.mem, np.full((2, 3), 9))
    array.map_write()
    array.mem[0, 0] = 1
    assert array.read_buffer()[0, 0] == 1
    assert array.mem is mem


@pytest.mark.parametrize("keep", [True, False])
def test_on_numpy_the_first_write_goes_to_mem_itself(keep):
    array = Array(np.zeros((2, 3)))
    array.initialize(NumpyBackend())
    assert array.write_buffer(keep=keep) is array.mem


def test_an_empty_array():
    array = Array()
    assert (bool(array), len(array), array.size, array.read_buffer()) == (False, 0, 0, None)
    assert repr(array) == "Array()"
    for name in ("shape", "dtype", "sample_size", "plain", "matrix"):
        with pytest.raises(BadFormatError, match="the Array is empty"):
            getattr(array, name)


def test_views_of_the_content():
    array = Array(np.arange(24.0).reshape(2, 3, 4))
    assert (array.shape, array.dtype, array.size, array.sample_size, len(array)) == (
        (2, 3, 4),
        np.float64,
        24,
        12,
        2,
    )
    assert (array.plain.shape, array.matrix.shape) == ((24,), (2, 12))
    assert np.shares_memory(array.plain, array.mem)
    assert np.shares_memory(array.matrix, array.mem)
    assert array
    assert Array(np.zeros((0, 3))).size == 0
    assert Array(np.zeros((0, 3))).matrix.shape == (0, 3)


def test_mem_must_be_an_ndarray():
    with pytest.raises(BadFormatError, match=r"mem must be a numpy\.ndarray or None, got list"):
        Array([1, 2])


def test_allocate_keeps_what_fits():
    array = Array()
    array.allocate((2, 3), np.float32)
    np.testing.assert_array_equal(array.mem, np.zeros((2, 3), np.float32))
    mem = array.mem
    array.allocate((2, 3), np.float32)
    assert array.mem is mem
    array.allocate((2, 3), np.float64)
    assert array.dtype == np.float64
    array.allocate((2, 4), np.float64)
    assert array.shape == (2, 4)


def test_pickling_takes_the_current_content(array):
    array.max_supposed = 1.7159
    array.write_buffer(keep=True).content[...] = 5
    copy = pickle.loads(pickle.dumps(array))  # noqa: S301  # our own bytes
    np.testing.assert_array_equal(copy.mem, np.full((2, 3), 5))
    assert copy.max_supposed == 1.7159
    copy.initialize(Device())
    np.testing.assert_array_equal(copy.read_buffer().content, np.full((2, 3), 5))


def test_shallow_pickling_keeps_shape_and_dtype_only():
    array = Array(np.ones((500, 3), np.float32), shallow_pickle=True)
    stored = pickle.dumps(array)
    assert len(stored) < 1000
    copy = pickle.loads(stored)  # noqa: S301  # our own bytes
    np.testing.assert_array_equal(copy.mem, np.zeros((500, 3), np.float32))
    assert copy.mem.dtype == np.float32
    assert copy.shallow_pickle
    assert pickle.loads(pickle.dumps(Array(shallow_pickle=True))).mem is None  # noqa: S301  # our own bytes


def test_a_device_array_tells_its_shape_and_brings_copies(device):
    array = DeviceArray(device, device.upload(np.arange(6, dtype=np.float32).reshape(2, 3)))
    assert (array.shape, array.dtype) == ((2, 3), np.float32)
    assert repr(array) == "DeviceArray((2, 3), float32, on pretended)"
    host = array.get()
    host[...] = 0
    np.testing.assert_array_equal(array.get(), np.arange(6).reshape(2, 3))


def test_a_backends_array_is_a_copy(backend):
    host = np.arange(6.0).reshape(2, 3).T
    array = backend.array(host)
    host[...] = 0
    np.testing.assert_array_equal(array.get(), np.arange(6.0).reshape(2, 3).T)
    assert array.backend is backend


def test_numpy_reads_an_array_as_its_content():
    content = np.arange(6.0).reshape(2, 3)
    array = Array(content)
    assert np.asarray(array) is not None
    assert np.shares_memory(np.asarray(array), content)
    assert not np.shares_memory(np.array(array), content)
    assert (np.maximum(array, 3) == np.maximum(content, 3)).all()


def test_numpy_reads_what_the_device_holds():
    device, array = Device(), Array(np.zeros(3))
    array.initialize(device)
    array.write_buffer(keep=False).content[...] = [4, 5, 6]
    assert np.asarray(array).tolist() == [4, 5, 6]


def test_reading_brings_what_the_device_has_newer(array, device):
    array.write_buffer(keep=True).content += 1
    np.testing.assert_array_equal(array.mem, np.arange(1.0, 7).reshape(2, 3))
    np.testing.assert_array_equal(array.plain, np.arange(1.0, 7))
    np.testing.assert_array_equal(array.matrix, np.arange(1.0, 7).reshape(2, 3))
    assert device.crossings == ["upload", "download"]


def test_what_the_device_would_not_see_cannot_be_written(array):
    array.mem[0, 0] = 7  # the device has no copy yet
    array.read_buffer()
    with pytest.raises(ValueError, match="read-only"):
        array.mem[0, 0] = 8
    assert array.host.flags.writeable
    array.map_write()
    array.mem[0, 0] = 8
    assert array.read_buffer().content[0, 0] == 8
    array.map_invalidate()
    array.mem[...] = 9
    assert (array.read_buffer().content == 9).all()


def test_assigning_content_drops_the_copy_of_the_device(array):
    array.read_buffer()
    array.mem = np.ones(3)
    assert array.shape == (3,)
    assert (array.read_buffer().content == 1).all()


def test_on_numpy_content_is_always_the_array_itself():
    content = np.arange(3.0)
    array = Array(content)
    array.initialize(NumpyBackend())
    array.write_buffer(keep=False)
    assert array.mem is content


def test_an_array_on_a_device_becomes_an_ndarray(device):
    on_device = DeviceArray(device, Buffer(np.arange(3.0)))
    np.testing.assert_array_equal(np.asarray(on_device), [0, 1, 2])
    assert np.asarray(on_device, np.float32).dtype == np.float32
