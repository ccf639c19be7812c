"""Files that are written whole or not at all, and the folder for what can be made again."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` into the file `path`, so that it holds the old or the new, whenever the power fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(
        f".convgrad-{secrets.token_hex(8)}"
    )  # unlike tempfile's, with the rights of the umask
    file = new.open("xb")
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk when its folder is; Windows cannot open folders."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cache_folder() -> Path:
    """The user's folder for files that convgrad can make again; it may not exist yet."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "convgrad"
