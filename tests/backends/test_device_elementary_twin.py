"""convgrad/numerics/elementary.py has the bits of the kernels' functions."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.numerics import elementary
from tests.backends.test_device_elementary import BLOCK, ULP, Functions
from tests.elementary_inputs import inputs


@pytest.fixture
def functions(device_backend):
    return Functions(device_backend)


def check(functions, name, x):
    on_device = functions(f"{name}_of(x[i])", x, 1)
    on_host = getattr(elementary, name)(x)
    differ = on_device.view(np.uint32) != on_host.view(np.uint32)
    differ &= ~(np.isnan(x) & np.isnan(on_device) & np.isnan(on_host))  # a NaN may be any
    assert not differ.any(), (x[differ][:9], on_device[differ][:9], on_host[differ][:9])


@pytest.mark.parametrize("name", ULP)
def test_same_bits(functions, name):
    x = inputs()
    check(functions, name, np.resize(x, -(-len(x) // 1024) * 1024))


@pytest.mark.slow
@pytest.mark.parametrize("name", ULP)
def test_same_bits_for_every_float(functions, name):
    for start in range(0, 2**32, BLOCK):
        check(functions, name, np.arange(start, start + BLOCK, dtype=np.uint32).view(np.float32))
