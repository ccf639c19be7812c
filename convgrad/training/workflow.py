"""A net, its data and its training, as one plain loop."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad import backends
from convgrad.errors import BadFormatError, ConvgradError
from convgrad.geometry.checks import check_numerics
from convgrad.memory import Array
from convgrad.prng import Random
from convgrad.training import checkpoint, policies
from convgrad.training.building import Net, check_targets, keywords
from convgrad.training.decision import Decision
from convgrad.training.loader import TRAIN, Loader, Minibatch
from convgrad.training.report import Report, Silence
from convgrad.units.pairing import Pairing


class StandardWorkflow:
    """Trains the net that `layers` describes on what `loader` serves.

    layers: one dict per layer: "type", perhaps "name", "->" with keywords of the forward unit, "<-" with
    those of the backward unit; any other key goes to whichever of the two has such a keyword, or both.
    loss: "softmax" (labels) or "mse" (targets). decision: keywords of `Decision`.
    lr_policy: as `policies.pair` takes it. snapshots: a folder, or keywords of `checkpoint.Snapshots`.
    seed: of the initial weights. numerics: "fast" or "fixed". report: is told how training goes.
    pairing: what types of layers there are, None = those of the package.

    An epoch serves test, validation, train; it is judged before train is, so that its errors, its number
    and the weights belong together: epoch n has been trained n times. The last epoch stops there.
    """

    def __init__(
        self,
        layers: Sequence[Mapping[str, Any]],
        loader: Loader,
        *,
        loss: str = "softmax",
        decision: Mapping[str, Any] | None = None,
        lr_policy: Mapping[str, Any] | None = None,
        snapshots: str | PathLike[str] | Mapping[str, Any] | None = None,
        seed: int = 1,
        numerics: str = "fast",
        report: Report | None = None,
        pairing: Pairing | None = None,
    ) -> None:
        if not loader.classes.get(TRAIN):
            raise BadFormatError(f"loader must serve train, its classes are {dict(loader.classes)}")
        check_numerics(numerics)
        self.layers, self.loader, self.loss = layers, loader, loss
        self.lr_policy, self.seed, self.numerics = lr_policy, seed, numerics
        self.report = report or Silence()
        known = inspect.signature(Decision).parameters
        self.decision = Decision(**keywords("decision", decision or {}, known))
        self.random = Random(seed)
        self.input, self.targets = Array(), Array()
        self.batch_size = 0
        self.iteration = 0  # minibatches trained so far
        self._net = Net(layers, loss, self, pairing)
        self.snapshots = checkpoint.snapshots(snapshots, layers)
        self.forwards, self.evaluator, self.gds = self._net.forwards, self._net.evaluator, self._net.gds
        self._rates = policies.Rates(self.gds, lr_policy)
        self.inside_epoch = False  # whether `run` has served minibatches since an epoch was last judged
        self._epoch = self._served = 0  # where the stream is: the epoch, minibatches of it that are gone
        self._stream = self._minibatches()

    def initialize(self, device: Any = None) -> None:
        """Set up all units on `device`: a backend, its name, or None = the default one."""
        backend = backends.get(device)
        first = next(iter(self.loader.minibatches(0)))
        check_targets(self.loss, first.targets)
        self._receive(first)
        for unit in (*self.forwards, self.evaluator, *reversed(self.gds)):
            unit.initialize(backend, numerics=self.numerics)

    def run(self) -> None:
        """Train until the decision is complete.

        An error of the loader, of a snapshot or of the report ends it where it is, and the next call goes on
        there. An interrupt may leave the units with a half-learned minibatch: go on from a snapshot then.
        Raises ConvgradError, and neither learns nor keeps a snapshot, where the loss of a minibatch is NaN.
        """
        while self.step() is not None:
            pass

    def step(self, minibatch: Minibatch | None = None) -> Minibatch | None:
        """Send one minibatch through the net, and learn from it if its class is train.

        Without an argument it is the next one that `run` would take; None is returned when there is no more.
        """
        if minibatch is None:
            minibatch = self._next()
        if minibatch is None:
            return None
        self._receive(minibatch)
        for unit in (*self.forwards, self.evaluator):
            unit.run()
        self._check_loss()
        self.decision.count(minibatch.class_name, self._net.errors, minibatch.size)
        if minibatch.class_name == TRAIN:
            self._learn()
        self.report.minibatch(minibatch)
        return minibatch

    def save(self, path: str | PathLike[str]) -> None:
        """Write a snapshot.

        Raises RuntimeError inside an epoch, for the place there is not kept: save before the first step, from
        the report's `epoch`, or when `run` is done.
        """
        checkpoint.save(self, checkpoint.as_path("path", path))

    def resume(self, path: str | PathLike[str]) -> None:
        """Go on from a snapshot, after initialize; see `checkpoint.resume`."""
        checkpoint.resume(self, checkpoint.as_path("path", path))
        self.inside_epoch = False
        self._epoch, self._served = max(0, self.decision.epoch), 0
        self._stream = self._minibatches()

    def _check_loss(self) -> None:
        """Refuse NaN, which no training leaves again; Inf, of an output of 0 at the label, can pass."""
        if math.isnan(self.evaluator.loss):
            raise ConvgradError(
                f"training has diverged: the loss is nan in epoch {self.decision.epoch + 1}; "
                "look for NaN and Inf in the data, or lower the learning rate"
            )

    def _learn(self) -> None:
        self._rates.set(self.iteration)
        for unit in reversed(self.gds):
            unit.run()
        self.iteration += 1

    def _next(self) -> Minibatch | None:
        minibatch = None
        try:
            minibatch = next(self._stream, None)
        finally:
            if minibatch is None:  # a generator that has ended or failed is dead; a new one goes on
                self._stream = self._minibatches()
        return minibatch

    def _minibatches(self) -> Iterator[Minibatch]:
        """What is still to be served; ends when the decision is complete."""
        while True:
            minibatches = enumerate(self.loader.minibatches(self._epoch), start=1)
            for number, minibatch in islice(minibatches, self._served, None):
                train, judged = minibatch.class_name == TRAIN, self.decision.epoch == self._epoch
                if train and not judged:
                    self._end_epoch(self._epoch)
                if self.decision.complete:
                    return
                if train or not judged:  # judged before train: by the run that this one resumes
                    self._served, self.inside_epoch = number, True
                    yield minibatch
            self._epoch, self._served = self._epoch + 1, 0

    def _end_epoch(self, number: int) -> None:
        epoch = self.decision.judge(number)
        self.inside_epoch = False
        if self.snapshots is not None:
            self.snapshots.epoch(self, epoch)
        self.report.epoch(epoch)

    def _receive(self, minibatch: Minibatch) -> None:
        _fill(self.input, minibatch.data)
        _fill(self.targets, minibatch.targets)
        self.batch_size = minibatch.size


def _fill(array: Array, content: NDArray[Any]) -> None:
    array.allocate(content.shape, content.dtype)
    array.map_invalidate()
    assert array.mem is not None
    np.copyto(array.mem, content)
