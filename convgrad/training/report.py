"""How training goes, for people: a line per epoch, and on a terminal a bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TextIO

from convgrad.training.decision import Epoch
from convgrad.training.loader import TRAIN, VALIDATION, Minibatch


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
    """Prints a table with a line per epoch."""

    def __init__(self, write: Callable[[str], Any]) -> None:
        self.speed = Speed()
        self._write = write
        self._begun = False

    def minibatch(self, minibatch: Minibatch) -> None:
        """Count it."""
        self.speed.minibatch(minibatch)

    def epoch(self, epoch: Epoch) -> None:
        """Print its line."""
        if not self._begun:
            self._write(_row("epoch", "train errors", "validation errors", "images/s", ""))
            self._begun = True
        train, validation = (_errors(epoch, name) for name in (TRAIN, VALIDATION))
        speed = f"{self.speed.images_per_second:.0f}" if self.speed.images else "-"
        self._write(_row(str(epoch.number), train, validation, speed, "best" if epoch.improved else ""))
        self.speed.pause()


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
        texts = (TextColumn(f"{{task.fields[{name}]}}") for name in ("epoch", "speed", "error"))
        self._bar = Progress(BarColumn(), *texts, TimeRemainingColumn(), console=console, transient=True)
        self._table = Table(lambda line: console.print(line, highlight=False, markup=False))
        self._epochs = epochs
        images = sum(classes.values())
        at_first = images - classes[TRAIN] if done is None else 0  # the untrained net is evaluated too
        total = (epochs - (done or 0)) * images + at_first
        self._task = self._bar.add_task("", total=total, epoch="", speed="", error="")

    @property
    def speed(self) -> Speed:
        """Of the table."""
        return self._table.speed

    def minibatch(self, minibatch: Minibatch) -> None:
        """Move the bar."""
        self._table.minibatch(minibatch)
        speed = f"{self.speed.images_per_second:.0f} images/s"
        self._bar.update(self._task, advance=minibatch.size, speed=speed)

    def epoch(self, epoch: Epoch) -> None:
        """Print the epoch's line."""
        self._table.epoch(epoch)
        current = min(epoch.number + 1, self._epochs)
        error = _errors(epoch, VALIDATION if VALIDATION in epoch.samples else TRAIN)
        self._bar.update(self._task, epoch=f"epoch {current} of {self._epochs}", error=f"errors {error}")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _row(epoch: str, train: str, validation: str, speed: str, best: str) -> str:
    return f"{epoch:>5}  {train:>22}  {validation:>22}  {speed:>8}  {best}".rstrip()


def _errors(epoch: Epoch, class_name: str) -> str:
    """Wrong samples of all, and their part; or, where errors are not counted but measured, their mean."""
    if not epoch.samples.get(class_name):
        return "-"
    errors, samples = epoch.errors[class_name], epoch.samples[class_name]
    if isinstance(errors, int):
        return f"{errors} of {samples} ({errors / samples:.2%})"
    return f"{errors / samples:.6g}"
