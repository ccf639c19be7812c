"""A small program in the dialect of kernels/, in place of the files there, and arrays to run it on."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.backends.device import programs
from convgrad.backends.device.buffers import Buffer
from convgrad.backends.device.plan import Kernel, Launch, Plan
from convgrad.kernel_source import kernel_text

FILE, OTHER, BROKEN = "small.cl", "other.cl", "broken.cl"
TEXT = """
/* y = factor * x + place; one group per element. */
KERNEL(1, 1, 1) void affine(GLOBAL const float *x, GLOBAL float *y, int place, float factor) {
  y[GROUP(0)] = FMA(factor, x[GROUP(0)], (float)place);
}

/* y[place] += 1, or -1 where there is no x; one group. */
KERNEL(1, 1, 1) void count(GLOBAL const float *x, GLOBAL float *y, INT64 place) {
  y[place] += x ? 1 : -1;
}

/* y[0] = step added to itself so many times, which takes a while. */
KERNEL(1, 1, 1) void slow(GLOBAL float *y, int times, float step) {
  float sum = 0;
  for (int i = 0; i < times; ++i) sum += step;
  y[0] = sum;
}
"""
AFFINE, COUNT, SLOW = (Kernel(FILE, name, ("DOUBLE=0",)) for name in ("affine", "count", "slow"))
ITEM = (1, 1, 1)


@pytest.fixture
def small_kernels(monkeypatch):
    """While a test lasts, these files are all there is; it may add others."""
    prelude = kernel_text("prelude/common.h")
    texts = {FILE: prelude + TEXT, OTHER: prelude + TEXT, BROKEN: f"{prelude}\nnonsense;\n"}
    monkeypatch.setattr(programs, "kernel_text", texts.__getitem__)
    return texts


def affine(elements, place=0, factor=1.0, x="x", y="y"):
    """The launch of that kernel."""
    return Launch(AFFINE, (elements, 1, 1), ITEM, (x, y, np.int32(place), np.float32(factor)))


def count(place=0, x=None):
    """As above, in `y`; x is the role "nothing" for a null pointer."""
    return Launch(COUNT, (1, 1, 1), ITEM, (x or "y", "y", np.int64(place)))


def slow(times, step=1.0, y="y"):
    return Launch(SLOW, (1, 1, 1), ITEM, (y, np.int32(times), np.float32(step)))


def planner(*launches, scratch=()):
    """Of an operation that has one plan."""
    plan = Plan(launches, tuple(scratch))
    return lambda _: plan


def uploaded(driver, array):
    """A Buffer with this content."""
    array = np.ascontiguousarray(array)
    buffer = Buffer(driver.allocate(array.nbytes), array.shape, array.dtype)
    driver.upload(array, buffer.memory)
    return buffer


def host(driver, buffer):
    """The content of a Buffer."""
    content = np.empty(buffer.shape, buffer.dtype)
    driver.download(buffer.memory, content)
    return content
