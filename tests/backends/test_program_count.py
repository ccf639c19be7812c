"""Geometry is no part of a program: a hundred layers share a few."""

from __future__ import annotations

import numpy as np

from convgrad.backends.device.backend import DeviceBackend
from convgrad.interfaces import ACTIVATIONS
from tests import operations
from tests.cases import random_conv_cases, random_pool_cases

LIMIT = 20


def test_a_hundred_geometries_build_few_programs(device_backend):
    """Convolution, its gradients and pooling, with all activations; in one dtype."""
    backend = DeviceBackend(device_backend.driver)
    cases = zip(random_conv_cases(50, seed=11), random_pool_cases(50, seed=12), strict=True)
    for number, (conv, pool) in enumerate(cases):
        activation = ACTIVATIONS[number % len(ACTIVATIONS)]
        x, weights, bias, d = conv.data(np.float32)
        geometry = operations.conv_geometry(conv)
        y = operations.conv_forward(backend, x, weights, bias, geometry, activation=activation)
        keywords = {"activation": activation, "output": y}
        operations.conv_backward(backend, x, weights, d, geometry, **keywords)
        x, d = pool.data(np.float32)
        for kind in ("max", "maxabs", "average"):
            geometry = operations.pool_geometry(pool)
            _, offset = operations.pool_forward(backend, x, geometry, kind)
            operations.pool_backward(backend, d, offset, geometry, kind)
    built = backend.executor.programs.built
    assert 0 < built <= LIMIT


def test_the_same_geometry_again_builds_nothing(device_backend):
    backend = DeviceBackend(device_backend.driver)
    case, counts = next(random_conv_cases(1, seed=13)), []
    for size in ((9, 11), (9, 11), (12, 7)):
        rng = np.random.default_rng(1)
        x = rng.standard_normal((2, *size, case.channels)).astype(np.float32)
        geometry = operations.ConvGeometry(*size, case.channels, case.n_kernels, *case.kernel, **case.window)
        weights = rng.standard_normal(case.shapes.weights).astype(np.float32)
        operations.conv_forward(backend, x, weights, None, geometry)
        counts.append(backend.executor.programs.built)
    assert counts[0] > 0
    assert counts[0] == counts[1] == counts[2]
