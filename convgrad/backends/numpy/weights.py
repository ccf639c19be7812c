"""Kernels as the matrices that the products want, straight and turned.

G groups, Kg kernels and Cg channels of a group, T = ky * kx * Cg taps.
"""

from __future__ import annotations

import numpy as np

from convgrad.backends.numpy.products import Floats
from convgrad.geometry import ConvGeometry


def by_group(weights: Floats, geometry: ConvGeometry, transposed: bool) -> Floats:
    """Weights of 2 or 4 axes as (G, Kg, T); a view where their memory allows it.

    Else a copy, which the workspace does not count: blocks, and so bits, must not depend on memory layout.
    """
    logical = weights.T if transposed else weights.reshape(geometry.n_kernels, geometry.taps)
    flags = logical.flags
    if not (flags.aligned and (flags.c_contiguous or flags.f_contiguous)):  # BLAS would not take it
        logical = np.array(logical, order="C")
    return logical.reshape(geometry.groups, geometry.group_kernels, geometry.taps)


def turned(kernels: Floats, geometry: ConvGeometry) -> Floats:
    """(G, Kg, T) as (G, ky * kx * Kg, Cg) with the taps in reverse order: kernels of the adjoint."""
    taps = _by_tap(kernels, geometry)[:, :, ::-1, ::-1].transpose(0, 2, 3, 1, 4)
    return taps.reshape(geometry.groups, -1, geometry.group_channels)


def turned_gradient(gradient: Floats, geometry: ConvGeometry) -> Floats:
    """Memory for a gradient of turned kernels, (G, Cg, ky * kx * Kg); `gradient`'s own for one tap."""
    if geometry.kx == geometry.ky == 1:
        return gradient.transpose(0, 2, 1)
    taps = geometry.ky * geometry.kx * geometry.group_kernels
    return np.empty((geometry.groups, geometry.group_channels, taps), gradient.dtype)


def turn_back(total: Floats, gradient: Floats, geometry: ConvGeometry) -> None:
    """Write the `turned_gradient` into the gradient (G, Kg, T) of straight kernels."""
    if geometry.kx == geometry.ky == 1:
        return
    window = geometry.ky, geometry.kx, geometry.group_kernels
    taps = total.reshape(geometry.groups, geometry.group_channels, *window)[:, :, ::-1, ::-1]
    np.copyto(_by_tap(gradient, geometry), taps.transpose(0, 4, 2, 3, 1))


def _by_tap(kernels: Floats, geometry: ConvGeometry) -> Floats:
    return kernels.reshape(*kernels.shape[:2], geometry.ky, geometry.kx, geometry.group_channels)
