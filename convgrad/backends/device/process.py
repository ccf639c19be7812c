"""The process that a device belongs to."""

from __future__ import annotations

import os


class Process:
    """The process that opened `what`: runtimes hang in children that are forked from it afterwards."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._number = os.getpid()

    def check(self) -> None:
        """Raise RuntimeError in a child."""
        if os.getpid() != self._number:
            raise RuntimeError(
                f"{self._what} was opened before this process was forked, and cannot be used in it: open it "
                "in the child only, or start the child by multiprocessing's 'spawn'"
            )
