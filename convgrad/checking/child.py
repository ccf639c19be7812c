"""`python -m convgrad.checking.child BACKEND`: check a backend, telling each step in a line of JSON."""

from __future__ import annotations

import json
import os
import sys

from convgrad import backends
from convgrad.checking.families import verdicts


def main(name: str) -> None:
    """Print {"family", "wrong"}: null when a family begins, then what is wrong with it, "" where nothing is.

    Lines go to what stdout was at the start; what a runtime prints there goes to stderr.
    """
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for family, wrong in verdicts(backends.get(name)):
        lines.write(json.dumps({"family": family, "wrong": wrong}) + "\n")
        lines.flush()  # before whatever may end the process


if __name__ == "__main__":
    main(sys.argv[1])
