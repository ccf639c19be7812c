"""The drivers under device backends."""

from __future__ import annotations

import pytest

from tests.backends.small_kernels import small_kernels

__all__ = ["small_kernels"]


@pytest.fixture
def driver(device_backend):
    """Of each selected device."""
    return device_backend.driver


@pytest.fixture
def opencl_backend(request):
    """The first of OpenCL that is selected: for what does not depend on the shape of kernels."""
    config = request.config
    root = config.pluginmanager.get_plugin(str(config.rootpath / "conftest.py"))
    names = [name for name in root.selected(config) if root.family(name) == "opencl"]
    if not names:
        pytest.skip("no OpenCL device is selected by --backend")
    return root.exercised(config, names[0])


@pytest.fixture
def opencl(opencl_backend):
    """The module of OpenCL's driver."""
    from convgrad.backends import opencl

    return opencl
