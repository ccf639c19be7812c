"""Whether a device computes right: found out once by its check, in a process of its own, and then kept.

Both `auto` and fixed numerics ask for it.

The check itself is `convgrad.checking`, which lies above backends: it is started by name. Its verdict is kept
in the user's cache folder per device, driver and shape of kernels, until anything of convgrad that decides
what is computed has changed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from convgrad.files import cache_folder, write_whole
from convgrad.kernel_source import kernels_folder

_CHILD = "convgrad.checking.child"
_SECONDS = 600  # for all of a check, compiling included
_log = logging.getLogger("convgrad.check")


@dataclass(frozen=True)
class Verdict:
    """What the check of a device found: for each family of kernels what is wrong, "" where nothing is."""

    families: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with any family."""
        return bool(self.families) and not any(self.families.values())

    def __str__(self) -> str:
        return "; ".join(f"{family}: {wrong}" for family, wrong in self.families.items() if wrong) or "passed"


def passes(backend: Any) -> bool:
    """Whether a backend may be chosen unasked; the first time that a device is met, it is checked.

    What computes without kernels, as NumPy does, passes.
    """
    if getattr(backend, "driver", None) is None:
        return True
    found = on(backend)
    if not found.passed:
        _log.warning(
            "%s is passed over, it fails its check (`convgrad check` tries again): %s", backend.name, found
        )
    return found.passed


def on(backend: Any) -> Verdict:
    """The verdict on the device of a backend with kernels, which is checked where none is kept."""
    identity, shape = backend.driver.identity, backend.driver.profile.shape
    found = kept(identity, shape)
    if found is None:
        _log.warning("checking %s, %s, once, since it is new here", backend.name, backend.device)
        found = examine(backend.name, identity, shape)
    return found


def kept(identity: str, shape: str) -> Verdict | None:
    """The verdict on the device of this Driver.identity with kernels of this shape, or None."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # damaged: as good as none
        families = json.loads(_file(identity, shape).read_bytes())["families"]
        return Verdict({str(family): str(wrong) for family, wrong in families.items()})
    return None


def examine(name: str, identity: str, shape: str, seconds: float = _SECONDS) -> Verdict:
    """Check the device that `name` stands for, and keep the verdict."""
    verdict = run(name, shape, seconds)
    content = {"device": identity, "shape": shape, **asdict(verdict)}
    with suppress(OSError):  # a folder that cannot be written costs another check, no more
        write_whole(_file(identity, shape), json.dumps(content, indent=1).encode())
    return verdict


def run(name: str, shape: str | None = None, seconds: float = _SECONDS) -> Verdict:
    """Check a backend by name in a child, in which a runtime may abort or hang."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if shape is not None:
        environment["CONVGRAD_SHAPE"] = shape
    command = [sys.executable, "-m", _CHILD, name]
    try:
        done = subprocess.run(  # noqa: S603  # this Python, our module, a name that was found before
            command, env=environment, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        return _verdict(error.stdout or b"", f"no answer within {seconds:g} seconds")
    return _verdict(done.stdout, _ending(done.returncode, done.stderr.decode(errors="replace")))


def _ending(code: int, told: str) -> str:
    """How a child ended, "" if well; `told` is its stderr."""
    if code == 0:
        return ""
    with suppress(ValueError):
        return f"the process was ended by {signal.Signals(-code).name}"
    return (told.strip().splitlines() or [f"the process ended with code {code}"])[-1]


def _verdict(output: bytes, ending: str) -> Verdict:
    """Out of the child's lines; the family that it was at when it ended badly has failed."""
    families: dict[str, str] = {}
    at = "start"
    for family, wrong in _lines(output):
        at = family
        if wrong is not None:
            families[family] = wrong
    return Verdict(families | {at: ending} if ending else families)


def _lines(output: bytes) -> Iterator[tuple[str, str | None]]:
    """(family, None) when it begins, (family, what is wrong) when it is done; a runtime may print others."""
    for line in output.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            yield str(entry["family"]), entry["wrong"]


def _file(identity: str, shape: str) -> Path:
    key = json.dumps([identity, shape, _texts()])
    return cache_folder() / "check" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


@cache
def _texts() -> str:
    """Digest of the version, the backends, the kernels, what they build on and the check itself."""
    package = Path(__file__).parents[1]
    folders = "*.py", "backends/**/*.py", "geometry/*.py", "numerics/*.py", "checking/*.py", "checking/*.json"
    sources = [path for folder in folders for path in package.glob(folder)]
    kernels = [path for path in kernels_folder().rglob("*") if path.suffix in (".h", ".cl")]
    digest = hashlib.sha256()
    for path in [*sorted(sources), *sorted(kernels)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
