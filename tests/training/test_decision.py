import json

import pytest

from convgrad.errors import BadFormatError
from convgrad.training.decision import Decision
from convgrad.training.loader import TRAIN, VALIDATION


def run(decision, validation, train=5):
    """Judge epochs 0, 1, ... with these errors of 100 until it is complete; returns the epochs judged."""
    judged = []
    for number, errors in enumerate(validation):
        if decision.complete:
            break
        decision.count(VALIDATION, errors, 100)
        decision.count(TRAIN, train, 100)
        judged.append(decision.judge(number))
    return judged


def test_errors_of_minibatches_add_up():
    decision = Decision()
    for errors, samples in ((3, 10), (4, 10), (1, 2)):
        decision.count(VALIDATION, errors, samples)

    epoch = decision.judge(0)

    assert (epoch.errors, epoch.samples) == ({VALIDATION: 8}, {VALIDATION: 22})
    assert epoch.rate(VALIDATION) == 8 / 22


def test_reason_of_an_early_end_is_told():
    patient, perfect, full = Decision(fail_iterations=2), Decision(), Decision(max_epochs=1)
    run(patient, [5, 6, 7])
    run(perfect, [3, 0], train=0)
    run(full, [5, 4])
    assert [decision.complete for decision in (patient, perfect, full)] == [True] * 3
    assert patient.early == "2 epochs without improvement"
    assert perfect.early == "no errors left in train and validation"
    assert full.early is Decision().early is None


def test_each_epoch_counts_from_zero():
    judged = run(Decision(), [7, 6])
    assert [epoch.errors[VALIDATION] for epoch in judged] == [7, 6]


def test_fewer_errors_improve_and_as_many_do_not():
    decision = Decision()
    judged = run(decision, [9, 7, 7, 8, 6])
    assert [epoch.improved for epoch in judged] == [True, True, False, False, True]
    assert decision.best.number == 4
    assert decision.improved


def test_validation_leads_whatever_train_does():
    decision = Decision()
    for number, (validation, train) in enumerate([(5, 9), (6, 1)]):
        decision.count(VALIDATION, validation, 100)
        decision.count(TRAIN, train, 100)
        decision.judge(number)
    assert decision.best.number == 0


def test_train_leads_where_nothing_is_validated():
    decision = Decision()
    for number, errors in enumerate([None, 9, 5, 6]):
        if errors is not None:
            decision.count(TRAIN, errors, 100)
        decision.judge(number)
    assert decision.best.number == 2


def test_rates_are_compared_not_counts():
    decision = Decision()
    for number, samples in enumerate([100, 10]):
        decision.count(VALIDATION, 5, samples)
        decision.judge(number)
    assert decision.best.number == 0


def test_not_a_number_never_improves():
    judged = run(Decision(), [9, float("nan"), 8])
    assert [epoch.improved for epoch in judged] == [True, False, True]


def test_stops_after_max_epochs():
    assert len(run(Decision(max_epochs=3), range(50, 0, -1))) == 4  # epoch 0 has not been trained


def test_stops_after_epochs_without_improvement():
    assert len(run(Decision(fail_iterations=3), [9, 8, 8, 9, 8, 7])) == 5


def test_improvement_starts_the_count_anew():
    assert len(run(Decision(fail_iterations=2), [9, 9, 8, 8, 7, 7, 7, 6])) == 7


def test_stops_when_there_are_no_errors():
    assert len(run(Decision(), [9, 0, 1], train=0)) == 2


def test_goes_on_while_train_has_errors():
    assert len(run(Decision(), [9, 0, 1], train=1)) == 3


def test_default_patience_is_100_epochs():
    assert len(run(Decision(), [5] * 200)) == 101


def test_state_survives_json():
    first = Decision()
    run(first, [9, 7, 8])
    second = Decision()

    second.restore(json.loads(json.dumps(first.state())))

    assert (second.last, second.best, second.epoch) == (first.last, first.best, 2)


def test_more_epochs_can_be_asked_of_a_complete_one():
    first, second = Decision(max_epochs=2), Decision(max_epochs=4)
    run(first, [9, 8, 7])
    second.restore(first.state())
    assert first.complete
    assert not second.complete


def test_fresh_state_restores():
    decision = Decision()
    decision.restore(json.loads(json.dumps(Decision().state())))
    assert (decision.epoch, decision.improved, decision.complete) == (-1, False, False)


@pytest.mark.parametrize(
    "keywords",
    [
        *({"max_epochs": bad} for bad in (-1, "3", 2.5, True)),
        *({"fail_iterations": bad} for bad in (0, None, "3")),
    ],
)
def test_bad_limit_is_named(keywords):
    with pytest.raises(BadFormatError, match=next(iter(keywords))):
        Decision(**keywords)
