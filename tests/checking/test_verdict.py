"""Verdicts on devices: runtimes that abort, hang or raise are reported; what was found is kept."""

from __future__ import annotations

import json
import logging
import os
from types import SimpleNamespace

import pytest

from convgrad import backends
from convgrad.backends import verdict
from convgrad.backends.numpy import NumpyBackend
from convgrad.backends.verdict import Verdict

PASSED = Verdict({"forward": "", "bias": ""})
FAILED = Verdict({"forward": "", "bias": "1 of 2 values are wrong"})


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path / "convgrad" / "check"


# --- the process


@pytest.fixture
def dying(monkeypatch):
    monkeypatch.setattr(verdict, "_CHILD", "tests.checking.dying")


def test_numpy_passes_in_a_process_of_its_own():
    found = verdict.run("numpy")
    assert found.passed
    assert list(found.families)[:2] == ["forward", "err_input"]
    assert str(found) == "passed"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("abort", "the process was ended by SIGABRT"),
        ("raise", "RuntimeError: the device is lost"),
        ("leave", "the process ended with code 3"),
        ("not", "gpu"),
    ],
)
def test_the_family_that_ends_the_process_has_failed(dying, how, told):
    found = verdict.run(how, "gpu")
    assert found.families == {"forward": "", "bias": told}
    assert not found.passed
    assert str(found) == f"bias: {told}"


def test_a_process_that_hangs_is_ended(dying):
    assert verdict.run("hang", seconds=3).families == {"forward": "", "bias": "no answer within 3 seconds"}


def test_a_process_that_says_nothing_has_failed(dying):
    assert verdict.run("at once").families == {"start": "the process was ended by SIGABRT"}


def test_nothing_is_no_pass():
    assert not Verdict({}).passed


def test_a_backend_that_cannot_be_opened_has_failed():
    found = verdict.run("opencl:99:0")
    assert list(found.families) == ["start"]
    assert "BackendUnavailable" in found.families["start"]


def test_the_same_convgrad_is_checked_wherever_it_lies(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert verdict.run("numpy").passed
    assert os.environ["PYTHONPATH"] == str(tmp_path)


# --- what is kept


@pytest.fixture
def found(monkeypatch):
    """What checks find, in turn; the names that were checked are in `found.asked`."""
    found = SimpleNamespace(verdicts=[PASSED], asked=[])

    def run(name, shape=None, seconds=0):
        found.asked.append((name, shape))
        return found.verdicts.pop(0)

    monkeypatch.setattr(verdict, "run", run)
    return found


def test_a_verdict_is_kept_by_device_and_shape(found, cache):
    found.verdicts = [FAILED]
    assert verdict.kept("PoCL 9, a CPU", "cpu") is None
    assert verdict.examine("opencl:0:0", "PoCL 9, a CPU", "cpu") == FAILED
    assert verdict.kept("PoCL 9, a CPU", "cpu") == FAILED
    assert verdict.kept("PoCL 9, a CPU", "gpu") is None
    assert verdict.kept("PoCL 9.1, a CPU", "cpu") is None
    [file] = cache.iterdir()
    assert json.loads(file.read_text()) == {
        "device": "PoCL 9, a CPU",
        "shape": "cpu",
        "families": {"forward": "", "bias": "1 of 2 values are wrong"},
    }


def test_a_verdict_is_kept_until_something_changes(found, monkeypatch):
    verdict.examine("opencl:0:0", "a CPU", "cpu")
    monkeypatch.setattr(verdict, "_texts", lambda: "other")
    assert verdict.kept("a CPU", "cpu") is None


@pytest.mark.parametrize(
    "file",
    [
        *("kernels/lib/tree.h", "convgrad/backends/device/plan.py", "convgrad/numerics/leaves.py"),
        *("convgrad/checking/digests.json", "convgrad/__init__.py"),
    ],
)
def test_what_changes_a_verdict(monkeypatch, tmp_path, file):
    """Kernels, plans and the version are part of what is checked."""
    others = (
        "kernels/README.md",
        "kernels/cpu/weights.cl",
        "convgrad/__init__.py",
        "convgrad/backends/verdict.py",
    )
    for name in (*others, file):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(verdict, "__file__", str(tmp_path / "convgrad" / "backends" / "verdict.py"))
    monkeypatch.setattr(verdict, "kernels_folder", lambda: tmp_path / "kernels")
    before = verdict._texts.__wrapped__()
    assert verdict._texts.__wrapped__() == before
    (tmp_path / "kernels" / "README.md").write_text("words")
    assert verdict._texts.__wrapped__() == before
    (tmp_path / file).write_text("new")
    assert verdict._texts.__wrapped__() != before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"families": []}', b'{"families": null}', b"\xff"])
def test_a_damaged_verdict_is_none(found, cache, content):
    verdict.examine("opencl:0:0", "a CPU", "cpu")
    [file] = cache.iterdir()
    file.write_bytes(content)
    assert verdict.kept("a CPU", "cpu") is None


def test_a_folder_that_cannot_be_written_is_no_error(found, tmp_path):
    (tmp_path / "convgrad").touch()
    assert verdict.examine("opencl:0:0", "a CPU", "cpu") == PASSED
    assert verdict.kept("a CPU", "cpu") is None


# --- who passes


def device(name="opencl:0:0"):
    driver = SimpleNamespace(identity=name, profile=SimpleNamespace(shape="gpu"))
    return SimpleNamespace(name=name, device="a device", driver=driver)


def test_numpy_passes_without_a_check(found):
    assert verdict.passes(NumpyBackend(threads=1))
    assert found.asked == []


def test_a_device_is_checked_once_and_that_is_logged(found, caplog):
    with caplog.at_level(logging.WARNING, "convgrad"):
        assert verdict.passes(device())
        assert verdict.passes(device())
    assert found.asked == [("opencl:0:0", "gpu")]
    assert [record.getMessage() for record in caplog.records] == [
        "checking opencl:0:0, a device, once, since it is new here"
    ]


def test_a_device_that_fails_is_told_each_time(found, caplog):
    found.verdicts = [FAILED]
    assert not verdict.passes(device())
    caplog.clear()
    assert not verdict.passes(device())
    assert found.asked == [("opencl:0:0", "gpu")]
    [record] = caplog.records
    assert "opencl:0:0 is passed over" in record.getMessage()
    assert "bias: 1 of 2 values are wrong" in record.getMessage()


def test_auto_passes_over_devices_that_fail(found, monkeypatch):
    found.verdicts = [FAILED, PASSED]
    names = ["opencl:0:0", "opencl:1:0", "opencl:2:0"]
    monkeypatch.setattr(backends, "_candidates", lambda: iter(names))
    monkeypatch.setattr(backends, "_chosen", {})
    monkeypatch.setattr(backends, "_open", {name: device(name) for name in names})
    monkeypatch.setattr(backends, "_opener", lambda _: backends._open.__getitem__)
    assert backends.get("auto").name == "opencl:1:0"
    assert found.asked == [("opencl:0:0", "gpu"), ("opencl:1:0", "gpu")]


def test_auto_ends_with_numpy(found, monkeypatch):
    found.verdicts = [FAILED]
    numpy = backends.get("numpy")
    monkeypatch.setattr(backends, "_candidates", lambda: iter(["opencl:0:0"]))
    monkeypatch.setattr(backends, "_chosen", {})
    monkeypatch.setattr(backends, "_open", {"opencl:0:0": device(), "numpy": numpy})
    monkeypatch.setattr(backends, "_opener", lambda _: backends._open.__getitem__)
    assert backends.get("auto") is numpy
