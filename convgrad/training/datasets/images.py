"""Images in folders, one folder per class."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError, DataUnavailable
from convgrad.training.datasets.labelled import Labelled, scaled, split

_SUFFIXES = (".png", ".jpg", ".jpeg")
_GREY, _COLOUR = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # Pillow's modes of 8 bits


def images(folder: Path, seed: int) -> Labelled:
    """The PNG and JPEG files of each sub-folder, a class each, 20 % of each class for validation.

    All must have one size. Classes are numbered in the order of their names. Grey images become
    (H, W, 1), or (H, W, 3) where any of the others is coloured; transparency is ignored.
    """
    files = [_files(path) for path in _class_folders(folder)]
    pixels = _stack([path for paths in files for path in paths])
    labels = np.repeat(np.arange(len(files)), [len(paths) for paths in files])
    return split(scaled(pixels, 255), labels, seed)


def _class_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BadFormatError(f"{folder} is not a folder")
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if len(found) < 2:
        names = ", ".join(repr(path.name) for path in found) or "none"
        raise BadFormatError(
            f"{folder} must hold a sub-folder of PNG or JPEG files per class, two at least; got {names}"
        )
    return found


def _files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    if len(found) < 2:
        raise BadFormatError(
            f"{folder}, whose images are a class, must hold two PNG or JPEG files at least, got {len(found)}"
        )
    return found


def _stack(paths: list[Path]) -> NDArray[np.uint8]:
    pixels = [_pixels(path) for path in paths]
    for path, image in zip(paths, pixels, strict=True):
        if image.shape[:2] != pixels[0].shape[:2]:
            raise BadFormatError(
                f"all images must have one size: {paths[0]} is {_size(pixels[0])}, {path} is {_size(image)}"
            )
    channels = max(image.shape[2] for image in pixels)
    return np.stack([np.broadcast_to(image, (*image.shape[:2], channels)) for image in pixels])


def _pixels(path: Path) -> NDArray[np.uint8]:
    try:
        from PIL import Image
    except ImportError:
        raise DataUnavailable('images are read with Pillow: pip install "convgrad[data]"') from None
    bomb = (
        Image.DecompressionBombWarning
    )  # Pillow warns of images too large, and refuses those twice as large
    try:
        with warnings.catch_warnings(action="error", category=bomb), Image.open(path) as image:
            pixels = _converted(path, image)
    except BadFormatError:
        raise
    except (OSError, SyntaxError, ValueError, bomb, Image.DecompressionBombError) as error:
        raise BadFormatError(f"{path} cannot be read as an image: {error}") from None
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _converted(path: Path, image: Any) -> NDArray[np.uint8]:
    if image.mode not in _GREY + _COLOUR:
        raise BadFormatError(f"{path} must have 8 bits per channel, its Pillow mode is {image.mode}")
    return np.asarray(image.convert("L" if image.mode in _GREY else "RGB"))


def _size(image: NDArray[Any]) -> str:
    return f"{image.shape[1]}x{image.shape[0]}"
