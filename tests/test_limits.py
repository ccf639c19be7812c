"""NumPy at sizes beyond 2**31, where other libraries' indices wrapped, without having the memory.

The same of devices: `tests/backends/test_device_limits.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.backends.numpy.blocks import plan_blocks
from convgrad.backends.numpy.columns import Columns
from convgrad.geometry import Axis, PoolGeometry
from convgrad.geometry.windows import origins, taps


def test_columns_of_more_than_2_to_31_elements_are_cut_into_bands():
    layer = Columns(Axis("y", 2802, 3), Axis("x", 2802, 3), 32, 1, planar=False)
    assert layer.size(1, layer.y.output) > 2**31
    plan = plan_blocks(
        lambda images, rows: 4 * layer.size(images, rows),
        0,
        batch=3,
        rows=layer.y.output,
        work=10**12,
        budget=64 << 20,
        threads=2,
    )
    assert (plan.images, plan.workers) == (1, 2)
    assert 2 * 4 * layer.size(1, plan.rows) <= 64 << 20
    bands = [band for _, band in plan.of_worker(0)]
    assert [row for band in bands for row in band] == [*range(layer.y.output)]


@pytest.mark.parametrize("channels", [512, 514])
def test_winners_beyond_2_to_31_have_their_own_place(channels):
    geometry = PoolGeometry(2048, 2048, channels, 2, 2)
    last = geometry.y.output - 1
    found = origins(geometry, slice(1, 2), range(last, last + 1))
    assert found.dtype == np.int64
    corner = ((1 * 2048 + 2046) * 2048 + 2046) * channels + channels - 1
    assert found[0, 0, -1, -1] == corner
    [*_, tap] = taps(geometry, range(last, last + 1))
    assert corner + tap.local == 2 * 2048 * 2048 * channels - 1
