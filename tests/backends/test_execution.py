"""Plans are run in order, with less memory where there is less, by several threads, and after faults."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from convgrad.backends.device.backend import DeviceBackend
from convgrad.backends.device.buffers import Buffer
from convgrad.backends.device.driver import OutOfDeviceMemory
from convgrad.backends.device.execution import Executor
from convgrad.backends.device.plan import Launch, Plan
from convgrad.errors import ConvgradError
from tests.backends.faults import CountingDriver, FaultyDriver, OtherProfile, SmallDriver
from tests.backends.small_kernels import AFFINE, affine, count, host, planner, slow, uploaded

pytestmark = pytest.mark.usefixtures("small_kernels")


def arrays(driver, size=5):
    """x of small integers, y of NaN."""
    x = np.arange(size, dtype=np.float32) - 2
    return {"x": uploaded(driver, x), "y": uploaded(driver, np.full_like(x, np.nan))}


def test_launches_run_in_order(driver):
    """y = 3 x + 7 by way of scratch memory, a hundred times over."""
    executor, buffers = Executor(driver), arrays(driver)
    there, back = affine(5, factor=3.0, y="between"), affine(5, place=7, x="between")
    plan = planner(*[there, back] * 100, scratch=[("other", 36), ("between", 20)])
    executor.run(plan, 1 << 20, **buffers)
    np.testing.assert_array_equal(host(driver, buffers["y"]), 3 * (np.arange(5) - 2) + 7)


def test_what_is_missing_is_a_null_pointer(driver):
    executor, y = Executor(driver), arrays(driver)["y"]
    driver.upload(np.zeros(5, np.float32), y.memory)
    executor.run(planner(count(1), count(3, x="nothing")), 0, y=y, nothing=None)
    np.testing.assert_array_equal(host(driver, y), [0, 1, 0, -1, 0])


# --- what is not launched


def test_launches_of_no_group_are_left_out(driver):
    counting = CountingDriver(driver)
    buffers = {role: Buffer(counting.allocate(4), (1,), np.float32) for role in "xy"}
    Executor(counting).run(planner(affine(0), affine(1), affine(0)), 0, **buffers)
    assert counting.calls["launch"] == 1


@pytest.mark.parametrize("axis", range(3))
def test_more_groups_than_there_can_be_are_refused(driver, axis):
    most = (2000, 30, 20)
    counting = CountingDriver(OtherProfile(driver, groups=most))
    groups = [1, 1, 1]
    groups[axis] = most[axis] + 1
    launch = Launch(AFFINE, tuple(groups), (1, 1, 1), affine(1).arguments)
    with pytest.raises(ConvgradError, match=r"affine has \(.*\) groups; .* takes \(2000, 30, 20\)"):
        Executor(counting).run(planner(launch), 0, x=None, y=None)
    assert counting.calls["launch"] == 0


# --- memory


class Halving:
    """Plans whose scratch memory is the budget, but at least `least`; `budgets` are those asked for."""

    def __init__(self, least, total=4096):
        self.least, self.total, self.budgets = least, total, []

    def __call__(self, budget):
        self.budgets.append(budget)
        scratch = max(self.least, min(budget, self.total))
        launches = affine(5, factor=2.0, y="between"), affine(5, place=1, x="between")
        return Plan(launches, (("between", scratch),))


def limited(driver, limit):
    small = SmallDriver(driver)
    small.limit = limit
    return small


def test_with_too_little_memory_the_plan_is_halved_until_it_fits(driver):
    small, plans = limited(driver, 600), Halving(64)
    executor, buffers = Executor(small), arrays(driver)
    executor.run(plans, 1 << 20, **buffers)
    np.testing.assert_array_equal(host(driver, buffers["y"]), 2 * (np.arange(5) - 2) + 1)
    assert plans.budgets == [1 << 20, 2048, 1024, 512]
    assert small.refused == [4096, 2048, 1024]


def test_with_enough_memory_nothing_is_halved(driver):
    plans = Halving(64)
    Executor(driver).run(plans, 1 << 20, **arrays(driver))
    assert plans.budgets == [1 << 20]


def test_the_least_plan_that_does_not_fit_is_an_error(driver):
    """It names what is needed and what is there, and the next operation runs."""
    small, plans = limited(driver, 600), Halving(700)
    executor, buffers = Executor(small), arrays(driver)
    with pytest.raises(OutOfDeviceMemory, match=f"700 bytes; it has {driver.profile.memory} in all") as error:
        executor.run(plans, 1 << 20, **buffers)
    assert error.value.nbytes == 700
    assert isinstance(error.value, MemoryError)
    assert np.isnan(host(driver, buffers["y"])).all()
    executor.run(Halving(64), 512, **buffers)
    np.testing.assert_array_equal(host(driver, buffers["y"]), 2 * (np.arange(5) - 2) + 1)


def test_a_smaller_plan_is_looked_for_down_to_a_budget_of_nothing(driver):
    """Plans do not always shrink with their budgets."""
    scratch, budgets = {64: 2048, 32: 2048, 16: 512, 8: 600, 4: 520, 2: 384}, []

    def plans(budget):
        budgets.append(budget)
        return Plan((), (("between", scratch.get(budget, 700 if budget else 500)),))

    executor = Executor(limited(driver, 400))
    executor.run(plans, 64)
    assert budgets == [64, 32, 16, 8, 4, 2]
    with pytest.raises(OutOfDeviceMemory, match="384 bytes"):
        Executor(limited(driver, 0)).run(plans, 64)
    assert budgets[6:] == [64, 32, 16, 8, 4, 2, 1, 0]


def test_a_thousand_arrays_do_not_pile_up(driver):
    """Neither memory of the device nor objects of the host."""
    counting = CountingDriver(driver)
    backend = DeviceBackend(counting)

    def thousand():
        for number in range(1000):
            backend.upload(np.full(number % 50 + 1, 1, np.float32))
        gc.collect()

    thousand()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    thousand()
    growth = sum(line.size_diff for line in tracemalloc.take_snapshot().compare_to(before, "filename"))
    tracemalloc.stop()
    assert counting.live == (0, 0)
    assert growth < 20_000  # 20 bytes for each


def test_a_thousand_runs_do_not_pile_up(driver):
    executor, buffers = Executor(driver), arrays(driver)
    plan = planner(affine(5, y="between"), affine(5, x="between"), scratch=[("between", 20)])

    def thousand():
        for _ in range(1000):
            executor.run(plan, 0, **buffers)
        driver.synchronize()
        gc.collect()

    thousand()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    thousand()
    growth = sum(line.size_diff for line in tracemalloc.take_snapshot().compare_to(before, "filename"))
    tracemalloc.stop()
    assert growth < 20_000


# --- faults


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_fault_leaves_the_executor_usable(driver, number):
    """At the allocation of scratch memory, and at each of three launches; `number` counts these."""
    faulty = FaultyDriver(driver)
    executor, buffers = Executor(faulty), arrays(driver)
    launches = affine(5, factor=2.0, y="between"), affine(5, place=1, x="between"), slow(1, y="other")
    plan = planner(*launches, scratch=[("between", 20), ("other", 4)])
    faulty.arm(number)
    with pytest.raises(RuntimeError, match="injected"):
        executor.run(plan, 0, **buffers)
    assert faulty.calls == ["allocate", "launch", "launch", "launch"][:number]
    executor.run(plan, 0, **buffers)
    np.testing.assert_array_equal(host(driver, buffers["y"]), 2 * (np.arange(5) - 2) + 1)


def test_another_thread_can_run_after_a_fault(driver):
    faulty = FaultyDriver(driver)
    executor, buffers = Executor(faulty), arrays(driver)
    faulty.arm(1)
    with pytest.raises(RuntimeError, match="injected"):
        executor.run(planner(affine(5)), 0, **buffers)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(executor.run, planner(affine(5)), 0, **buffers).result(timeout=60)
    np.testing.assert_array_equal(host(driver, buffers["y"]), np.arange(5) - 2)


# --- threads


@pytest.fixture
def hasty():
    """Python goes from thread to thread as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_two_threads_a_thousand_times(driver, hasty):
    """Other numbers, other scratch memory, the same kernels; each looks at its results every tenth time."""
    executor, meeting = Executor(driver), Barrier(2, timeout=60)

    def work(number):
        buffers = arrays(driver, size=5 + number)
        x = np.arange(5 + number) - 2
        meeting.wait()
        for turn in range(1000):
            there = affine(len(x), factor=number + 2, y="between")
            back = affine(len(x), place=turn, x="between")
            scratch = [("between", 4 * len(x)), ("more", 4 * turn)]
            executor.run(planner(there, back, scratch=scratch), 0, **buffers)
            if turn % 10 == 0 and (host(driver, buffers["y"]) != (number + 2) * x + turn).any():
                return turn
        return None

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, range(2))) == [None, None]


# --- timing


def test_timing_tells_each_launch(driver):
    executor, buffers = Executor(driver), arrays(driver)
    executor.run(planner(affine(5)), 0, **buffers)
    with executor.timing() as outer:
        executor.run(planner(slow(1 << 20), affine(5)), 0, **buffers)
        with executor.timing() as inner:
            executor.run(planner(affine(5)), 0, **buffers)
        executor.run(planner(slow(1)), 0, **buffers)
    executor.run(planner(affine(5)), 0, **buffers)
    assert [name for name, _ in inner] == ["affine"]
    assert [name for name, _ in outer] == ["slow", "affine", "affine", "slow"]
    assert outer[0][1] > 1e-6  # a million steps


def test_timing_ends_with_an_error(driver):
    executor, buffers = Executor(driver), arrays(driver)
    with pytest.raises(KeyError), executor.timing() as timing:
        executor.run(planner(affine(5), affine(5, x="missing")), 0, **buffers)
    executor.run(planner(affine(5)), 0, **buffers)
    assert timing == []
