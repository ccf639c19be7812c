"""When an epoch is the best so far, and when training is over."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from convgrad.geometry.checks import whole
from convgrad.training.loader import TRAIN, VALIDATION


class Epoch(NamedTuple):
    """How an epoch went.

    number: epochs trained so far; 0 is the net as it was made, which has not seen train yet.
    errors: per class, wrongly classified samples; with loss="mse" the sum of root mean square errors.
    samples: per class, the samples that were counted.
    improved: whether it is the best epoch so far.
    """

    number: int
    errors: dict[str, float]
    samples: dict[str, int]
    improved: bool

    def rate(self, class_name: str) -> float:
        """Errors per sample; infinite when there were no samples."""
        samples = self.samples.get(class_name)
        return self.errors[class_name] / samples if samples else math.inf


class Decision:
    """Counts errors, and decides.

    An epoch is judged by its validation errors, or by train's where nothing was validated; it improves
    when they are fewer than in any epoch before. Training is complete after `max_epochs` epochs
    (None = no limit), after `fail_iterations` epochs without improvement, or when neither validation nor
    train had any error.
    """

    def __init__(self, *, max_epochs: int | None = None, fail_iterations: int = 100) -> None:
        self.max_epochs = None if max_epochs is None else whole("max_epochs", max_epochs, 0)
        self.fail_iterations = whole("fail_iterations", fail_iterations, 1)
        self.last: Epoch | None = None
        self.best: Epoch | None = None
        self._start_counting()

    def count(self, class_name: str, errors: float, samples: int) -> None:
        """Add the errors made on a minibatch of this class to those of the epoch."""
        self._errors[class_name] = self._errors.get(class_name, 0) + errors
        self._samples[class_name] = self._samples.get(class_name, 0) + samples

    def judge(self, number: int) -> Epoch:
        """End epoch `number`: judge it by what was counted since the one before."""
        epoch = Epoch(number, self._errors, self._samples, improved=False)
        epoch = epoch._replace(improved=self.best is None or _score(epoch) < _score(self.best))
        self.last = epoch
        if epoch.improved:
            self.best = epoch
        self._start_counting()
        return epoch

    @property
    def epoch(self) -> int:
        """Number of the last epoch judged; -1 before the first."""
        return -1 if self.last is None else self.last.number

    @property
    def improved(self) -> bool:
        """Whether the last epoch judged is the best."""
        return self.last is not None and self.last.improved

    @property
    def complete(self) -> bool:
        """Whether training is over."""
        full = self.max_epochs is not None and self.epoch >= self.max_epochs
        return self.last is not None and (full or self.early is not None)

    @property
    def early(self) -> str | None:
        """Why training need not go on to max_epochs, for people; None = it must."""
        if self.last is None or self.best is None:
            return None
        if _faultless(self.last):
            return "no errors left in train and validation"
        vain = self.epoch - self.best.number
        return f"{vain} epochs without improvement" if vain >= self.fail_iterations else None

    def state(self) -> dict[str, Any]:
        """What `restore` needs, as JSON can hold it."""
        return {name: epoch and epoch._asdict() for name, epoch in (("last", self.last), ("best", self.best))}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`; max_epochs and fail_iterations stay as they are."""
        self.last, self.best = (state[name] and Epoch(**state[name]) for name in ("last", "best"))
        self._start_counting()

    def _start_counting(self) -> None:
        self._errors: dict[str, float] = {}
        self._samples: dict[str, int] = {}


def _score(epoch: Epoch) -> float:
    return epoch.rate(VALIDATION if VALIDATION in epoch.samples else TRAIN)


def _faultless(epoch: Epoch) -> bool:
    return TRAIN in epoch.errors and not (epoch.errors[TRAIN] or epoch.errors.get(VALIDATION))
