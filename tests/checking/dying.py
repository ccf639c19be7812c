"""A check of a runtime that does not behave: `python -m tests.checking.dying HOW`."""

from __future__ import annotations

import json
import os
import sys
import time


def tell(family, wrong=None):
    sys.stdout.write(json.dumps({"family": family, "wrong": wrong}) + "\n")
    sys.stdout.flush()


def fail(how):
    if how == "abort":
        os.abort()
    if how == "hang":
        time.sleep(600)
    if how == "raise":
        raise RuntimeError("the device is lost")
    if how == "leave":
        os._exit(3)


if __name__ == "__main__":
    if sys.argv[1] != "at once":
        tell("forward")
        tell("forward", "")
        sys.stdout.write('a runtime\'s own words\n{"family": 1\n[]\n')
        tell("bias")
        fail(sys.argv[1])
        tell("bias", os.environ["CONVGRAD_SHAPE"])
    else:
        os.abort()
