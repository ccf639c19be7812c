"""What is OpenCL's own: shapes, queues, each way in which a runtime has no memory."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from convgrad.backends.device.account import Account
from convgrad.backends.device.driver import OutOfDeviceMemory
from convgrad.errors import BadFormatError
from convgrad.kernel_source import kernel_text
from tests.backends.small_kernels import TEXT, uploaded

ROOT = Path(__file__).parents[2]


# --- names, shapes, queues


def test_a_backend_has_the_full_name(opencl):
    best = opencl.names()[0]
    assert opencl.open_backend("opencl").name == opencl.open_backend(best).name == best


@pytest.mark.parametrize("shape", ["cpu", "gpu"])
def test_the_shape_comes_from_the_environment(opencl, monkeypatch, shape):
    monkeypatch.setenv("CONVGRAD_SHAPE", shape)
    assert opencl.open_backend("opencl").driver.profile.shape == shape
    for given in ("cpu", "gpu"):
        assert opencl.open_backend("opencl", shape=given).driver.profile.shape == given


def test_without_a_wish_the_shape_suits_the_device(opencl, monkeypatch):
    monkeypatch.setenv("CONVGRAD_SHAPE", "")
    driver = opencl.open_backend("opencl").driver
    is_cpu = driver._queue.device.type & opencl.cl.device_type.CPU
    assert driver.profile.shape == ("cpu" if is_cpu else "gpu")


def test_an_unknown_shape_is_refused(opencl, monkeypatch):
    with pytest.raises(BadFormatError, match="shape must be one of cpu, gpu; got 'tpu'"):
        opencl.open_backend("opencl", shape="tpu")
    monkeypatch.setenv("CONVGRAD_SHAPE", "CPU")
    with pytest.raises(BadFormatError, match="CONVGRAD_SHAPE must be one of cpu, gpu; got 'CPU'"):
        opencl.open_backend("opencl")


def own_queue(opencl, properties=0):
    """A context, to be kept, and a queue of it."""
    context = opencl.cl.Context([opencl._DEVICES[opencl.names()[0]]])
    return context, opencl.cl.CommandQueue(context, properties=properties)


def test_a_queue_of_ones_own(opencl):
    context, queue = own_queue(opencl)
    backend = opencl.open_backend("opencl", queue=queue)
    assert backend.name == opencl.names()[0]
    buffer = backend.upload(np.arange(6.0))
    assert buffer.memory.context == context
    found = np.empty(6)
    opencl.cl.enqueue_copy(queue, found, buffer.memory)
    np.testing.assert_array_equal(found, np.arange(6.0))


def test_a_queue_out_of_order_is_refused(opencl):
    wrong = opencl.cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    _context, queue = own_queue(opencl, wrong)
    with pytest.raises(BadFormatError, match="queue must be in order, got one with OUT_OF_ORDER"):
        opencl.open_backend("opencl", queue=queue)


def test_a_queue_of_another_kind_is_refused(opencl):
    context, queue = own_queue(opencl)
    with pytest.raises(BadFormatError, match=r"queue must be a pyopencl.CommandQueue, got .*Context"):
        opencl.open_backend("opencl", queue=context)
    here = opencl.names()[0]
    with pytest.raises(BadFormatError, match=f"queue must be one of opencl:77:0, got one of {here}"):
        opencl.open_backend("opencl:77:0", queue=queue)


# --- memory


def test_pieces_together_do_not_go_beyond_the_device(opencl):
    """Runtimes on CPUs would promise them."""
    driver = opencl.open_backend("opencl").driver
    driver._account = Account(replace(driver.profile, memory=1000))
    first, second = driver.allocate(400), driver.allocate(600)
    with pytest.raises(OutOfDeviceMemory, match=r"for 4 bytes; it has 1000 in all, .*; 1000 are taken"):
        driver.allocate(4)
    del first
    assert driver.allocate(400).size == 400
    assert second.size == 600


def test_more_than_the_largest_piece_is_refused_by_the_runtime(opencl_backend):
    driver = opencl_backend.driver
    if not driver._is_cpu:
        pytest.skip("some GPUs give more than they say")
    assert driver.profile.max_allocation < driver.profile.memory
    with pytest.raises(OutOfDeviceMemory, match=f"{driver.profile.max_allocation} at most in one piece"):
        driver.allocate(driver.profile.max_allocation + 4096)


@pytest.mark.parametrize(
    "code", ["MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY", "INVALID_BUFFER_SIZE"]
)
def test_each_way_in_which_a_runtime_has_no_memory(opencl, opencl_backend, monkeypatch, code):
    tries = refusing(opencl, monkeypatch, code)
    with pytest.raises(OutOfDeviceMemory, match="no room for 123 bytes"):
        opencl_backend.driver.allocate(123)
    assert len(tries) == 2  # again after what was in flight has ended


def test_another_fault_is_not_called_lack_of_memory(opencl, opencl_backend, monkeypatch):
    tries = refusing(opencl, monkeypatch, "INVALID_CONTEXT")
    with pytest.raises(opencl.cl.LogicError, match="INVALID_CONTEXT"):
        opencl_backend.driver.allocate(123)
    assert len(tries) == 1


def test_memory_that_launches_still_use_is_waited_for(opencl, opencl_backend, monkeypatch):
    driver = opencl_backend.driver
    kernel = driver.kernel(driver.build(kernel_text("prelude/common.h") + TEXT, ["-DDOUBLE=0"]), "slow")
    sum_of = uploaded(driver, np.zeros(1, np.float32))
    tries = refusing(opencl, monkeypatch, "MEM_OBJECT_ALLOCATION_FAILURE", times=1)
    event = driver.launch(kernel, (1, 1, 1), (1, 1, 1), [sum_of.memory, np.int32(1 << 24), np.float32(1)])
    assert driver.allocate(123).size == 123
    assert event.command_execution_status == opencl.cl.command_execution_status.COMPLETE
    assert len(tries) == 2


def refusing(opencl, monkeypatch, code, times=99):
    """A runtime that refuses memory so many times; the list of attempts."""
    cl, tries, real = opencl.cl, [], opencl.cl.Buffer
    number = getattr(cl.status_code, code)
    kind = cl.LogicError if code.startswith("INVALID") else cl.RuntimeError

    def buffer(*arguments):
        tries.append(arguments)
        if len(tries) <= times:
            raise kind(cl._cl._ErrorRecord(msg="", code=number, routine="create_buffer"))
        return real(*arguments)

    monkeypatch.setattr(cl, "Buffer", buffer)
    return tries


STARVED = """
import json, resource, sys
from pathlib import Path
import numpy as np
from convgrad import backends
from convgrad.backends.device.driver import OutOfDeviceMemory

driver = backends.get(sys.argv[1]).driver
driver.download(driver.allocate(64), np.empty(16, np.float32))  # whatever else it needs, it has now
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20), resource.RLIM_INFINITY))
try:
    driver.allocate(1 << 30)
except OutOfDeviceMemory as error:
    told = str(error)
memory, found = driver.allocate(64), np.empty(16, np.float32)
driver.upload(np.arange(16, dtype=np.float32), memory)
driver.download(memory, found)
print(json.dumps([told, found.tolist()]))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how large the process is stands in /proc")
def test_a_process_without_memory_is_told_so_and_lives_on(opencl_backend):
    """The runtime's own refusal, not ours; PoCL aborts the process where it notices only at first use."""
    if not opencl_backend.driver._is_cpu:
        pytest.skip("memory of the host is what runs out here")
    command = [sys.executable, "-c", STARVED, opencl_backend.name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told, found = json.loads(done.stdout.splitlines()[-1])
    assert "no room for 1073741824 bytes" in told
    assert found == list(range(16))
