"""What came out of a training run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from convgrad.training.loader import TRAIN, VALIDATION
from convgrad.training.workflow import StandardWorkflow


def summary(workflow: StandardWorkflow, images_per_second: float) -> dict[str, Any]:
    """The result of a finished run, as JSON can hold it; errors and samples are those of the last epoch."""
    last, best, backend = workflow.decision.last, workflow.decision.best, workflow.forwards[0].backend
    assert last is not None
    assert best is not None
    return {
        "backend": backend.name,
        "device": backend.device,
        "numerics": workflow.numerics,
        "seed": workflow.seed,
        "epochs": last.number,
        "train_errors": last.errors.get(TRAIN),
        "train_samples": last.samples.get(TRAIN, 0),
        "validation_errors": last.errors.get(VALIDATION),
        "validation_samples": last.samples.get(VALIDATION, 0),
        "best_validation_errors": best.errors.get(VALIDATION),
        "images_per_second": round(images_per_second, 1),
        "weights_sha256": weights_sha256(workflow.forwards),
    }


def in_words(result: Mapping[str, Any], end: str | None) -> str:
    """A summary for people. end: why training was over, None = it needs no word."""
    number, speed = result["epochs"], result["images_per_second"]
    errors = (
        "validation: {validation_errors} of {validation_samples} wrong after {epochs} "
        f"epoch{'s' * (number != 1)}, {{best_validation_errors}} at best"
    )
    numerics = "fixed numerics, " * (result["numerics"] == "fixed")
    where = f"{speed:.0f} images/s on " * (speed > 0) + "{backend} ({device}), " + numerics
    where += "weights {weights_sha256:.16}"
    return "\n".join(filter(None, (end, errors.format_map(result), where.format_map(result))))


def weights_sha256(forwards: Iterable[Any]) -> str:
    """SHA-256 of each layer's weights as (n_kernels, K), then its bias, in little-endian float32."""
    digest = hashlib.sha256()
    for unit in forwards:
        for name, array in sorted(unit.tensors().items(), reverse=True):  # weights before bias
            array.map_read()
            transposed = name == "weights" and unit.weights_transposed
            digest.update(np.ascontiguousarray(array.mem.T if transposed else array.mem, "<f4").tobytes())
    return digest.hexdigest()
