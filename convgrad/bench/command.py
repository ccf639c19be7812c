"""The command `convgrad bench`: measure layers, print them as they come, sum up."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from convgrad import backends
from convgrad.backends.numpy.threads import thread_count
from convgrad.bench import calls, direct, report
from convgrad.bench.layers import SETS, Layer, choose
from convgrad.bench.machine import facts
from convgrad.bench.timing import interleaved, two_thread_gain
from convgrad.errors import BadFormatError
from convgrad.files import write_whole

Timed = tuple[str, dict[str, list[float]]]  # an operation, and its seconds by contestant


def main(arguments: Sequence[str]) -> int:
    """Run `convgrad bench` with these arguments; returns the exit code."""
    given = _parser().parse_args(arguments)
    say: Callable[[str], None] = partial(print, file=sys.stderr if given.json else sys.stdout, flush=True)
    if given.output:
        _check_output(given.output)
    result = json.dumps(bench(given, say))
    if given.output:
        write_whole(given.output, (result + "\n").encode())
    if given.json:
        sys.stdout.write(result + "\n")
    return 0


def _check_output(path: Path) -> None:
    """Find out before anything is measured."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFormatError(f"--output {path} cannot be written: {error}") from None
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise BadFormatError(f"--output {path} cannot be written")


class _Parser(argparse.ArgumentParser):
    """Leaves telling of a wrong usage to the command line that called."""

    def error(self, message: str) -> NoReturn:
        raise BadFormatError(f"bench: {message}; see convgrad bench --help")


def _parser() -> _Parser:
    parser = _Parser(
        prog="convgrad bench",
        description="Check, then time layers on a backend, and beside PyTorch where it is installed.",
    )
    parser.add_argument("--backend", metavar="B", help="numpy, opencl, cuda, a device of them, or auto")
    parser.add_argument(
        "--layers",
        metavar="NAMES",
        default="eleven",
        help=f"layers or sets ({', '.join(SETS)}, all), commas between (default: eleven)",
    )
    parser.add_argument(
        "--operations",
        metavar="NAMES",
        type=_operations,
        default=",".join(calls.OPERATIONS),
        help="some of %(default)s (default: all)",
    )
    parser.add_argument("--rounds", metavar="R", type=_rounds, default=7, help="samples of each (default: 7)")
    parser.add_argument(
        "--against", choices=("torch", "none"), default="torch", help="whom to compare with (default: torch)"
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the result as JSON into this file")
    parser.add_argument("--json", action="store_true", help="print the JSON, and all else on stderr")
    return parser


def _operations(names: str) -> list[str]:
    wanted = names.split(",")
    if unknown := set(wanted) - set(calls.OPERATIONS):
        known, others = ", ".join(calls.OPERATIONS), ", ".join(sorted(unknown))
        raise argparse.ArgumentTypeError(f"must be some of {known}, got {others}")
    return wanted


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def bench(given: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure what the arguments ask for, saying each row as it comes; the whole as a JSON object."""
    layers = choose(given.layers)
    backend, threads = backends.get(given.backend), thread_count()
    torch = calls.InTorch.version() if given.against == "torch" else None
    contestants: list[calls.Contestant] = [calls.OnBackend(backend)]
    if torch:
        contestants += [calls.InTorch(layout, threads) for layout in calls.LAYOUTS]
    machine = facts(threads) | {"torch": torch}
    for line in _preface(machine, backend, given):
        say(line)
    rows = []
    for layer, gains, timed in _with_gains(layers, given, contestants, threads):
        for operation, samples in timed:
            rows.append(report.Row(layer, operation, samples, gains))
            say(rows[-1].as_line())
    for line in report.summary(rows):
        say(line)
    return {
        "backend": backend.name,
        "device": backend.device,
        "rounds": given.rounds,
        "machine": machine,
        "rows": [row.as_json() for row in rows],
        "geometric_mean": report.means(rows),
        "void_rows": sum(row.void for row in rows),
    }


def _with_gains(
    layers: Sequence[Layer], given: argparse.Namespace, contestants: Sequence[calls.Contestant], threads: int
) -> Iterator[tuple[Layer, report.Gains, list[Timed]]]:
    """Each layer, the two-thread gains before and after it, and its times."""
    before = two_thread_gain(threads)
    for layer in layers:
        timed = list(measure(layer, given.operations, contestants, given.rounds))
        after = two_thread_gain(threads)
        yield layer, (before, after), timed
        before = after


def measure(
    layer: Layer, operations: Sequence[str], contestants: Sequence[calls.Contestant], rounds: int
) -> Iterator[Timed]:
    """(operation, seconds by contestant) for each; a wrong result raises WrongResultError untimed."""
    given = direct.operands(layer)
    want = direct.conv_results(layer, given)
    arrays = [(who, who.upload(given)) for who in contestants]
    for operation in operations:
        contest = {who.name: who.call(layer, operation, mine) for who, mine in arrays}
        for who in contestants:
            results = who.download(contest[who.name]())
            direct.check(f"{operation} of {layer.name}, {who.name}", results, want, who.tolerance)
        yield operation, interleaved(contest, rounds)


def _preface(machine: dict[str, Any], backend: Any, given: argparse.Namespace) -> Iterator[str]:
    """The lines above the table."""
    version = f"{machine['convgrad']} ({machine['commit'] or 'no checkout'})"
    yield f"convgrad {version} on {backend.name}: {backend.device}"
    yield f"{machine['cpu']}, {machine['cores']} cores; {', '.join(machine['blas'])}; {machine['date']}"
    if machine["settings"]:
        settings = ", ".join(f"{name}={value}" for name, value in machine["settings"].items())
        yield f"{settings}: OpenBLAS is held back by these settings; unset them to measure the machine"
    if machine["torch"]:
        yield f"PyTorch {machine['torch']}, {machine['threads']} threads; ratio: to its better layout's time"
    elif given.against == "torch":
        yield "PyTorch is not installed: no ratios"
    yield f"{given.rounds} samples of each, interleaved; gain = that of two threads in a matrix product"
    yield report.head(against_torch=bool(machine["torch"]))
