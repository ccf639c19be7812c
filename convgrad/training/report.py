"""How training goes, for people: a line per epoch, and on a terminal a bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, Self, TextIO

from convgrad.training.decision import Epoch
from convgrad.training.loader import TRAIN, VALIDATION, Minibatch

# Columns of a terminal from which on
WIDE_TABLE = 70  # a line of the table tells of how many samples the errors are
WITH_SPEED = 80  # the bar tells the speed
WIDE_BAR = 100  # and of how many samples the errors are


class Report(Protocol):
    """What a workflow tells while it trains."""

    def minibatch(self, minibatch: Minibatch) -> None:
        """A minibatch has gone through the net."""

    def epoch(self, epoch: Epoch) -> None:
        """An epoch has been judged."""


class Silence:
    """Says nothing."""

    def minibatch(self, minibatch: Minibatch) -> None:
        """Nothing."""

    def epoch(self, epoch: Epoch) -> None:
        """Nothing."""


class Speed:
    """Images trained, and the seconds that took: forward, backward and step, with the loader's work."""

    def __init__(self) -> None:
        self.images = 0
        self.seconds = 0.0
        self.pause()

    def pause(self) -> None:
        """Let the time from here on count only when a minibatch follows."""
        self._since = time.perf_counter()

    def minibatch(self, minibatch: Minibatch) -> None:
        """Count this minibatch, if it was trained, with the time since the last one or the last pause."""
        now = time.perf_counter()
        if minibatch.class_name == TRAIN:
            self.images += minibatch.size
            self.seconds += now - self._since
        self._since = now

    @property
    def images_per_second(self) -> float:
        """Mean over all so far; 0 before the first."""
        return self.images / self.seconds if self.seconds else 0.0


class Table:
    """Prints a table with a line per epoch, `width` wide at most, or 59 where that is less."""

    def __init__(self, write: Callable[[str], Any], width: int = 80) -> None:
        self.speed = Speed()
        self._write = write
        self._begun = False
        self._wide = width >= WIDE_TABLE

    def minibatch(self, minibatch: Minibatch) -> None:
        """Count it."""
        self.speed.minibatch(minibatch)

    def epoch(self, epoch: Epoch) -> None:
        """Print its line."""
        if not self._begun:
            self._row("epoch", "train errors", "validation errors", "images/s", "")
            self._begun = True
        train, validation = (_errors(epoch, name, wide=self._wide) for name in (TRAIN, VALIDATION))
        speed = f"{self.speed.images_per_second:.0f}" if self.speed.images else "-"
        self._row(str(epoch.number), train, validation, speed, "best" if epoch.improved else "")
        self.speed.pause()

    def _row(self, epoch: str, train: str, validation: str, speed: str, best: str) -> None:
        width = 22 if self._wide else 17
        row = f"{epoch:>5}  {train:>{width}}  {validation:>{width}}  {speed:>8}  {best}"
        self._write(row.rstrip())


class Bar:
    """Prints that table, with a bar below it: images per second, the error, the time left.

    classes: those of the loader. epochs: in all. file: the terminal. done: the epoch that training goes on
    from, None = it begins anew. It is a context manager, and shown from enter to exit.
    """

    def __init__(
        self, classes: Mapping[str, int], epochs: int, file: TextIO, *, done: int | None = None
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(file=file)
        columns = BarColumn(bar_width=None), TextColumn("{task.description}"), TimeRemainingColumn()
        self._bar = Progress(*columns, console=console, transient=True, expand=True)
        line = partial(console.print, highlight=False, markup=False, no_wrap=True, overflow="crop")
        self._table = Table(line, console.width)
        self._epochs, self._width = epochs, console.width
        self._texts = {"epoch": "", "speed": "", "errors": ""}
        images = sum(classes.values())
        at_first = images - classes[TRAIN] if done is None else 0  # the untrained net is evaluated too
        total = (epochs - (done or 0)) * images + at_first
        self._task = self._bar.add_task("", total=total)

    @property
    def speed(self) -> Speed:
        """Of the table."""
        return self._table.speed

    def minibatch(self, minibatch: Minibatch) -> None:
        """Move the bar."""
        self._table.minibatch(minibatch)
        if self.speed.images and self._width >= WITH_SPEED:
            self._texts["speed"] = f"{self.speed.images_per_second:.0f} images/s"
        text = ", ".join(filter(None, self._texts.values()))
        self._bar.update(self._task, advance=minibatch.size, description=text)

    def epoch(self, epoch: Epoch) -> None:
        """Print the epoch's line."""
        self._table.epoch(epoch)
        current = min(epoch.number + 1, self._epochs)
        judged = VALIDATION if VALIDATION in epoch.samples else TRAIN
        self._texts["epoch"] = f"epoch {current} of {self._epochs}"
        self._texts["errors"] = f"{judged} errors {_errors(epoch, judged, wide=self._width >= WIDE_BAR)}"

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _errors(epoch: Epoch, class_name: str, *, wide: bool) -> str:
    """Wrong samples, if wide of how many, and their part; or, where errors are measured, their mean."""
    if not epoch.samples.get(class_name):
        return "-"
    errors, samples = epoch.errors[class_name], epoch.samples[class_name]
    if isinstance(errors, int):
        return f"{errors}{f' of {samples}' * wide} ({errors / samples:.2%})"
    return f"{errors / samples:.6g}"
