"""One file that holds a net in training: a .safetensors file, which has numbers in it and no code.

Its tensors are named "<unit>.<tensor>". Its metadata has two entries: "convgrad", the state as JSON, with
dtype, shape and SHA-256 of each tensor under "tensors"; and "sha256", that of the JSON text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from convgrad.errors import SnapshotError
from convgrad.files import write_whole

FORMAT = 1

# safetensors raises the second line for dtypes that NumPy lacks, json the third for what is nested too deep
_UNREADABLE = (
    *(OSError, ValueError, KeyError, SafetensorError),
    *(TypeError, AttributeError),
    RecursionError,
)


class Snapshot(NamedTuple):
    """tensors: arrays by name; state: what else there is to know, as JSON can hold it."""

    tensors: dict[str, NDArray[Any]]
    state: dict[str, Any]


def write(path: Path, tensors: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
    """Write a snapshot so that `path` holds either the old content or the new, whenever the power fails."""
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    described = {name: _describe(tensor) for name, tensor in whole.items()}
    text = json.dumps({"format": FORMAT, **state, "tensors": described})
    write_whole(path, save(whole, metadata={"convgrad": text, "sha256": _sha256(text.encode())}))


def read(path: Path) -> Snapshot:
    """The snapshot in `path`; raises SnapshotError unless it is whole and as it was written."""
    if path.is_dir():
        raise SnapshotError(f"{path} is a folder; a snapshot is a file in it, such as last.safetensors")
    try:
        with safe_open(path, framework="numpy") as file:
            state = _state(file.metadata() or {})
            described = state.pop("tensors")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except _UNREADABLE as error:
        raise SnapshotError(f"{path} is not a whole convgrad snapshot: {error}") from error
    if {name: _describe(tensor) for name, tensor in tensors.items()} != described:
        raise SnapshotError(f"{path} is damaged: its tensors are not those that were written")
    return Snapshot(tensors, state)


def _state(metadata: Mapping[str, str]) -> dict[str, Any]:
    if "convgrad" not in metadata:
        raise ValueError("its metadata has no entry 'convgrad'; another program wrote it")
    if _sha256(metadata["convgrad"].encode()) != metadata.get("sha256"):
        raise ValueError("the checksum of its state does not match")
    state = json.loads(metadata["convgrad"])
    if not isinstance(state, dict):
        raise TypeError(f"its state must be a JSON object, got {metadata['convgrad']:.40}")
    if state["format"] != FORMAT:
        raise ValueError(f"it has format {state['format']}, this version of convgrad reads format {FORMAT}")
    return state


def _describe(tensor: NDArray[Any]) -> list[Any]:
    return [tensor.dtype.name, list(tensor.shape), _sha256(tensor.tobytes())]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
