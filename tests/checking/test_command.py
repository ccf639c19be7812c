"""`convgrad check` and `convgrad devices`: which devices there are, and what is told of them."""

from __future__ import annotations

import json
import sys

import pytest

from convgrad import cli
from convgrad.backends import verdict
from convgrad.backends.device.driver import Description, Profile
from convgrad.backends.verdict import Verdict
from convgrad.errors import BackendUnavailable

FAILURE = "here: 1 of 2 values are wrong"
CPU = Description(
    "a CPU (PoCL)", "PoCL, a CPU", Profile("cpu", 8, 2, 3 << 30, 1 << 30, 1 << 16, 128, float64=True)
)
GPU = Description("a GPU", "GPU", Profile("gpu", 1, 20, 8 << 30, 2 << 30, 1 << 16, 128, float64=False))


FACTS = {
    "name": "opencl:0:0",
    "present": True,
    "text": "a CPU (PoCL)",
    "memory": 3 << 30,
    "float64": True,
    "shape": "cpu",
    "check": None,
}


class OpenCL:
    """A module like convgrad.backends.opencl, which opens nothing."""

    def names(self):
        return ["opencl:0:0", "opencl:1:0"]

    def described(self, name):
        return CPU if name == "opencl:0:0" else GPU


@pytest.fixture(autouse=True)
def two_devices(tmp_path, monkeypatch):
    """Two pretended devices, of which the second one fails."""
    from convgrad import backends

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    module = OpenCL()
    monkeypatch.setitem(sys.modules, "convgrad.backends.opencl", module)
    monkeypatch.setattr(backends, "opencl", module, raising=False)

    def run(name, shape=None, seconds=0):
        return Verdict({"forward": "", "bias": FAILURE if name == "opencl:1:0" else ""})

    monkeypatch.setattr(verdict, "run", run)


def run(capsys, *arguments):
    """Exit code, lines of stdout, stderr."""
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def told(out):
    """{device: {family: what is told of it}}."""
    devices = {}
    for line in out:
        if line.startswith(" "):
            family, words = line.split(maxsplit=1)
            list(devices.values())[-1][family] = words
        else:
            devices[line.split()[0]] = {}
    return devices


def test_one_that_fails_is_an_exit_code_of_1(capsys):
    code, out, err = run(capsys, "check")
    assert (code, err) == (1, "")
    assert told(out) == {
        "cuda": {},
        "opencl:0:0": {"forward": "right", "bias": "right"},
        "opencl:1:0": {"forward": "right", "bias": f"WRONG: {FAILURE}"},
        "numpy": {"forward": "right", "bias": "right"},
    }
    assert out[0].startswith("cuda        missing: ")
    assert out[1] == "opencl:0:0  a CPU (PoCL)"


@pytest.mark.parametrize("names", [["opencl:0:0"], ["numpy"], ["cuda"], ["numpy", "opencl:0:0"]])
def test_what_passes_or_is_missing_is_an_exit_code_of_0(capsys, names):
    code, out, _ = run(capsys, "check", *(argument for name in names for argument in ("--backend", name)))
    assert code == 0
    assert list(told(out)) == names


def test_opencl_means_all_of_its_devices(capsys):
    code, out, _ = run(capsys, "check", "--backend", "opencl")
    assert code == 1
    assert list(told(out)) == ["opencl:0:0", "opencl:1:0"]


def test_as_json(capsys):
    code, out, err = run(capsys, "check", "--backend", "opencl", "--backend", "cuda", "--json")
    result = json.loads(out[-1])
    assert (code, len(out), result["passed"]) == (1, 1, False)
    assert FAILURE in err
    first, second, missing = result["devices"]
    assert first == FACTS | {"check": "passed", "passed": True, "families": {"forward": "", "bias": ""}}
    assert (second["passed"], second["families"]["bias"]) == (False, FAILURE)
    assert (missing["name"], missing["present"], missing["passed"]) == ("cuda", False, None)


@pytest.mark.parametrize(
    "arguments", [["--backend", "opencl:7:0"], ["--backend", "opencl:0"], ["--fast"], ["numpy"]]
)
def test_wrong_usage_is_an_exit_code_of_2(capsys, arguments):
    code, out, err = run(capsys, "check", *arguments)
    assert (code, out) == (2, [])
    assert err.startswith("convgrad: ")
    assert len(err.splitlines()) == 1


def test_devices_tells_each_with_its_verdict(capsys):
    run(capsys, "check", "--backend", "opencl")
    _, out, _ = run(capsys, "devices")
    assert out[1:3] == [
        "opencl:0:0  a CPU (PoCL); 3.0 GiB, float32 and float64, cpu kernels, check: passed",
        f"opencl:1:0  a GPU; 8.0 GiB, float32 alone, gpu kernels, check: bias: {FAILURE}",
    ]


def test_devices_tells_that_there_is_no_verdict(capsys):
    _, out, _ = run(capsys, "devices")
    assert out[1].endswith("cpu kernels, check: not yet run")


def test_devices_as_json(capsys):
    _, out, _ = run(capsys, "devices", "--json")
    cuda, first, second, numpy = json.loads(out[-1])["backends"]
    assert (cuda["name"], cuda["present"]) == ("cuda", False)
    assert (numpy["name"], numpy["present"]) == ("numpy", True)
    assert first == FACTS
    assert second["shape"] == "gpu"


@pytest.mark.parametrize("reason", [BackendUnavailable("no runtime; install one"), RuntimeError("forked")])
def test_why_opencl_is_missing_is_told(capsys, monkeypatch, reason):
    def names(_):
        raise reason

    monkeypatch.setattr(OpenCL, "names", names)
    code, out, _ = run(capsys, "devices")
    assert code == 0
    assert out[1] == f"opencl      missing: {reason}"
