"""convgrad: layers with explicit gradients, as units, on NumPy and OpenCL.

Public names are loaded at first use, so that importing the package is fast and touches no device.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "errors": (
        *("BackendUnavailable", "BadFormatError", "ConvgradError", "DataUnavailable"),
        *("KernelBuildError", "SnapshotError"),
    ),
    "memory": ("Array", "DeviceArray"),
    "prng": ("Random",),
    "units.conv": (
        *("Conv", "ConvTanh", "ConvSigmoid", "ConvRELU", "ConvStrictRELU"),
        *("GradientDescentConv", "GDTanhConv", "GDSigmoidConv", "GDRELUConv", "GDStrictRELUConv"),
    ),
    "units.dense": (
        *("All2All", "All2AllTanh", "All2AllSigmoid", "All2AllRELU", "All2AllStrictRELU", "All2AllSoftmax"),
        *("GradientDescent", "GDTanh", "GDSigmoid", "GDRELU", "GDStrictRELU", "GDSoftmax"),
    ),
    "units.pooling": (
        *("MaxPooling", "MaxAbsPooling", "AvgPooling"),
        *("GDMaxPooling", "GDMaxAbsPooling", "GDAvgPooling"),
    ),
    "units.evaluator": ("EvaluatorMSE", "EvaluatorSoftmax"),
    "training.loader": ("ArrayLoader",),
    "training.workflow": ("StandardWorkflow",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604  # all entries are strings


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"convgrad.{_MODULE_OF[name]}"), name)
    if name in ("backends", "functional", "testing", "units", "training"):
        return import_module(f"convgrad.{name}")
    raise AttributeError(f"module 'convgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
