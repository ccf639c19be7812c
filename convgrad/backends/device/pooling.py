"""Pooling on a device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from zope.interface import implementer

from convgrad.backends.device.buffers import Buffer
from convgrad.backends.device.driver import CPU, Profile, scalars
from convgrad.backends.device.elementwise import Dtype, fill, items, kernel, lanes, launch, stretch
from convgrad.backends.device.execution import no_planner
from convgrad.backends.device.plan import Launch, Plan
from convgrad.geometry import PoolGeometry
from convgrad.geometry.axis import Axis
from convgrad.interfaces import IPoolOperations


@implementer(IPoolOperations)
class DevicePool:
    """One owner for every cell: gradients are gathered from the windows that hold it."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._inverse_area = lru_cache(maxsize=64)(self._uploaded_inverse_area)

    def forward(
        self,
        x: Buffer,
        out: Buffer,
        offset: Buffer | None,
        geometry: PoolGeometry,
        kind: str,
        *,
        batch: int | None = None,
    ) -> None:
        """As IPoolOperations.forward."""
        images = len(x)
        count = images if batch is None else batch
        plan = forward_plan(
            geometry, kind, count, images, offset is not None, x.dtype, self._backend.driver.profile
        )
        self._run(plan, geometry, kind, x=x, out=out, offset=offset)

    def backward(
        self,
        err_output: Buffer,
        offset: Buffer | None,
        err_input: Buffer,
        geometry: PoolGeometry,
        kind: str,
        *,
        batch: int | None = None,
    ) -> None:
        """As IPoolOperations.backward."""
        images = len(err_output)
        count = images if batch is None else batch
        plan = backward_plan(geometry, kind, count, images, err_output.dtype, self._backend.driver.profile)
        self._run(plan, geometry, kind, err_output=err_output, offset=offset, err_input=err_input)

    def _run(self, plan: Plan, geometry: PoolGeometry, kind: str, **buffers: Buffer | None) -> None:
        if kind == "average":
            dtype = next(buffer.dtype for buffer in buffers.values() if buffer is not None)
            buffers["inverse"] = self._inverse_area(geometry, dtype)
        self._backend.executor.run(no_planner(plan), self._backend.workspace, **buffers)

    def _uploaded_inverse_area(self, geometry: PoolGeometry, dtype: Dtype) -> Buffer:
        """(OH, OW): 1 / area in float64, rounded once."""
        inverse = 1.0 / geometry.area(range(geometry.y.output))
        buffer: Buffer = self._backend.upload(inverse.astype(dtype))
        return buffer


@lru_cache(maxsize=1024)
def forward_plan(
    geometry: PoolGeometry,
    kind: str,
    count: int,
    images: int,
    with_offset: bool,
    dtype: Dtype,
    profile: Profile,
) -> Plan:
    """Roles: x, out and offset, or x, inverse and out for "average". The first `count` of `images` count."""
    size = geometry.y.output * geometry.x.output * geometry.channels
    rest = (images - count) * size
    plan = fill("out", count * size, rest, dtype, profile)
    if with_offset:  # an int64 has the bits of two float32
        plan += fill("offset", 2 * count * size, 2 * rest, np.dtype(np.float32), profile)
    if not count:
        return plan
    if kind == "average":
        roles: tuple[str | np.generic, ...] = ("x", "inverse", "out")
        name = "average_forward"
    else:
        roles, name = ("x", "out", "offset", *scalars(kind == "maxabs")), "max_forward"
    return plan + Plan((_launch(name, roles, geometry, (count, *geometry.output_shape), dtype, profile),))


@lru_cache(maxsize=1024)
def backward_plan(
    geometry: PoolGeometry, kind: str, count: int, images: int, dtype: Dtype, profile: Profile
) -> Plan:
    """Roles: err_output, offset (inverse for "average") and err_input; as forward_plan."""
    size = geometry.height * geometry.width * geometry.channels
    plan = fill("err_input", count * size, (images - count) * size, dtype, profile)
    if not count:
        return plan
    name, second = ("average_backward", "inverse") if kind == "average" else ("max_backward", "offset")
    roles = "err_output", second, "err_input"
    return plan + Plan((_launch(name, roles, geometry, (count, *geometry.input_shape), dtype, profile),))


def _launch(
    name: str,
    roles: tuple[str | np.generic, ...],
    geometry: PoolGeometry,
    results: tuple[int, int, int, int],
    dtype: Dtype,
    profile: Profile,
) -> Launch:
    """A kernel of pool.cl that writes `results` = (images, rows, columns, channels)."""
    images, rows, columns, channels = results
    if profile.shape == CPU:
        columns_each, channels_each = max(1, min(columns, stretch(profile) // channels)), channels
    else:
        columns_each, channels_each = 1, 1
    parts = images * rows * -(-columns // columns_each) * -(-channels // channels_each)
    each = max(items(profile), stretch(profile) // (columns_each * channels_each))
    index = np.int32 if parts + each + items(profile) < 2**31 else np.int64
    defines = f"LANES={lanes(profile, channels)}", f"INDEX={'int' if index is np.int32 else 'INT64'}"
    pool = kernel("pool.cl", name, dtype, profile, *defines)
    numbers = index(parts), *scalars(each, columns_each, channels_each), *_windows(geometry)
    return launch(pool, profile, -(-parts // each), *roles, *numbers)


def _windows(geometry: PoolGeometry) -> tuple[np.int32, ...]:
    y, x = geometry.y, geometry.x
    scalars((y.extent + 1) * geometry.width)  # a kernel's int counts the cells over which a window spans
    return scalars(
        *geometry.input_shape,
        *(y.output, x.output, y.kernel, x.kernel, y.stride, x.stride),
        *(_tap_step(y), _tap_step(x), y.before, x.before),
    )


def _tap_step(axis: Axis) -> int:
    return min(axis.dilation, axis.padded)  # with a single tap it may be any number
