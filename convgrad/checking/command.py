"""The command `convgrad check`: each device by known answers, in a process of its own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from convgrad.backends.verdict import Verdict
from convgrad.checking.devices import Device, chosen
from convgrad.errors import BadFormatError


def main(arguments: Sequence[str]) -> int:
    """Run `convgrad check` with these arguments; returns the exit code."""
    given = _parser().parse_args(arguments)
    say: Callable[[str], None] = partial(print, file=sys.stderr if given.json else sys.stdout, flush=True)
    verdicts = [(device, _checked(device, say)) for device in chosen(given.backend)]
    passed = all(verdict.passed for _, verdict in verdicts if verdict)
    if given.json:
        told = [_facts(device, verdict) for device, verdict in verdicts]
        sys.stdout.write(json.dumps({"passed": passed, "devices": told}) + "\n")
    return 0 if passed else 1


class _Parser(argparse.ArgumentParser):
    """Leaves telling of a wrong usage to the command line that called."""

    def error(self, message: str) -> NoReturn:
        raise BadFormatError(f"check: {message}; see convgrad check --help")


def _parser() -> _Parser:
    parser = _Parser(
        prog="convgrad check",
        description="Compare what each device computes with known answers. Exit code 1 when one is wrong; a "
        "backend that is missing is none of them.",
    )
    parser.add_argument(
        "--backend",
        metavar="B",
        action="append",
        default=[],
        help="numpy, opencl for all of its devices, or one device; may be given again (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _checked(device: Device, say: Callable[[str], None]) -> Verdict | None:
    """The verdict, told as it comes; None of what is missing."""
    if not device.present:
        say(f"{device.name:10}  missing: {device.text}")
        return None
    say(f"{device.name:10}  {device.text}")
    verdict = device.examine()
    for family, wrong in verdict.families.items():
        say(f"{'':10}  {family:10}  {f'WRONG: {wrong}' if wrong else 'right'}")
    return verdict


def _facts(device: Device, verdict: Verdict | None) -> dict[str, Any]:
    found = {"passed": verdict.passed, "families": dict(verdict.families)} if verdict else {"passed": None}
    return device.facts() | found
