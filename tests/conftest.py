"""What does not depend on the machine: random data, and the backend of calls that name none."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

try:
    import hypothesis
except ImportError:  # tests that want it say so themselves
    pass
else:
    # The same examples in every run; no deadline, since a busy machine is not a fault.
    hypothesis.settings.register_profile("convgrad", derandomize=True, deadline=None)
    hypothesis.settings.load_profile("convgrad")


@pytest.fixture(autouse=True)
def numpy_unless_named(monkeypatch):
    """A test that neither takes the fixture `backend` nor names one runs on NumPy, whatever there is."""
    monkeypatch.setenv("CONVGRAD_BACKEND", "numpy")


@pytest.fixture
def rng(request):
    """A generator seeded by the test's own name, so that no test's data hangs on which others ran before."""
    return np.random.Generator(np.random.PCG64(zlib.crc32(request.node.nodeid.encode())))
