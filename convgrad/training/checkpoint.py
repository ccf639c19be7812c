"""What of a workflow goes into a snapshot, and how it comes back."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from convgrad.errors import BadFormatError, SnapshotError
from convgrad.geometry.checks import whole
from convgrad.memory import Array
from convgrad.prng import Random
from convgrad.training import snapshot
from convgrad.training.building import keywords
from convgrad.training.decision import Epoch

# A snapshot and the workflow that resumes from it must agree on these.
_AGREED = ("layers", "loss", "lr_policy", "numerics", "seed", "loader")
_OTHER = "; the snapshot is of another net or data set"


class Snapshots:
    """Keeps two files in `folder`: last.safetensors and best.safetensors.

    The first is written after every `interval` epochs and after the last one, the second after each epoch
    that is better than all before.
    """

    def __init__(self, folder: str | PathLike[str], *, interval: int = 1) -> None:
        self.folder = as_path("snapshots", folder)
        self.interval = whole("interval", interval, 1)

    def epoch(self, workflow: Any, epoch: Epoch) -> None:
        """Write what is due after this epoch."""
        if epoch.improved:
            save(workflow, self.folder / "best.safetensors")
        if epoch.number % self.interval == 0 or workflow.decision.complete:
            save(workflow, self.folder / "last.safetensors")


def snapshots(given: str | PathLike[str] | Mapping[str, Any] | None, layers: Any) -> Snapshots | None:
    """Snapshots into a folder, or with the keywords in a dict, or none; the layers are checked."""
    if given is None:
        return None
    _check_layers(layers)
    if not isinstance(given, Mapping):
        return Snapshots(given)
    wanted = keywords("snapshots", given, inspect.signature(Snapshots).parameters)
    if "folder" not in wanted:
        raise BadFormatError(f'snapshots must have "folder", got {wanted!r}')
    return Snapshots(**wanted)


def as_path(name: str, value: Any) -> Path:
    """`value` as a path, when it is a string or a path."""
    if not isinstance(value, (str, PathLike)):
        raise BadFormatError(f"{name} must be a path, got {value!r}")
    return Path(value)


def save(workflow: Any, path: Path) -> None:
    """Write all that an initialized workflow needs to go on as if it had never stopped."""
    _check_initialized(workflow)
    if workflow.inside_epoch:
        raise RuntimeError("a snapshot inside an epoch could not be resumed there; save between epochs")
    _check_layers(workflow.layers)
    snapshot.write(
        path, {name: _content(array) for name, array in _arrays(workflow).items()}, _state(workflow)
    )


def resume(workflow: Any, path: Path) -> None:
    """Bring an initialized workflow to where the one that wrote `path` was; all or, on an error, nothing.

    Raises SnapshotError where the file is damaged or foreign, or where layers, shapes, dtypes, numerics, seed
    or loader are not those of this workflow. Limits of the decision and the device may differ.
    """
    _check_initialized(workflow)
    found = snapshot.read(path)
    _check_agreed(path, found.state, _state(workflow))
    arrays = _arrays(workflow)
    _check_tensors(path, found.tensors, arrays)
    _restore(workflow, path, found.state)
    for name, array in arrays.items():
        _content(array)[...] = found.tensors[name]


def _restore(workflow: Any, path: Path, state: Mapping[str, Any]) -> None:
    try:
        random, iteration = Random.from_state(state["random"]), whole("iteration", state["iteration"], 0)
        workflow.decision.restore(state["decision"])
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"{path} holds no state of a workflow: {error!r}") from error
    workflow.random, workflow.iteration = random, iteration


def _check_initialized(workflow: Any) -> None:
    if not workflow.input:
        raise RuntimeError("initialize must be called before a snapshot is written or read")


def _check_layers(layers: Any) -> None:
    """Refuse layers that a snapshot could not hold."""
    for number, layer in enumerate(layers):
        try:
            json.dumps(layer)
        except TypeError as error:
            raise BadFormatError(
                f"layer {number} must be made of dicts, lists, texts, numbers, True, False and None "
                f"where there are snapshots; {error}"
            ) from None


def _state(workflow: Any) -> dict[str, Any]:
    loader = workflow.loader
    return {
        "convgrad": metadata.version("convgrad"),
        "layers": _as_json(workflow.layers),
        "loss": workflow.loss,
        "lr_policy": _as_json(workflow.lr_policy),
        "numerics": workflow.numerics,
        "seed": workflow.seed,
        "loader": {
            "classes": dict(loader.classes),
            "minibatch": [list(workflow.input.shape), workflow.input.dtype.name],
            "seed": getattr(loader, "seed", None),
        },
        "random": workflow.random.state(),
        "iteration": workflow.iteration,
        "decision": workflow.decision.state(),
    }


def _as_json(value: Any) -> Any:
    """`value` as it will be read back: with lists in place of tuples."""
    return json.loads(json.dumps(value))


def _arrays(workflow: Any) -> dict[str, Array]:
    units = (*workflow.forwards, *workflow.gds)
    return {f"{unit.name}.{name}": array for unit in units for name, array in unit.tensors().items()}


def _content(array: Array) -> NDArray[Any]:
    array.map_write()
    assert array.mem is not None
    return array.mem


def _check_agreed(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name in _AGREED:
        for place, was, now in _differences(name, found.get(name), wanted[name]):
            raise SnapshotError(
                f"{path} contradicts this workflow: {_in_words(place)} is {was!r} there and {now!r} here"
                + _OTHER * place.startswith(("layers", "the number of layers", "loader['classes']"))
            )


def _in_words(place: str) -> str:
    """With the name of the option that decides it, where the place does not tell."""
    return "the minibatch size (--batch)" if place == "loader['minibatch'][0][0]" else place


def _differences(place: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """The innermost places where two values differ, with what each of them holds there."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in {**was, **now}:
            yield from _differences(f"{place}[{key!r}]", was.get(key), now.get(key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) != len(now):
        yield f"the number of {place}", len(was), len(now)
    elif isinstance(was, list) and isinstance(now, list):
        for index, pair in enumerate(zip(was, now, strict=True)):
            yield from _differences(f"{place}[{index}]", *pair)
    elif was != now:
        yield place, was, now


def _check_tensors(path: Path, found: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    for name in {**found, **arrays}:
        was, now = (_format(tensors[name]) if name in tensors else "absent" for tensors in (found, arrays))
        if was != now:
            raise SnapshotError(f"{path} contradicts this workflow: {name} is {was} there and {now} here")


def _format(tensor: Any) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"
