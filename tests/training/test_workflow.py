import numpy as np
import pytest

from convgrad.errors import BadFormatError, ConvgradError
from convgrad.training.loader import TEST, TRAIN, VALIDATION, ArrayLoader, Minibatch
from convgrad.training.workflow import StandardWorkflow
from tests.training.nets_and_data import LAYERS, Recorder, loader, samples, tensors, workflow

EVALUATION = [(TEST, 4), (TEST, 1), (VALIDATION, 4), (VALIDATION, 4), (VALIDATION, 3)]
TRAINING = [(TRAIN, 4)] * 6 + [(TRAIN, 1)]


def test_epochs_are_judged_between_evaluation_and_training(backend):
    report = Recorder()
    made = workflow(backend, epochs=2, report=report)

    made.run()

    assert report.minibatches == (EVALUATION + TRAINING) * 2 + EVALUATION
    assert [epoch.number for epoch in report.epochs] == [0, 1, 2]
    assert report.epochs[0].samples == {TEST: 5, VALIDATION: 11}
    assert report.epochs[1].samples == {TRAIN: 25, TEST: 5, VALIDATION: 11}
    assert made.iteration == 2 * 7


def test_a_net_learns(backend):
    """Chance is two of three wrong."""
    made = workflow(backend, epochs=25)
    made.run()
    assert made.decision.last.rate(TRAIN) <= 0.1
    assert made.decision.best.rate(VALIDATION) <= 0.5


def test_evaluation_changes_nothing(backend):
    made = workflow(backend)
    before = tensors(made)
    for _ in EVALUATION:
        made.step()
    assert tensors(made) == before
    made.step()
    assert tensors(made) != before


def test_errors_are_those_of_the_weights_at_the_epochs_end(backend):
    made = workflow(backend, epochs=3)
    made.run()
    data, labels = samples(2, 11)
    wrong = 0
    for start in range(0, 11, 4):
        rows = slice(start, start + 4)
        made.step(
            next(iter(ArrayLoader((data[rows], labels[rows]), minibatch_size=4).minibatches(0)))._replace(
                class_name=TEST
            )
        )
        wrong += made.evaluator.n_err
    assert wrong == made.decision.last.errors[VALIDATION]


def test_runs_are_the_same_bit_for_bit(backend):
    first, second = workflow(backend), workflow(backend)
    first.run()
    second.run()
    assert tensors(first) == tensors(second)


def test_seed_chooses_the_weights(backend):
    assert tensors(workflow(backend, seed=1)) != tensors(workflow(backend, seed=2))


def test_steps_are_the_run(backend):
    stepped, run = workflow(backend), workflow(backend)
    while stepped.step() is not None:
        pass
    run.run()
    assert tensors(stepped) == tensors(run)
    assert stepped.decision.last == run.decision.last


def test_step_returns_what_it_served():
    minibatch = workflow("numpy").step()
    assert isinstance(minibatch, Minibatch)
    assert (minibatch.class_name, minibatch.size) == (TEST, 4)


def test_complete_run_can_be_run_again_and_goes_on_when_the_limit_is_raised(backend):
    made, longer = workflow(backend, epochs=2), workflow(backend, epochs=4)
    made.run()
    before = tensors(made)
    made.run()
    assert tensors(made) == before

    made.decision.max_epochs = 4
    made.run()
    longer.run()

    assert tensors(made) == tensors(longer)
    assert made.decision.last == longer.decision.last


def test_padding_is_not_learned_from(backend):
    """A short minibatch gives the gradients of its samples alone, whatever stands in the padding."""
    data, labels = samples(1, 3)
    padded = Minibatch(TRAIN, np.full((4, 5, 4, 2), np.nan, np.float32), np.array([*labels, 2], np.int32), 3)
    padded.data[:3] = data
    exact = workflow(backend, served=ArrayLoader((data, labels), minibatch_size=3))
    filled = workflow(backend, served=ArrayLoader((data, labels), minibatch_size=4))

    exact.step(Minibatch(TRAIN, data, labels.astype(np.int32), 3))
    filled.step(padded)

    for one, other in zip(exact.forwards, filled.forwards, strict=True):
        for name, array in one.tensors().items():
            difference = np.abs(np.asarray(array) - np.asarray(other.tensors()[name])).max()
            assert not difference > 1e-6


def test_policies_set_the_rates_by_trained_minibatches():
    made = workflow(
        "numpy",
        lr_policy={"weights": {"type": "exp", "gamma": 0.5}, "bias": {"type": "arbitrary_step", "steps": []}},
    )
    for _ in range(len(EVALUATION) + 3):
        made.step()
    assert [(gd.learning_rate, gd.learning_rate_bias) for gd in made.gds if hasattr(gd, "learning_rate")] == [
        (0.01 * 0.5**2, 0.0)
    ] * 3


def test_rate_zero_leaves_the_bias(backend):
    made = workflow(backend, lr_policy={"bias": {"type": "arbitrary_step", "steps": []}})
    before = tensors(made)
    made.run()
    after = tensors(made)
    parameters = [name for name in before if "forward" in name]
    assert len(parameters) == 6
    for name in parameters:
        assert (after[name] == before[name]) == name.endswith("bias")


def test_mse_learns_to_copy(backend):
    data = samples(1, 24)[0].reshape(24, -1)[:, :3]
    layers = [{"type": "all2all", "output_sample_shape": 3, "learning_rate": 0.2}]
    report = Recorder()
    made = StandardWorkflow(
        layers,
        ArrayLoader((data, data), minibatch_size=8),
        loss="mse",
        decision={"max_epochs": 150},
        report=report,
    )
    made.initialize(backend)

    made.run()

    assert report.epochs[-1].rate(TRAIN) < 0.05 * report.epochs[1].rate(TRAIN)


def test_float64_data_train_in_float64(backend):
    made = workflow(
        backend, served=loader(**{name: samples(1, 6, np.float64) for name in (TRAIN, VALIDATION, TEST)})
    )
    made.run()
    assert {array.dtype for unit in made.forwards for array in unit.tensors().values()} == {
        np.dtype(np.float64)
    }


def test_any_object_with_classes_and_minibatches_is_a_loader():
    class Two:
        def __init__(self):
            self.classes = {TRAIN: 8}

        def minibatches(self, epoch):
            data, labels = samples(epoch, 8)
            for start in (0, 4):
                yield Minibatch(TRAIN, data[start : start + 4], labels[start : start + 4], 4)

    made = workflow("numpy", served=Two(), epochs=3)
    made.run()
    assert (made.iteration, made.decision.epoch) == (6, 3)


def test_loader_without_train_is_refused():
    served = loader()
    del served.classes[TRAIN]
    with pytest.raises(
        BadFormatError, match=r"loader must serve train, its classes are .'test': 5, 'validation': 11"
    ):
        StandardWorkflow(LAYERS, served)


def test_unknown_numerics_are_refused():
    with pytest.raises(BadFormatError, match=r"^numerics must be one of fast, fixed; got 'exact'"):
        StandardWorkflow(LAYERS, loader(), numerics="exact")


def test_run_before_initialize_is_refused():
    with pytest.raises(RuntimeError, match="initialize"):
        StandardWorkflow(LAYERS, loader()).run()


class Failing:
    """A loader, report or snapshots that fail once, at the n-th thing they are asked for."""

    def __init__(self, n):
        self.left = n

    def ask(self):
        self.left -= 1
        if self.left == 0:
            raise OSError("once")

    def epoch(self, *_):
        self.ask()

    def minibatch(self, _):
        pass

    def minibatches(self, epoch):
        for minibatch in loader().minibatches(epoch):
            self.ask()
            yield minibatch

    classes = loader().classes


EPOCHS_OF_TWO, MINIBATCHES_OF_TWO = 3, 12 * 2 + 5
FAILURES = [
    *((part, n) for part in ("snapshots", "report") for n in range(1, EPOCHS_OF_TWO + 1)),
    *(("served", n) for n in range(2, MINIBATCHES_OF_TWO + 2)),  # the first is for initialize
]


@pytest.mark.parametrize(("part", "n"), FAILURES)
def test_run_goes_on_where_an_error_ended_it(backend, part, n):
    whole = workflow(backend, epochs=2)
    made = workflow(backend, epochs=2, served=Failing(n) if part == "served" else None)
    if part != "served":
        setattr(made, part, Failing(n))
    whole.run()

    with pytest.raises(OSError, match="once"):
        made.run()
    made.run()

    assert tensors(made) == tensors(whole)
    assert made.decision.state() == whole.decision.state()
    assert made.iteration == whole.iteration


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"decision": 5}, "decision must be a dict of keywords, got 5"),
        ({"decision": {5: 1}}, "decision must be a dict of keywords"),
        ({"lr_policy": 5}, "lr_policy must be a dict of keywords, got 5"),
        ({"snapshots": 5}, "snapshots must be a path, got 5"),
        ({"snapshots": {"interval": 2}}, 'snapshots must have "folder", got {.interval'),
        ({"seed": "a"}, "seed must be an integer, got 'a'"),
        ({"layers": None}, "layers must be a list of dicts, got None"),
    ],
)
def test_wrong_kinds_are_named(keywords, message):
    with pytest.raises(BadFormatError, match=message):
        StandardWorkflow(**({"layers": LAYERS, "loader": loader()} | keywords))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"decision": {"max_epoch": 2}}, "decision has no keyword 'max_epoch'.*'max_epochs'"),
        ({"snapshots": {"dir": "x"}}, "snapshots has no keyword 'dir'"),
        ({"snapshots": {"folder": "x", "intervall": 2}}, "snapshots has no keyword 'intervall'.*'interval'"),
    ],
)
def test_unknown_keywords_are_named_with_the_nearest(keywords, message):
    with pytest.raises(TypeError, match=message):
        StandardWorkflow(LAYERS, loader(), **keywords)


def spoilt(part):
    """A loader whose samples of this class are NaN."""
    data, labels = samples(2, 11)
    return loader(**{part: (data * np.float32("nan"), labels)})


@pytest.mark.parametrize(("part", "epoch"), [(VALIDATION, 0), (TRAIN, 1)])
def test_loss_of_nan_ends_a_run_before_anything_is_learned(backend, part, epoch, tmp_path):
    made = workflow(backend, served=spoilt(part), snapshots=tmp_path)
    before = tensors(made)
    with pytest.raises(
        ConvgradError, match=f"diverged: the loss is nan in epoch {epoch};.*lower the learning rate"
    ):
        made.run()
    assert tensors(made) == before
    assert (tmp_path / "last.safetensors").exists() == (part == TRAIN)


def test_rate_too_high_ends_in_an_error(backend):
    layers = [layer | {"learning_rate": 1e30} if "kx" not in layer else layer for layer in LAYERS]
    with pytest.raises(ConvgradError, match="training has diverged: the loss is nan in epoch 1;"):
        workflow(backend, layers).run()


@pytest.mark.parametrize(
    ("loss", "targets", "message"),
    [
        (
            "softmax",
            np.zeros(6),
            'targets must be integer labels for loss="softmax", got float32; floats are',
        ),
        ("mse", np.zeros(6, int), 'targets must be floats for loss="mse", got int32; labels'),
    ],
)
def test_targets_must_be_of_the_kind_that_the_loss_wants(loss, targets, message):
    made = StandardWorkflow(LAYERS, ArrayLoader((samples(1, 6)[0], targets)), loss=loss)
    with pytest.raises(BadFormatError, match=f"^loader: {message}"):
        made.initialize("numpy")
