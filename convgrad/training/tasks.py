"""What `convgrad train` can learn: data, each with the net that suits it."""

from __future__ import annotations

import os
import reprlib
from os import PathLike
from pathlib import Path

from convgrad.errors import BadFormatError
from convgrad.training import nets
from convgrad.training.datasets.digits import digits
from convgrad.training.datasets.images import images
from convgrad.training.datasets.labelled import Labelled
from convgrad.training.datasets.mnist import mnist


def task(what: str, mnist_folder: str | PathLike[str] | None, seed: int) -> tuple[Labelled, nets.Net]:
    """The data and the net of "digits", "mnist", or a folder of images.

    mnist_folder: where the IDX files are, None = use the installed package. seed: of the split.
    """
    if what == "mnist":
        return mnist(Path(mnist_folder) if mnist_folder else None), nets.mnist()
    if what == "digits":
        return digits(seed), nets.digits()
    if not os.path.isdir(what):  # noqa: PTH112 - Path's raises where a name is too long
        raise BadFormatError(
            "what to learn must be digits, mnist or a folder of images; "
            f"there is no folder {reprlib.repr(what)}"
        )
    data = images(Path(what), seed)
    height, width, channels = data.train[0].shape[1:]
    return data, nets.images((height, width, channels), data.n_classes)
