"""The cases of the check pass on every backend here, and they find what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad import backends
from convgrad.backends.device import conv_plans, correlation, programs
from convgrad.backends.device.backend import DeviceBackend
from convgrad.checking.cases import Case
from convgrad.checking.families import FAMILIES, cases, suiting, verdicts
from convgrad.kernel_source import kernel_text


@pytest.mark.parametrize("family", FAMILIES)
def test_a_backend_gives_the_known_answers(backend, family):
    some = suiting(backend).get(family, [])
    assert some or (family == "device" and backend.name == "numpy")
    assert [complaint for case in some if (complaint := case.complaint(backend))] == []


def test_titles_tell_cases_apart():
    told = [(case.family, case.title) for case in cases()]
    assert len(set(told)) == len(told)
    assert {family for family, _ in told} == set(FAMILIES)


# --- what a case says


def case(came, right, **keywords):
    """What is said of such an answer."""
    arrays = np.array(came), np.array(right)
    return Case("forward", "here", lambda _: arrays, **keywords).complaint(backends.get("numpy"))


@pytest.mark.parametrize("value", [1.0, -0.0, np.inf, np.nan])
def test_what_is_right_is_no_complaint(value):
    assert case([1.0, value], [1.0, value]) is None


def test_integers_are_compared():
    assert case([2**60, 1], [2**60, 1]) is None
    assert case([2**60 + 1, 1], [2**60, 1]) is not None


WRONG = [(2.0, 1.0), (0.0, -0.0), (np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf)]


@pytest.mark.parametrize(("came", "right"), WRONG)
def test_what_is_wrong_is_told_with_its_place(came, right):
    told = case([[1.0, 1.0], [1.0, came]], [[1.0, 1.0], [1.0, right]])
    assert told == f"here: 1 of 4 values are wrong, the first at (1, 1): {came} in place of {right}"


def test_ulps_are_those_of_the_right_value():
    one, least = np.float32(1), np.finfo(np.float32).smallest_subnormal
    assert case([one + 2 * np.spacing(one)], [one], ulps=2.0) is None
    assert case([one + 3 * np.spacing(one)], [one], ulps=2.0) is not None
    assert case([3 * least], [least], ulps=2.0) is None
    assert case([4 * least], [least], ulps=2.0) is not None
    assert case([np.float32(np.inf)], [np.float32(3e38)], ulps=2.0) is not None


def test_another_shape_is_a_complaint():
    assert "AssertionError" in case([1.0, 1.0], 1.0)


def test_what_a_runtime_raises_is_a_complaint():
    def fail(_):
        raise ValueError("out of something\nand more")

    assert Case("forward", "here", fail).complaint(None) == "here: ValueError: out of something"


def test_the_first_error_of_a_compiler_is_told():
    def fail(_):
        raise ValueError("refused\n   1 text\nx.cl:3:4: error: what is this")

    assert Case("forward", "here", fail).complaint(None).endswith("x.cl:3:4: error: what is this")


def test_families_tell_their_first_complaint(monkeypatch):
    numpy = backends.get("numpy")
    monkeypatch.setattr(numpy.pool, "forward", lambda *_, **__: None)  # leaves outputs as they were
    told = dict(verdicts(numpy))
    assert [family for family, wrong in told.items() if wrong] == ["pool"]
    assert "max, float32" in told["pool"]
    assert "nan in place of" in told["pool"]
    assert told["pool"].endswith(" (and 9 more)")


# --- faults of devices


def complaints(backend, family):
    """What the family says when all programs are built anew."""
    fresh = DeviceBackend(backend.driver)
    return [complaint for case in suiting(fresh)[family] if (complaint := case.complaint(fresh))]


@pytest.fixture
def altered(monkeypatch):
    """Kernel texts with something in place of something else."""

    def alter(old, new):
        def text(file):
            before = kernel_text(file)
            assert old in before
            return before.replace(old, new)

        monkeypatch.setattr(programs, "kernel_text", text)

    return alter


FMA = "#define FMA(a, b, c) fma(a, b, c)"


def test_a_fused_operation_that_is_not_is_found(device_backend, altered):
    altered(FMA, "#define FMA(a, b, c) ((a) * (b) + (c))")
    told = complaints(device_backend, "device")
    assert len(told) == (2 if device_backend.driver.profile.float64 else 1)
    assert all(text.startswith("fma(a, b, c) rounds once") for text in told)


def test_contraction_is_found(device_backend, altered):
    altered("a[i] * b[i] + c[i]", "FMA(a[i], b[i], c[i])")
    told = complaints(device_backend, "device")
    assert told
    assert all(text.startswith("a * b + c is not contracted") for text in told)


def test_lost_subnormals_are_found(device_backend, altered):
    altered("i] = product;", "i] = SELECT(V(0.0), product, product > V(1.2e-38));")
    told = [text for text in complaints(device_backend, "device") if "float32" in text]
    assert [text.split(",")[0] for text in told] == ["a * b rounds to nearest and keeps subnormals"]


def test_another_tree_is_found(device_backend, altered):
    altered("from[2 * item] + from[2 * item + 1]", "from[item] + from[item + n]")
    [told] = complaints(device_backend, "device")
    assert told.startswith("sums of neighbours in local memory")


def test_addresses_of_32_bits_are_found(device_backend, altered):
    altered("(INT64)row * stride - start", "(int)((unsigned)row * (unsigned)stride) - (int)start + 1")
    [told] = complaints(device_backend, "device")
    assert told.startswith("addresses beyond 32 bits")


@pytest.fixture
def forgotten():
    """Plans are made anew, in the test and after it."""

    def forget():
        for function in vars(conv_plans).values():
            getattr(function, "cache_clear", int)()

    forget()
    yield
    forget()


@pytest.mark.usefixtures("forgotten")
def test_another_order_is_found(device_backend, monkeypatch):
    """By the cases of real numbers alone, and by digests."""
    monkeypatch.setattr(correlation, "SEGMENT", 128)
    channels = {"384 channels, each tap in segments", "64 taps of 5 channels"}
    kernels = {"384 kernels, each tap in segments", "64 taps of 5 kernels"}
    for family, titles in (("forward", channels), ("fixed", channels | kernels)):
        assert {text.partition(":")[0] for text in complaints(device_backend, family)} == titles
