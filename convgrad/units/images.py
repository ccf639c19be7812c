"""Arrays as batches of images: which shapes stand for (N, H, W, C), and buffers in that shape."""

from __future__ import annotations

from typing import Any

from convgrad.errors import BadFormatError
from convgrad.memory import Array

Image = tuple[int, int, int]


def image_shape(name: str, array: Array) -> Image:
    """(H, W, C) of an array (N, H, W, C), or of (N, H, W), which has one channel."""
    match array.shape:
        case (_, height, width, channels):
            return height, width, channels
        case (_, height, width):
            return height, width, 1
    raise BadFormatError(f"{name} must have shape (N, H, W, C) or (N, H, W), got {array.shape}")


def check_images(name: str, array: Array, batch: int, image: Image) -> None:
    """Refuse an array that is not (batch, *image).

    H and W may be one axis, and one channel may have none.
    """
    height, width, channels = image
    fitting = [(batch, *image), (batch, height * width, channels)]
    fitting += [(batch, height, width)] if channels == 1 else []
    if array.shape not in fitting:
        raise BadFormatError(f"{name} must have shape {' or '.join(map(str, fitting))}, got {array.shape}")


def check_samples(name: str, array: Array, batch: int, size: int) -> None:
    """Refuse an array that is not `batch` samples, of any shape, of `size` elements each."""
    if array.shape[:1] != (batch,) or array.sample_size != size:
        raise BadFormatError(f"{name} must hold {batch} samples of {size} elements, got shape {array.shape}")


def as_images(buffer: Any, batch: int, image: Image) -> Any:
    """The same memory as (batch, H, W, C); None stays None."""
    shape = (batch, *image)
    return buffer if buffer is None or tuple(buffer.shape) == shape else buffer.reshape(shape)
