"""The command `convgrad`.

Exit codes: 0 done, 1 a run or a check failed, 2 wrong usage, 130 interrupted, 141 the reader of the output is
gone.
Errors are told in one sentence on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from convgrad import __version__
from convgrad.errors import BadFormatError, ConvgradError


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
    except KeyboardInterrupt as error:
        return _fail(130, error if error.args else "interrupted")


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
    train = commands.add_parser("train", help="train a net on images", add_help=False)
    train.set_defaults(command=_train, takes_rest=True)
    _add_devices(commands)
    check = commands.add_parser("check", help="compare devices with known answers", add_help=False)
    check.set_defaults(command=_check, takes_rest=True)
    bench = commands.add_parser("bench", help="time layers", add_help=False)
    bench.set_defaults(command=_bench, takes_rest=True)
    return parser


def _add_devices(commands: Any) -> None:
    devices = commands.add_parser("devices", help="list every device, and say why a backend is missing")
    devices.add_argument("--json", action="store_true", help="print one JSON object")
    devices.add_argument("--markdown", action="store_true", help="print the table of the README")
    devices.set_defaults(command=_devices, takes_rest=False)


def _train(_: argparse.Namespace, rest: Sequence[str]) -> int:
    from convgrad.training import command

    return command.main(rest)


def _devices(given: argparse.Namespace) -> int:
    from convgrad.checking.devices import devices

    found = list(devices())
    if given.json:
        print(json.dumps({"backends": [device.facts() for device in found]}))
    elif given.markdown:
        print("| backend | here | device, or why it is missing |\n|---|---|---|")
        for device in found:
            print(f"| {device.name} | {'yes' if device.present else 'no'} | {device.text} |")
    else:
        for device in found:
            print(f"{device.name:10}  {device}")
    return 0


def _check(_: argparse.Namespace, rest: Sequence[str]) -> int:
    from convgrad.checking import command

    return command.main(rest)


def _bench(_: argparse.Namespace, rest: Sequence[str]) -> int:
    from convgrad import bench

    return bench.main(rest)


if __name__ == "__main__":
    sys.exit(main())
