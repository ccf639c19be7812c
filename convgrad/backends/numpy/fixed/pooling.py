"""Pooling under fixed numerics: as ever, but for the gradient of averages, a chain of fused operations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from zope.interface import implementer

from convgrad.backends.numpy.pooling import NumpyPool
from convgrad.geometry import PoolGeometry
from convgrad.geometry.windows import taps
from convgrad.interfaces import IPoolOperations
from convgrad.numerics.chains import add_product

Floats = NDArray[Any]


@implementer(IPoolOperations)
class FixedPool(NumpyPool):
    """IPoolOperations on float32 ndarrays."""

    def backward(
        self,
        err_output: Floats,
        offset: NDArray[np.int64] | None,
        err_input: Floats,
        geometry: PoolGeometry,
        kind: str,
        *,
        batch: int | None = None,
    ) -> None:
        """As IPoolOperations.backward."""
        if kind != "average":
            super().backward(err_output, offset, err_input, geometry, kind, batch=batch)
            return
        count = len(err_output) if batch is None else batch
        err_input[count:] = 0
        rows = range(geometry.y.output)
        inverse = (1.0 / geometry.area(rows)[:, :, None]).astype(np.float32).astype(np.float64)
        for image in range(count):
            received = np.zeros(geometry.input_shape, np.float64)[None]
            errors = err_output[image : image + 1].astype(np.float64)
            for tap in reversed(
                taps(geometry, rows)
            ):  # so that the windows of a cell come in ascending order
                add_product(received[tap.cells], errors[tap.outputs], inverse[tap.outputs[1:]])
            err_input[image] = received[0] + 0.0
