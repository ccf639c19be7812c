"""Training on devices: as well as on NumPy, snapshots that go from one to another, the command itself."""

import json

import numpy as np
import pytest

from convgrad import backends, cli
from convgrad.training import nets, tasks
from convgrad.training.datasets.labelled import Labelled
from convgrad.training.loader import TRAIN, VALIDATION
from tests.backends.faults import FaultyDriver, around
from tests.training.nets_and_data import LAYERS, samples, tensors, workflow


def values(trained):
    """All that it has learned, as numbers by name."""
    return {name: np.frombuffer(content, np.float32) for name, content in tensors(trained).items()}


def check_close(one, other, atol):
    one, other = values(one), values(other)
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert not np.abs(array - other[name]).max() > atol, name


def test_a_device_learns_what_numpy_learns(device_backend):
    """Weights go apart only by what float32 rounds off; errors are the same."""
    here, there = workflow("numpy", epochs=3), workflow(device_backend, epochs=3)
    here.run()
    there.run()
    check_close(here, there, atol=1e-4)
    assert there.decision.last.errors == here.decision.last.errors


@pytest.mark.parametrize("to_device", [True, False], ids=["numpy to device", "device to numpy"])
def test_a_snapshot_is_resumed_elsewhere(device_backend, tmp_path, to_device):
    first, second = ("numpy", device_backend) if to_device else (device_backend, "numpy")
    whole, begun, resumed = (workflow(place, epochs=4) for place in (first, first, second))
    begun.decision.max_epochs = 2
    begun.run()
    begun.save(tmp_path / "x")
    kept = tensors(begun)
    resumed.resume(tmp_path / "x")
    assert tensors(resumed) == kept  # the same bits
    resumed.run()
    whole.run()
    check_close(whole, resumed, atol=1e-4)
    assert resumed.iteration == whole.iteration


def test_a_net_moves_to_a_device_and_back_between_epochs(device_backend):
    stayed, moved = workflow("numpy", epochs=3), workflow("numpy", epochs=1)
    stayed.run()
    for epochs, place in ((1, "numpy"), (2, device_backend), (3, "numpy")):
        moved.initialize(place)
        moved.decision.max_epochs = epochs
        moved.run()
    check_close(stayed, moved, atol=1e-4)


@pytest.fixture
def by_name(device_backend, monkeypatch):
    """The name under which the command finds this backend, with its shape of kernels."""
    monkeypatch.setitem(backends._open, device_backend.name, device_backend)
    return device_backend.name


def trained(capsys, *arguments):
    assert cli.main(("train", "digits", "--json", *arguments)) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_command_trains_and_resumes_on_a_device(device_backend, by_name, capsys, monkeypatch, tmp_path):
    small = Labelled(samples(1, 25), samples(2, 11), 3), nets.Net(LAYERS, 4, 3)
    monkeypatch.setattr(tasks, "task", lambda *_: small)
    whole = trained(capsys, "--backend", by_name, "--epochs", "4")
    assert (whole["backend"], whole["device"]) == (by_name, device_backend.device)
    assert (whole["train_samples"], whole["validation_samples"]) == (25, 11)
    trained(capsys, "--backend", by_name, "--epochs", "2", "--snapshots", str(tmp_path))
    file = str(tmp_path / "last.safetensors")
    resumed = trained(capsys, "--backend", by_name, "--epochs", "4", "--resume", file)
    assert {**resumed, "images_per_second": 0} == {**whole, "images_per_second": 0}
    elsewhere = trained(capsys, "--backend", "numpy", "--epochs", "4", "--resume", file)
    assert elsewhere["validation_errors"] == whole["validation_errors"]


def test_digits_are_learned_on_a_device(by_name, capsys):
    """A few epochs of the real thing, after which NumPy has 19 of 359 wrong."""
    pytest.importorskip("sklearn")
    result = trained(capsys, "--backend", by_name, "--epochs", "2")
    assert result["train_samples"] + result["validation_samples"] == 1797
    assert result["validation_errors"] <= 0.1 * result["validation_samples"]


@pytest.mark.slow
def test_digits_end_with_few_errors_on_a_device(by_name, capsys):
    pytest.importorskip("sklearn")
    result = trained(capsys, "--backend", by_name)
    assert result["validation_errors"] <= 0.025 * result["validation_samples"]


def test_a_fault_of_the_device_ends_the_run_and_the_next_goes_on(device_backend):
    """A minibatch that failed before its step is taken again."""
    backend = around(device_backend, FaultyDriver)
    whole, made = workflow(device_backend, epochs=2), workflow(backend, epochs=2)
    whole.run()
    while made.iteration == 0:
        served = made.step()
    assert served.class_name == TRAIN
    before = tensors(made)
    backend.driver.arm(5)  # in the forward units
    with pytest.raises(RuntimeError, match="injected"):
        made.run()
    backend.driver.arm(None)
    assert tensors(made) == before
    made.run()
    assert made.decision.last.samples[VALIDATION] == 11
