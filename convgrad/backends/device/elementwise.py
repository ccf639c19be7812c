"""Work element by element, and how it is cut into the stretches of kernels/lib/stretch.h."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from convgrad.backends.device.driver import CPU, Profile, scalars
from convgrad.backends.device.plan import Kernel, Launch, Plan
from convgrad.interfaces import ACTIVATIONS

Dtype = np.dtype[Any]

CPU_STRETCH = 4096  # elements: some microseconds of work, so that to start a group costs little beside it
GPU_STRETCH = 256
GPU_ITEMS = 64


def items(profile: Profile) -> int:
    """Work-items of a group."""
    return 1 if profile.shape == CPU else GPU_ITEMS


def stretch(profile: Profile) -> int:
    """Elements that one group takes."""
    return CPU_STRETCH if profile.shape == CPU else GPU_STRETCH


def lanes(profile: Profile, adjacent: int | None = None) -> int:
    """Elements that an item takes at once: CPUs load vectors, GPUs' items stand side by side.

    All of a vector, or, where fewer are `adjacent` in memory, 4 or 1: each number is another program.
    """
    widest = min(profile.vector, 16) if profile.shape == CPU else 1
    most = widest if adjacent is None else min(widest, adjacent)
    return widest if most == widest else 4 if most >= 4 else 1


def kernel(file: str, name: str, dtype: Dtype, profile: Profile, *defines: str) -> Kernel:
    """A kernel that works in stretches."""
    return Kernel(file, name, (f"DOUBLE={int(dtype.itemsize == 8)}", f"ITEMS={items(profile)}", *defines))


def launch(kernel: Kernel, profile: Profile, groups: int, *arguments: str | np.generic) -> Launch:
    """As many groups of it."""
    return Launch(kernel, (groups, 1, 1), (items(profile), 1, 1), arguments)


@lru_cache(maxsize=1024)
def fill(role: str, start: int, count: int, dtype: Dtype, profile: Profile) -> Plan:
    """+0.0 in `count` elements of `role`, from element `start` on."""
    if not count:
        return Plan()
    each = stretch(profile)
    numbers: tuple[np.generic, ...] = np.int64(start), np.int64(count), *scalars(each)
    fill_kernel = kernel("elementwise.cl", "fill", dtype, profile)
    return Plan((launch(fill_kernel, profile, -(-count // each), role, *numbers),))


@lru_cache(maxsize=1024)
def scale(
    err_output: str,
    output: str,
    out: str,
    count: int,
    activation: str,
    dtype: Dtype,
    profile: Profile,
    start: int = 0,
) -> Plan:
    """out = err_output * factor(output) for `count` elements of these, from `start` on; names are roles."""
    if not count:
        return Plan()
    each = stretch(profile)
    ends = np.int64(start), np.int64(count)
    numbers: tuple[np.generic, ...] = *ends, *scalars(each, ACTIVATIONS.index(activation))
    scale_kernel = kernel("elementwise.cl", "scale", dtype, profile)
    return Plan((launch(scale_kernel, profile, -(-count // each), err_output, output, out, *numbers),))
