"""Errors, losses and counts of the evaluators against loops, and softmax where exp overflows."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.numerics.softmax import softmax
from convgrad.testing import assert_close
from convgrad.units.dense import All2AllSoftmax
from convgrad.units.evaluator import EvaluatorMSE, EvaluatorSoftmax
from tests.reference import evaluator as judge
from tests.units.twins import DTYPES, host, nan, ran

LABELS = np.array([0, 3, -1, 2, 2, -7], np.int32)


def probabilities(rng, dtype, rows=6, classes=4):
    return judge.softmax(rng.uniform(-3, 3, (rows, classes))).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mean", [True, False], ids=["mean", "sum"])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_cross_entropy(backend, rng, dtype, mean, batch_size):
    y = probabilities(rng, dtype)
    evaluator = EvaluatorSoftmax(mean=mean, batch_size=batch_size)
    evaluator.err_output = nan(y.shape, dtype)
    ran(evaluator, backend, output=y, labels=LABELS)
    err_output, loss = judge.cross_entropy(y, LABELS, batch_size, mean)
    assert_close(host(evaluator.err_output), err_output)
    assert_close(np.array(evaluator.loss), np.array(loss), rtol=1e-12)
    assert evaluator.n_err == judge.wrong(y, LABELS, batch_size)
    sums = np.abs(err_output).sum(axis=1)
    assert_close(np.array(evaluator.max_err_output_sum), sums.max(), rtol=1e-5)


def test_counts_are_of_the_last_run_alone(backend):
    y = np.eye(3)[[0, 1, 1, 2]] * 0.5 + 0.25
    evaluator = EvaluatorSoftmax()
    ran(evaluator, backend, output=y, labels=np.array([0, 1, 2, -1]))
    evaluator.run()
    assert evaluator.n_err == 1
    np.testing.assert_array_equal(host(evaluator.confusion_matrix), [[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    assert EvaluatorSoftmax(compute_confusion_matrix=False).confusion_matrix.mem is None


def test_a_linked_max_idx_is_believed(backend):
    evaluator = EvaluatorSoftmax()
    evaluator.max_idx = np.array([1, 1])
    ran(evaluator, backend, output=np.array([[0.75, 0.25], [0.5, 0.5]]), labels=np.array([1, 0]))
    assert evaluator.n_err == 1
    np.testing.assert_array_equal(host(evaluator.confusion_matrix), [[0, 0], [1, 1]])


def test_a_hopeless_output_has_an_infinite_loss_and_a_finite_error(backend):
    evaluator = EvaluatorSoftmax()
    ran(evaluator, backend, output=np.array([[1.0, 0.0]], np.float32), labels=np.array([1]))
    assert evaluator.loss == np.inf
    np.testing.assert_array_equal(host(evaluator.err_output), [[1, -1]])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 1, 2, 3, 4, 0]), "labels must be below 4, the number of classes; got 4"),
        (np.zeros(6), "labels must be integers, got float64"),
        (np.zeros((6, 1), np.int64), r"labels must have shape \(N,\) = \(6\)"),
        (np.zeros(5, np.int64), r"labels must have shape \(N,\) = \(6\), got \(5,\)"),
    ],
)
def test_bad_labels(backend, rng, labels, message):
    with pytest.raises(BadFormatError, match=message):
        ran(EvaluatorSoftmax(), backend, output=probabilities(rng, "float64"), labels=labels)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mean", [True, False], ids=["mean", "sum"])
@pytest.mark.parametrize("batch_size", [None, 3, 0])
def test_mean_square(backend, rng, dtype, mean, batch_size):
    y, target = (rng.standard_normal((4, 2, 3)).astype(dtype) for _ in range(2))
    evaluator = EvaluatorMSE(mean=mean, batch_size=batch_size)
    ran(evaluator, backend, output=y, target=target)
    if batch_size == 0:
        assert evaluator.loss == 0
        np.testing.assert_array_equal(host(evaluator.err_output), 0)
        return
    err_output, loss = judge.mean_square(y, target, batch_size, mean)
    assert_close(host(evaluator.err_output), err_output)
    assert_close(np.array(evaluator.loss), np.array(loss), rtol=1e-5)
    counted = slice(0, batch_size)
    squares = np.square(y.astype(np.float64) - target)[counted].mean(axis=(1, 2))
    assert_close(host(evaluator.mse)[counted], np.sqrt(squares), rtol=1e-6)
    roots = np.sqrt(squares)
    assert_close(host(evaluator.metrics), [roots.sum(), roots.max(), roots.min()], rtol=1e-6)
    evaluator.root = False
    evaluator.run()
    assert_close(host(evaluator.mse)[counted], squares, rtol=1e-6)


def test_target_of_another_size(backend):
    with pytest.raises(BadFormatError, match="target must hold 2 samples of 3 elements"):
        ran(EvaluatorMSE(), backend, output=np.ones((2, 3)), target=np.ones((2, 4)))
    with pytest.raises(BadFormatError, match="target must have the dtype of output"):
        ran(EvaluatorMSE(), backend, output=np.ones((2, 3)), target=np.ones((2, 3), np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_against_the_judge(rng, dtype):
    sums = rng.uniform(-30, 30, (5, 7)).astype(dtype)
    sums[1] += 1000  # exp of these overflows
    sums[2] -= 1000
    sums[3] = sums[3, 0]
    out = nan(sums.shape, dtype)
    softmax(sums.copy(), out=out)
    assert out.dtype == dtype
    # dividing the whole error by the largest exponent leaves the rounding of exp itself
    assert_close(out, judge.softmax(sums), rtol=64 * np.finfo(dtype).eps, atol=0)
    softmax(sums, out=sums)
    np.testing.assert_array_equal(sums, out)


def test_softmax_adds_ascending():
    """A quarter of a rounding step behind 1 is lost each time; eight of them, added first, would count."""
    sums = np.log(np.array([[1.0] + [2.0**-25] * 8])).astype(np.float32)
    out = nan(sums.shape, "float32")
    softmax(sums, out=out)
    assert out[0, 0] == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_softmax_of_a_bad_row_is_nan(bad):
    sums = np.array([[0.0, bad, 1.0], [1.0, 1.0, 1.0]])
    softmax(sums, out=sums)
    assert np.isnan(sums[0]).all()
    assert_close(sums[1], np.full(3, 1 / 3))


def test_softmax_unit(backend, rng):
    x, weights = rng.standard_normal((3, 4)).astype(np.float32), np.zeros((5, 4), np.float32)
    unit = All2AllSoftmax(output_sample_shape=5)
    ran(unit, backend, input=x, weights=weights, bias=np.array([0, 2, 1, 2, -1], np.float32))
    assert_close(host(unit.output), judge.softmax([[0, 2, 1, 2, -1]] * 3))
    np.testing.assert_array_equal(host(unit.max_idx), [1, 1, 1])  # the first of two equal ones


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8"])
def test_labels_of_any_integer_type(backend, rng, dtype):
    y, labels = probabilities(rng, "float64"), np.array([0, 3, 1, 2, 2, 0])
    evaluator = EvaluatorSoftmax()
    evaluator.max_idx = np.array([0, 3, 1, 0, 2, 1], dtype)
    ran(evaluator, backend, output=y, labels=labels.astype(dtype))
    err_output, loss = judge.cross_entropy(y, labels, None, True)
    assert_close(host(evaluator.err_output), err_output)
    assert_close(np.array(evaluator.loss), np.array(loss), rtol=1e-12)
    assert evaluator.n_err == 2
    with pytest.raises(BadFormatError, match="labels must be below 4, the number of classes; got 100"):
        ran(evaluator, backend, labels=np.full(6, 100, dtype))


@pytest.mark.parametrize(("found", "message"), [(4, "below 4, .*got 4"), (-1, "at least 0, got -1")])
def test_bad_max_idx(backend, rng, found, message):
    evaluator = EvaluatorSoftmax()
    evaluator.max_idx = np.array([0, 1, 2, found, 3, 0])
    with pytest.raises(BadFormatError, match=f"max_idx must be {message}"):
        ran(evaluator, backend, output=probabilities(rng, "float64"), labels=LABELS)


def test_outputs_without_an_axis(backend):
    for unit in (EvaluatorMSE(), All2AllSoftmax(output_sample_shape=2)):
        with pytest.raises(
            BadFormatError, match=r"(in|out)put must hold samples along its first axis, got shape"
        ):
            ran(unit, backend, input=np.array(1.0), output=np.array(1.0), target=np.array(1.0))


HUGE = [(np.inf, np.inf), (3e38, -3e38), (1e200, -1e200), (-np.inf, np.nan), (1e-320, 0)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("y", "target"), HUGE)
def test_inf_and_nan_are_values(backend, dtype, y, target):
    with np.errstate(all="ignore"):
        y, target = np.full((2, 1), y, dtype), np.full((2, 1), target, dtype)
        difference = y - target
        loss = np.square(difference, dtype=np.float64).sum() / 4
    evaluator = ran(EvaluatorMSE(), backend, output=y, target=target)
    np.testing.assert_array_equal(host(evaluator.err_output), difference / 2)
    np.testing.assert_equal(evaluator.loss, loss)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("y", "loss"), [(-0.5, np.nan), (0.0, np.inf), (np.inf, -np.inf), (np.nan, np.nan)])
def test_cross_entropy_of_what_no_softmax_gives(backend, y, loss):
    outputs = np.array([[y, 0.5]], np.float32)
    evaluator = ran(EvaluatorSoftmax(), backend, output=outputs, labels=np.array([0]))
    np.testing.assert_equal(evaluator.loss, loss)
    np.testing.assert_array_equal(host(evaluator.err_output), [[np.float32(y) - 1, 0.5]])


@pytest.mark.filterwarnings("error")
def test_softmax_of_sums_whose_difference_overflows():
    sums = np.array([[3e38, -3e38]], np.float32)
    softmax(sums, out=sums)
    np.testing.assert_array_equal(sums, [[1, 0]])
