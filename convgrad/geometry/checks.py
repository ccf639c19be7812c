"""Checks of single arguments: whole numbers, pairs, paddings, option names, arrays.

Every message names the argument, what was wanted and what came.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from convgrad.errors import BadFormatError

_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 60

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
NUMERICS = ("fast", "fixed")
LARGEST = 2**63 - 1  # bytes that an address can tell apart


class Shaped(Protocol):
    """What a check needs to know of an array, on the host or on a device."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""


def shown(value: Any) -> str:
    """`value` as a message shows it: whole arrays would hide the message."""
    return _SHORT.repr(value)


def whole(name: str, value: Any, least: int) -> int:
    """`value` as an int of at least `least`; bool and float are refused."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise BadFormatError(f"{name} must be an integer, got {shown(value)}") from None
    if number < least:
        raise BadFormatError(f"{name} must be at least {least}, got {number}")
    return number


def whole_numbers(name: str, values: Any, parts: Sequence[str], least: int) -> tuple[int, ...]:
    """`values` as exactly `len(parts)` integers of at least `least`."""
    wanted = f"{name} must be {len(parts)} integers ({', '.join(parts)})"
    found = items(values)
    if found is None or len(found) != len(parts):
        raise BadFormatError(f"{wanted}, got {shown(values if found is None else found)}")
    return tuple(whole(f"{name} {part}", item, least) for part, item in zip(parts, found, strict=True))


def items(values: Any) -> tuple[Any, ...] | None:
    """What `values` holds; None when it is a text or holds nothing, as a number or an array without axes."""
    try:
        return None if isinstance(values, (str, bytes)) else tuple(values)
    except TypeError:
        return None


def flag(name: str, value: Any) -> bool:
    """`value` when it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise BadFormatError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def addressable(name: str, shape: Sequence[int]) -> None:
    """Refuse sizes of an array that no memory can hold, at 8 bytes an element."""
    if 8 * math.prod(shape) > LARGEST:
        raise BadFormatError(f"{name} must be an array of less than 2**63 bytes, got shape {tuple(shape)}")


def pair(name: str, values: Any) -> tuple[int, int]:
    """`values` as two positive integers (x, y)."""
    x, y = whole_numbers(name, values, ("x", "y"), least=1)
    return x, y


def four_paddings(values: Any) -> tuple[int, int, int, int]:
    """`values` as four non-negative integers (left, top, right, bottom)."""
    left, top, right, bottom = whole_numbers("padding", values, ("left", "top", "right", "bottom"), least=0)
    return left, top, right, bottom


def option(name: str, value: Any, allowed: Sequence[str]) -> str:
    """`value` when it is one of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise BadFormatError(f"{name} must be one of {', '.join(allowed)}; got {shown(value)}")
    return value


def check_numerics(numerics: Any) -> str:
    """`numerics` when it is one of NUMERICS."""
    return option("numerics", numerics, NUMERICS)


def check_single(numerics: str, arrays: Mapping[str, Shaped | None]) -> None:
    """Refuse float64 where numerics are fixed; arrays by name, None = not given."""
    for name, array in arrays.items():
        if numerics == "fixed" and array is not None and array.dtype == np.float64:
            raise BadFormatError(f"{name} is float64; fixed numerics is for float32")


def shape_of(name: str, array: Shaped, wanted: Sequence[int | None], axes: str) -> None:
    """Refuse an array whose shape is not `wanted` (None = any size); `axes` names them in the message."""
    shape = tuple(array.shape)
    fits = len(shape) == len(wanted) and all(w is None or w == s for w, s in zip(wanted, shape, strict=True))
    if not fits:
        sizes = ", ".join("any" if size is None else str(size) for size in wanted)
        raise BadFormatError(f"{name} must have shape {axes} = ({sizes}), got {shape}")


def rank(name: str, array: Shaped, axes: str) -> None:
    """Refuse an array whose number of axes is not that of `axes`, written like "(N, H, W, C)"."""
    wanted = axes.count(",") + (0 if axes.endswith(",)") else 1)
    if len(array.shape) != wanted:
        raise BadFormatError(f"{name} must have {wanted} axes {axes}, got shape {tuple(array.shape)}")


def common_dtype(arrays: dict[str, Shaped | None]) -> np.dtype[Any]:
    """The one dtype, native float32 or float64, of all arrays given."""
    given = {name: array for name, array in arrays.items() if array is not None}
    if not given:
        raise BadFormatError(f"one of {', '.join(arrays)} must be an array, got None only")
    first = next(iter(given))
    for name, array in given.items():
        if array.dtype not in DTYPES or not array.dtype.isnative:
            raise BadFormatError(f"{name} must be float32 or float64 in native byte order, got {array.dtype}")
        if array.dtype != given[first].dtype:
            raise BadFormatError(
                f"{name} must have the dtype of {first}, {given[first].dtype}; got {array.dtype}"
            )
    return given[first].dtype
