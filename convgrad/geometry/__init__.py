"""Every rule about shapes: one frozen object per layer kind, shared by forward, backward and kernels."""

from convgrad.geometry.axis import Axis
from convgrad.geometry.conv import ConvGeometry, DeconvGeometry
from convgrad.geometry.pooling import POOL_KINDS, PoolGeometry

__all__ = ["POOL_KINDS", "Axis", "ConvGeometry", "DeconvGeometry", "PoolGeometry"]
