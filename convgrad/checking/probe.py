"""The device itself: fused and plain arithmetic, subnormals, trees in local memory, addresses of 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from convgrad.backends.device.driver import CPU
from convgrad.backends.device.execution import no_planner
from convgrad.backends.device.plan import Argument, Kernel, Launch, Plan
from convgrad.checking.cases import Arrays, Case, content, reals, unwritten
from convgrad.checking.exact import Rounding, floats, fractions

TREE = 64  # as in probe.cl
COUNT = 48  # operands: a multiple of every number of lanes
LANES = 1, 4, 16
Row = Callable[[Rounding, Any, Any, Any], Any]

# The rows of probe_arithmetic, in its order.
ROWS: dict[str, Row] = {
    "fma(a, b, c) rounds once": lambda r, a, b, c: r(a * b + c),
    "a * b + c is not contracted": lambda r, a, b, c: r(r(a * b) + c),
    "c - a * b is not contracted": lambda r, a, b, c: r(c - r(a * b)),
    "a * b rounds to nearest and keeps subnormals": lambda r, a, b, c: r(a * b),
    "a + c rounds to nearest and keeps subnormals": lambda r, a, b, c: r(a + c),
    "a < c tells subnormals apart": lambda r, a, b, c: min(a, c),
}


def cases() -> Iterator[Case]:
    """Of family "device"; they launch kernels/probe.cl."""
    for dtype in (np.float32, np.float64):
        for row, title in enumerate(ROWS):
            run = partial(_arithmetic, row, dtype)
            yield Case("device", f"{title}, {np.dtype(dtype)}", run, dtype, kernels_only=True)
    yield Case("device", "sums of neighbours in local memory", _tree, kernels_only=True)
    yield Case("device", "addresses beyond 32 bits", _address, kernels_only=True)


def operands(dtype: Any) -> list[Arrays]:
    """a, b, c (COUNT,): c cancels a * b, then all are at the edge of nothing, then plain numbers."""
    a, b, c = reals(dtype, *[(COUNT,)] * 3)
    a, b = a + dtype(2), b + dtype(2)
    third, least = COUNT // 3, np.finfo(dtype).smallest_subnormal
    c[:third] = -(a * b)[:third]  # only a fused sum leaves what the product's rounding took away
    steps = np.arange(3, 3 + third).astype(dtype)
    a[third : 2 * third] = steps * least
    b[third : 2 * third] /= 3
    c[third : 2 * third] = steps[::-1] * least
    return [a, b, c]


def _arithmetic(row: int, dtype: Any, backend: Any) -> tuple[Arrays, Arrays]:
    """A line for each number of lanes; only the kernels of CPUs have vectors."""
    arrays, rounding, rule = operands(dtype), Rounding(dtype), list(ROWS.values())[row]
    right = floats([rule(rounding, *abc) for abc in zip(*map(fractions, arrays), strict=True)], dtype)
    lanes = LANES if backend.driver.profile.shape == CPU else LANES[:1]
    came = [_row(row, some, arrays, backend) for some in lanes]
    return np.stack(came), np.broadcast_to(right, (len(lanes), COUNT))


def _row(row: int, lanes: int, arrays: list[Arrays], backend: Any) -> Arrays:
    y = unwritten(backend, (len(ROWS), COUNT), arrays[0].dtype)
    kernel = Kernel("probe.cl", "probe_arithmetic", (*_defines(y.dtype), f"LANES={lanes}"))
    groups = COUNT // lanes
    _run(backend, kernel, groups, 1, ("a", "b", "c", "y", np.int32(groups)), *arrays, y=y)
    rows: Arrays = content(backend, y)[row]
    return rows


def _tree(backend: Any) -> tuple[Arrays, Arrays]:
    [x] = reals(np.float32, (3, TREE))
    y = unwritten(backend, (3,), np.float32)
    kernel = Kernel("probe.cl", "probe_tree", _defines(np.float32))
    _run(backend, kernel, 3, TREE, ("a", "y"), x, y=y)
    tree = Rounding(np.float32).tree
    return content(backend, y), floats([tree(list(row)) for row in fractions(x)], np.float32)


def _address(backend: Any) -> tuple[Arrays, Arrays]:
    [x] = reals(np.float32, (7,))
    y = unwritten(backend, (3,), np.float32)
    kernel = Kernel("probe.cl", "probe_address", _defines(np.float32))
    row, stride = 3_000, 3_000_000
    start = np.int64(row * stride - 2)
    _run(backend, kernel, 3, 1, ("a", "y", np.int32(row), np.int32(stride), start), x, y=y)
    return content(backend, y), x[2:5]


def _defines(dtype: Any) -> tuple[str, ...]:
    return (f"DOUBLE={int(np.dtype(dtype) == np.float64)}",)


def _run(
    backend: Any,
    kernel: Kernel,
    groups: int,
    items: int,
    arguments: tuple[Argument, ...],
    *arrays: Arrays,
    y: Any,
) -> None:
    """One launch; the roles of `arrays` are "a", "b", "c"."""
    plan = Plan((Launch(kernel, (groups, 1, 1), (items, 1, 1), arguments),))
    inputs = {role: backend.upload(array) for role, array in zip("abc", arrays, strict=False)}
    backend.executor.run(no_planner(plan), 0, y=y, **inputs)
