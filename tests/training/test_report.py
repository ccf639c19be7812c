import io
import re
import time

import numpy as np
import pytest

from convgrad.training.decision import Epoch
from convgrad.training.loader import TEST, TRAIN, VALIDATION, Minibatch
from convgrad.training.report import Bar, Silence, Speed, Table
from tests.training.nets_and_data import loader, workflow

CLASSES = {VALIDATION: 11, TRAIN: 25}


def minibatch(class_name, size=4):
    return Minibatch(class_name, np.zeros((4, 1)), np.zeros(4), size)


def epoch(number, *, improved=False, **errors):
    return Epoch(number, errors, {name: CLASSES[name] for name in errors}, improved)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves on by hand."""

    class Clock:
        now = 100.0

    monkeypatch.setattr(time, "perf_counter", lambda: Clock.now)
    return Clock


def test_speed_is_that_of_train(clock):
    speed = Speed()
    for name, seconds in ((TEST, 5), (TRAIN, 0.5), (VALIDATION, 5), (TRAIN, 1.5)):
        clock.now += seconds
        speed.minibatch(minibatch(name))
    assert speed.images_per_second == 8 / 2


def test_speed_leaves_out_pauses(clock):
    speed = Speed()
    clock.now += 50
    speed.pause()
    clock.now += 2
    speed.minibatch(minibatch(TRAIN))
    assert speed.images_per_second == 2


def test_speed_of_nothing_is_zero():
    assert Speed().images_per_second == 0


def test_table_has_a_line_per_epoch():
    lines = []
    table = Table(lines.append)
    table.epoch(epoch(0, validation=10, improved=True))
    table.epoch(epoch(1, validation=11, train=5))
    assert [line.split() for line in lines] == [
        ["epoch", "train", "errors", "validation", "errors", "images/s"],
        ["0", "-", "10", "of", "11", "(90.91%)", "-", "best"],
        ["1", "5", "of", "25", "(20.00%)", "11", "of", "11", "(100.00%)", "-"],
    ]


def test_table_tells_measured_errors_by_their_mean():
    lines = []
    Table(lines.append).epoch(epoch(1, validation=5.5))
    assert lines[1].split() == ["1", "-", "0.5", "-"]


def test_table_leaves_judging_out_of_the_speed(clock):
    lines = []
    table = Table(lines.append)
    for number in range(2):
        table.epoch(epoch(number))
        clock.now += 2
        table.minibatch(minibatch(TRAIN))
        clock.now += 50
    table.epoch(epoch(2))
    assert lines[-1].split() == ["2", "-", "-", "2"]


def test_narrow_table_fits_60_columns():
    lines = []
    table = Table(lines.append, width=60)
    table.epoch(epoch(0, validation=10, improved=True))
    table.epoch(Epoch(1000, {TRAIN: 60000, VALIDATION: 10000}, {TRAIN: 60000, VALIDATION: 10000}, True))
    assert lines[1].split() == ["0", "-", "10", "(90.91%)", "-", "best"]
    assert max(map(len, lines)) < 60


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def columns(monkeypatch):
    """Sets how wide a terminal is; 100 columns at first."""

    def columns(number):
        monkeypatch.setenv("COLUMNS", str(number))

    columns(100)
    return columns


def test_bar_shows_speed_error_and_lines():
    terminal = Terminal()
    with Bar(CLASSES, 2, terminal) as bar:
        workflow("numpy", epochs=2, report=bar).run()
        bar._bar.refresh()
    shown = terminal.getvalue()
    assert all(
        text in shown
        for text in ("validation errors  images/s", "epoch 2 of 2, ", " images/s, validation errors ")
    )
    assert re.search(r"images/s, validation errors \d+ of 11 \(", shown)
    assert bar.speed.images == 2 * 25


def test_bar_of_a_narrow_terminal_leaves_out_what_does_not_fit(columns):
    columns(60)
    terminal = Terminal()
    with Bar(CLASSES, 2, terminal) as bar:
        workflow("numpy", epochs=2, report=bar).run()
        bar._bar.refresh()
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()))
    assert any(re.search(r"epoch 2 of 2, validation errors \d+ \(\d+\.\d\d%\) ", line) for line in lines)
    assert max(map(len, lines)) <= 60


def test_bar_ends_full():
    with Bar(loader().classes, 3, Terminal()) as bar:
        workflow("numpy", epochs=3, report=bar).run()
        (task,) = bar._bar.tasks
    assert task.completed == task.total


def test_bar_of_a_resumed_run_ends_full(tmp_path):
    first = workflow("numpy", epochs=2)
    first.run()
    first.save(tmp_path / "two")
    with Bar(loader().classes, 5, Terminal(), done=2) as bar:
        resumed = workflow("numpy", epochs=5, report=bar)
        resumed.resume(tmp_path / "two")
        resumed.run()
        (task,) = bar._bar.tasks
    assert task.completed == task.total


def test_silence_says_nothing(capsys):
    workflow("numpy", epochs=1, report=Silence()).run()
    assert capsys.readouterr() == ("", "")
