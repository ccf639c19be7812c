import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.training.loader import TEST, TRAIN, VALIDATION, ArrayLoader


def samples(count, first=0):
    """Data that tell their own label."""
    labels = np.arange(first, first + count)
    data = np.broadcast_to(labels[:, None, None], (count, 2, 3)).astype(np.float32)
    return data, labels


@pytest.fixture
def loader():
    return ArrayLoader(samples(10), samples(3, 100), samples(4, 200), minibatch_size=4)


def labels_of(minibatches, class_name):
    return [
        label for m in minibatches if m.class_name == class_name for label in m.targets[: m.size].tolist()
    ]


def test_classes_come_in_order_each_whole(loader):
    served = list(loader.minibatches(0))

    assert loader.classes == {TEST: 4, VALIDATION: 3, TRAIN: 10}
    assert list(loader.classes) == [TEST, VALIDATION, TRAIN]
    assert [(m.class_name, m.size) for m in served] == [
        (TEST, 4), (VALIDATION, 3), (TRAIN, 4), (TRAIN, 4), (TRAIN, 2),
    ]  # fmt: skip
    assert labels_of(served, TEST) == [200, 201, 202, 203]
    assert labels_of(served, VALIDATION) == [100, 101, 102]
    assert sorted(labels_of(served, TRAIN)) == list(range(10))


def test_data_stay_with_their_targets(loader):
    for m in loader.minibatches(3):
        assert (m.data[: m.size] == m.targets[: m.size, None, None]).all()


def test_short_minibatch_is_padded(loader):
    last = list(loader.minibatches(0))[-1]

    assert last.data.shape == (4, 2, 3)
    assert last.data.dtype == np.float32
    assert (last.data[2:] == 0).all()
    assert last.targets.dtype == np.int32
    assert last.targets[2:].tolist() == [-1, -1]


def test_train_alone_is_shuffled_anew_each_epoch_and_the_same_when_asked_again(loader):
    orders = [labels_of(loader.minibatches(epoch), TRAIN) for epoch in (0, 1, 0)]

    assert orders[0] == orders[2]
    assert orders[0] != orders[1]
    assert orders[0] != sorted(orders[0])
    assert labels_of(loader.minibatches(1), TEST) == [200, 201, 202, 203]


def test_order_depends_on_the_seed():
    orders = {tuple(labels_of(ArrayLoader(samples(10), seed=s).minibatches(0), TRAIN)) for s in (1, 2, 3)}
    assert len(orders) == 3


def test_minibatches_do_not_share_memory(loader):
    kept = [(m, m.data.copy()) for m in loader.minibatches(0)]
    assert all((m.data == data).all() for m, data in kept)


def test_targets_are_padded_with_zeros():
    data = np.ones((3, 2), np.float64)
    (minibatch,) = ArrayLoader((data, data + 1), minibatch_size=5).minibatches(0)
    assert minibatch.targets.tolist() == [[2, 2]] * 3 + [[0, 0]] * 2


def test_targets_take_the_dtype_of_data():
    (minibatch,) = ArrayLoader((np.ones((2, 2), np.float32), np.ones((2, 1)))).minibatches(0)
    assert minibatch.targets.dtype == np.float32


def test_empty_class_is_left_out():
    assert ArrayLoader(samples(2), samples(0)).classes == {TRAIN: 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train": samples(0)}, "train must hold"),
        ({"train": samples(2), "minibatch_size": 0}, "minibatch_size must be at least 1, got 0"),
        ({"train": (np.ones((2, 2), int), np.ones(2, int))}, "train: data must be float"),
        ({"train": (np.ones(2), np.ones(2, int))}, "train: data must be float"),
        ({"train": (np.ones((2, 2)), np.ones(3, int))}, "train: targets must have 2 rows"),
        ({"train": (np.ones((2, 2)), np.ones((2, 1), int))}, "train: labels must be of shape"),
        (
            {"train": samples(2), "test": (np.ones((2, 3), np.float32), np.ones(2, int))},
            "test: data must be like",
        ),
        ({"train": None, "validation": samples(2)}, "train must be a pair"),
        ({"train": (samples(2)[0],)}, "train must be a pair"),
        ({"train": 5}, "train must be a pair .*got 5"),
        *(
            ({"train": samples(2), "minibatch_size": bad}, "minibatch_size must be")
            for bad in ("a", None, 2.5)
        ),
        ({"train": samples(2), "seed": "a"}, "seed must be an integer, got 'a'"),
        *(
            ({"train": (np.ones((2, 2)), np.array(bad))}, "train: targets must be integer labels or floats")
            for bad in (["a", "b"], [None, 1], [True, False], [1j, 2])
        ),
        (
            {"train": (np.ones((2, 2)), np.array([0, 2**32 + 1]))},
            "labels must fit into int32, got 4294967297",
        ),
        ({"train": (np.ones((1, 2)), np.array([2**64 - 1]))}, "labels must fit into int32"),
        ({"train": samples(2), "test": (samples(2)[0], np.ones(2))}, "test: targets must be like"),
    ],
)
def test_what_does_not_fit_is_named(arguments, message):
    with pytest.raises(BadFormatError, match=message):
        ArrayLoader(**arguments)
