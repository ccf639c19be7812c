import json

import numpy as np
import pytest

from convgrad.errors import BadFormatError, SnapshotError
from convgrad.training import snapshot
from tests.training.nets_and_data import LAYERS, POLICY, Recorder, loader, samples, tensors, workflow


def saved(device, folder):
    """A snapshot after two epochs on a backend."""
    made = workflow(device, epochs=2)
    made.run()
    made.save(folder / "two.safetensors")
    return folder / "two.safetensors"


@pytest.fixture
def path(tmp_path):
    """A snapshot after two epochs on NumPy."""
    return saved("numpy", tmp_path)


@pytest.fixture
def path_here(backend, tmp_path):
    """A snapshot after two epochs on the test's own backend."""
    return saved(backend, tmp_path)


def test_resumed_run_is_the_uninterrupted_run(backend, path_here):
    whole = workflow(backend, epochs=5)
    whole.run()
    resumed = workflow(backend, epochs=5, seed=1)

    resumed.resume(path_here)
    resumed.run()

    assert tensors(resumed) == tensors(whole)
    assert resumed.decision.state() == whole.decision.state()
    assert resumed.iteration == whole.iteration
    assert resumed.random.state() == whole.random.state()


def test_accumulators_are_resumed_too(backend, tmp_path):
    layers = [
        {
            "type": "conv",
            "n_kernels": 2,
            "kx": 2,
            "ky": 2,
            "accumulate_gradient": True,
            "acc_alpha": 0.5,
            "acc_beta": 0.9,
        },
        {"type": "softmax", "output_sample_shape": 3, "gradient_moment": 0.3},
    ]
    layers[0] |= {"gd_alpha": 0.25, "gradient_moment": 0.9, "weights_transposed": True}
    first, whole, resumed = (workflow(backend, layers, epochs=epochs) for epochs in (1, 3, 3))
    first.run()
    first.save(tmp_path / "x")
    whole.run()
    resumed.resume(tmp_path / "x")
    resumed.run()
    assert tensors(resumed) == tensors(whole)
    assert "gd_conv_0_backward.accumulated_gradient_bias" in tensors(whole)


def test_a_generator_in_use_goes_on(backend, path_here):
    made = workflow(backend)
    made.resume(path_here)
    drawn = made.random.uniform(0, 1, 3)
    made.save(path_here)
    again = workflow(backend)
    again.resume(path_here)
    assert again.random.uniform(0, 1) not in drawn
    assert again.random.state() != workflow(backend).random.state()


def test_best_and_last_are_kept(backend, tmp_path):
    made = workflow(backend, epochs=4, snapshots=tmp_path / "kept")
    made.run()
    last, best = (snapshot.read(tmp_path / "kept" / f"{name}.safetensors").state for name in ("last", "best"))
    assert last["decision"]["last"]["number"] == 4
    assert best["decision"]["last"] == made.decision.best._asdict()
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "best.safetensors",
        "last.safetensors",
    ]


def test_best_holds_the_weights_that_were_judged(backend, tmp_path):
    made = workflow(backend, epochs=4, snapshots=tmp_path)
    made.run()
    number = made.decision.best.number
    shorter = workflow(backend, epochs=number)
    shorter.run()
    best = workflow(backend)
    best.resume(tmp_path / "best.safetensors")
    assert tensors(best) == tensors(shorter)


@pytest.mark.parametrize(
    ("interval", "epochs", "written"), [(3, 5, [0, 3, 5]), (1, 2, [0, 1, 2]), (10, 2, [0, 2])]
)
def test_interval_and_the_last_epoch(tmp_path, monkeypatch, interval, epochs, written):
    numbers = []
    write = snapshot.write

    def noting(path, tensors, state):
        if path.name.startswith("last"):
            numbers.append(state["decision"]["last"]["number"])
        write(path, tensors, state)

    monkeypatch.setattr(snapshot, "write", noting)
    workflow("numpy", epochs=epochs, snapshots={"folder": tmp_path, "interval": interval}).run()
    assert numbers == written


def test_resuming_a_complete_run_does_nothing(backend, path_here):
    made = workflow(backend, epochs=2)
    made.resume(path_here)
    before = tensors(made)
    made.run()
    assert tensors(made) == before
    assert made.decision.epoch == 2


def test_state_can_be_read_by_people(path):
    state = snapshot.read(path).state
    assert state["layers"] == json.loads(json.dumps(LAYERS))
    assert state["lr_policy"] == POLICY
    assert state["numerics"] == "fast"
    assert state["seed"] == 1
    assert state["iteration"] == 14
    assert state["convgrad"]


CHANGED = [{**LAYERS[0], "n_kernels": 4}, *LAYERS[1:]]
TRANSPOSED = [{**LAYERS[0], "weights_transposed": True}, *LAYERS[1:]]
DOUBLE = {
    name: samples(1, count, np.float64) for name, count in (("train", 25), ("validation", 11), ("test", 5))
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": CHANGED}, r"layers\[0\]\['n_kernels'\] is 3 there and 4 here"),
        ({"layers": TRANSPOSED}, r"layers\[0\]\['weights_transposed'\] is None there and True here"),
        (
            {"layers": [LAYERS[0], *LAYERS[2:]]},
            "layers is 4 there and 3 here; the snapshot is of another net",
        ),
        ({"seed": 2}, "seed is 1 there and 2 here$"),
        ({"lr_policy": None}, "lr_policy is .* there and None here"),
        ({"served": loader(minibatch_size=5)}, r"the minibatch size \(--batch\) is 4 there and 5 here$"),
        ({"served": loader(seed=2)}, r"loader\['seed'\] is 1 there and 2 here"),
        (
            {"served": loader(test=None)},
            r"loader\['classes'\]\['test'\] is 5 there and None here; .* data set",
        ),
        ({"served": loader(**DOUBLE)}, r"loader\['minibatch'\]\[1\] is 'float32' there and 'float64' here"),
    ],
)
def test_contradictions_are_named_and_change_nothing(path, arguments, message):
    made = workflow("numpy", **arguments)
    before = tensors(made), made.iteration, made.decision.state(), made.random.state()
    with pytest.raises(SnapshotError, match=message):
        made.resume(path)
    assert (tensors(made), made.iteration, made.decision.state(), made.random.state()) == before


def test_numerics_must_agree(path):
    found = snapshot.read(path)
    found.state.pop("format")
    snapshot.write(path, found.tensors, found.state | {"numerics": "fixed"})
    with pytest.raises(SnapshotError, match="numerics is 'fixed' there and 'fast' here"):
        workflow("numpy").resume(path)


@pytest.mark.parametrize("change", ["missing", "more", "shape", "dtype"])
def test_tensors_must_be_those_of_the_units(path, change):
    kept, state = snapshot.read(path)
    state.pop("format")
    name = "conv_tanh_0_forward.bias"
    if change == "more":
        kept["other.weights"] = kept[name]
    tensor = kept.pop(name)
    if change != "missing":
        kept[name] = {"more": tensor, "shape": tensor[:2], "dtype": tensor.astype(np.float64)}[change]
    snapshot.write(path, kept, state)
    made = workflow("numpy")
    before = tensors(made)
    with pytest.raises(SnapshotError, match=r"other\.weights|conv_tanh_0_forward\.bias"):
        made.resume(path)
    assert tensors(made) == before


def test_damaged_file_changes_nothing(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)
    made = workflow("numpy")
    before = tensors(made)
    with pytest.raises(SnapshotError):
        made.resume(path)
    assert tensors(made) == before


def test_layers_that_json_cannot_hold_are_named_at_once(tmp_path):
    layers = [LAYERS[0] | {"->": {"rand": object()}}, *LAYERS[1:]]
    with pytest.raises(BadFormatError, match="layer 0 must be made of dicts"):
        workflow("numpy", layers, snapshots=tmp_path)


def test_bad_interval_is_named(tmp_path):
    with pytest.raises(BadFormatError, match="interval must be at least 1, got 0"):
        workflow("numpy", snapshots={"folder": tmp_path, "interval": 0})


def test_other_bad_arguments_are_named(tmp_path):
    with pytest.raises(BadFormatError, match="interval must be an integer, got '2'"):
        workflow("numpy", snapshots={"folder": tmp_path, "interval": "2"})
    for method in (workflow("numpy").save, workflow("numpy").resume):
        with pytest.raises(BadFormatError, match="path must be a path, got None"):
            method(None)


@pytest.mark.parametrize(("steps", "inside"), [(0, False), (1, True), (5, True), (6, True), (12, True)])
def test_inside_an_epoch_nothing_is_saved(tmp_path, steps, inside):
    made = workflow("numpy")
    for _ in range(steps):
        made.step()
    if inside:
        with pytest.raises(RuntimeError, match="save between epochs"):
            made.save(tmp_path / "x")
    else:
        made.save(tmp_path / "x")
    assert (tmp_path / "x").exists() is not inside


def test_resuming_ends_what_was_inside_an_epoch(backend, path_here):
    made, resumed = workflow(backend), workflow(backend)
    for _ in range(8):
        made.step()
    for each in (made, resumed):
        each.resume(path_here)
    made.save(path_here)
    for each in (made, resumed):
        each.run()
    assert tensors(made) == tensors(resumed)
    assert made.decision.state() == resumed.decision.state()


def test_the_report_may_save_when_an_epoch_is_judged(backend, tmp_path):
    class Saver(Recorder):
        def epoch(self, epoch):
            made.save(tmp_path / str(epoch.number))

    made = workflow(backend, epochs=2, report=Saver())
    made.run()
    resumed = workflow(backend, epochs=2)
    resumed.resume(tmp_path / "1")
    resumed.run()
    assert tensors(resumed) == tensors(made)


@pytest.mark.parametrize(
    "change",
    [{"random": None}, {"random": [1]}, {"iteration": "2"}, {"decision": 5}, {"decision": {"last": 5}}],
)
def test_state_of_another_kind_changes_nothing(path, change):
    found = snapshot.read(path)
    found.state.pop("format")
    snapshot.write(path, found.tensors, found.state | change)
    made = workflow("numpy")
    before = tensors(made), made.iteration, made.decision.state(), made.random.state()
    with pytest.raises(SnapshotError, match="holds no state of a workflow"):
        made.resume(path)
    assert (tensors(made), made.iteration, made.decision.state(), made.random.state()) == before


def test_initialize_comes_first(path):
    from convgrad.training.workflow import StandardWorkflow

    made = StandardWorkflow(LAYERS, loader(), lr_policy=POLICY)
    with pytest.raises(RuntimeError, match="initialize"):
        made.resume(path)
    with pytest.raises(RuntimeError, match="initialize"):
        made.save(path)
