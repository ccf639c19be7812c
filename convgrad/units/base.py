"""What every unit has: keywords, links, the life cycle of initialize and run. No mathematics."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import DTypeLike, NDArray
from zope.interface import implementer

from convgrad import backends
from convgrad.errors import BadFormatError
from convgrad.geometry.checks import check_numerics, check_single, flag, items
from convgrad.interfaces import IUnit
from convgrad.memory import Array
from convgrad.units.links import ArrayAttribute, Linked, name_of

_Unit = TypeVar("_Unit")
Memory = NDArray[Any] | None
MAX_WORK: Any = 10_000  # places that NumPy tries to find one that two strided arrays have in common


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def unit(cls: type[_Unit]) -> type[_Unit]:
    """Turn a class into one whose annotated attributes are its keywords, each with its default."""
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    for keyword in fields(made):
        if keyword.name in vars(made):
            delattr(made, keyword.name)  # it would answer in place of a link
    return cls


def unknown_keyword(owner: str, name: str, known: Iterable[str]) -> TypeError:
    """The error for a keyword that `owner` does not have; names the nearest that it has, or all."""
    near, names = difflib.get_close_matches(name, known, 1), ", ".join(sorted(known))
    hint = f"the nearest is {near[0]!r}" if near else f"it has {names}"
    return TypeError(f"{owner} has no keyword {name!r}; {hint}")


@implementer(IUnit)
@unit
class Unit(Linked):
    """Base of all units. The keywords of the constructor are its annotated attributes.

    A subclass says what it needs (`_demands`), checks it (`_setup`), makes its arrays ready (`_allocate`) and
    computes (`_compute`).
    """

    # Keywords that count at initialize; after a change of one it must be called again.
    FIXED: ClassVar[tuple[str, ...]] = ()

    # Whatever the unit belongs to; as in Veles the first argument. It is not used, and not pickled.
    workflow: Any = field(default=None, kw_only=False)
    # What messages, layer dicts and snapshots call it; empty = the name of its class.
    name: str = ""

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        """Refuse unknown keywords, naming the nearest that there is."""
        for name in keywords:
            if name not in cls.keywords():
                raise unknown_keyword(cls.__name__, name, cls.keywords())
        return super().__new__(cls, *args, **keywords)

    def __post_init__(self) -> None:
        self.name = self.name or type(self).__name__
        self.backend: Any = None
        self.operations: Any = None  # what of the backend computes, IOperations
        self.numerics: str | None = None  # that initialize was told
        self._memories: dict[str, Memory] = {}  # what the last run found, to see what has changed
        self._at_initialize: dict[str, Any] = {}  # the keywords in FIXED

    @classmethod
    def keywords(cls) -> frozenset[str]:
        """Names of all keywords of the constructor."""
        return frozenset(keyword.name for keyword in fields(cls))

    @classmethod
    @cache
    def array_attributes(cls) -> dict[str, ArrayAttribute]:
        """The attributes that hold Arrays, by name."""
        members = ((name, inspect.getattr_static(cls, name)) for name in dir(cls))
        return {name: member for name, member in members if isinstance(member, ArrayAttribute)}

    def tensors(self) -> dict[str, Array]:
        """What a snapshot keeps, by attribute name; to restore one, assign it before or after initialize.

        Arrays that are linked belong to the unit that they are linked to.
        """
        kept = [name for name, attribute in self.array_attributes().items() if attribute.persistent]
        own: dict[str, Array] = {name: getattr(self, name) for name in kept if not self.is_linked(name)}
        return {name: array for name, array in own.items() if array.host is not None}

    def initialize(self, device: Any = None, *, numerics: str = "fast") -> None:
        """Check everything that is linked or assigned, allocate; to be called again when a shape changes.

        device: a backend, its name, or None = the default one. numerics: "fast" or "fixed". Raises
        AttributeError for what is missing, BadFormatError for what does not fit, BackendUnavailable for a
        device that is missing or that cannot keep these numerics.
        """
        self.backend = self.operations = self.numerics = None
        backend = backends.get(device)
        with self._named():
            check_numerics(numerics)
            self._check_flags()
            self._check_demands()
            check_single(numerics, self._given())
            operations = backend.operations(numerics)
            self._setup()
            self._memories.clear()
            self._allocate(backend)
            self._take_arrays(backend)
        self._at_initialize = self._fixed()
        self.backend, self.operations, self.numerics = backend, operations, numerics

    def run(self) -> None:
        """Compute once, from what the arrays hold now."""
        if self.backend is None:
            raise RuntimeError(f"{self.name}: initialize must be called before run")
        with self._named():
            self._take_arrays(self.backend)
            self._check_fixed()
            self._allocate(self.backend)
            self._compute()

    def _demands(self) -> tuple[str, ...]:
        """Names of the attributes that must be linked or assigned before initialize."""
        return ()

    def _setup(self) -> None:
        raise NotImplementedError

    def _allocate(self, backend: Any) -> None:
        raise NotImplementedError

    def _compute(self) -> None:
        raise NotImplementedError

    def _check_demands(self) -> None:
        for name in self._demands():
            value = getattr(self, name)
            if value is None or (isinstance(value, Array) and value.host is None):
                raise AttributeError(f"{self.name} needs {name}: {self._way_to(name)} before initialize")
            if isinstance(value, Array) and not value.shape:
                raise BadFormatError(f"{name} must hold samples along its first axis, got shape ()")

    def _given(self) -> dict[str, Array]:
        """The arrays that hold something, but for results: these follow the others' dtype."""
        names = (name for name, attribute in self.array_attributes().items() if not attribute.result)
        arrays: dict[str, Array] = {name: getattr(self, name) for name in names}
        return {name: array for name, array in arrays.items() if array.host is not None}

    def _way_to(self, name: str) -> str:
        link = self.link_of(name)
        return f"initialize {name_of(link[0])}, which it is linked to," if link else "link or assign it"

    def _check_flags(self) -> None:
        for keyword in fields(self):
            if keyword.type in ("bool", bool):
                flag(keyword.name, getattr(self, keyword.name))

    def _fixed(self) -> dict[str, Any]:
        return {name: _plain(getattr(self, name)) for name in self.FIXED}

    def _check_fixed(self) -> None:
        for name, value in self._fixed().items():
            was = self._at_initialize[name]
            if value != was:
                raise BadFormatError(f"{name} was {was} at initialize and is {value}: call initialize again")

    def _take_arrays(self, backend: Any) -> None:
        for name in self.array_attributes():
            self._take(backend, name)

    def _take(self, backend: Any, name: str) -> None:
        """Bring an array to `backend`; memory that is new is checked first."""
        array: Array = getattr(self, name)
        if array.host is not self._memories.get(name):
            self._check_memory(backend, name, array.host)
            self._memories[name] = array.host
        array.initialize(backend)

    def _check_memory(self, backend: Any, name: str, memory: Memory) -> None:
        was, now = _format(self._memories.get(name)), _format(memory)
        if was not in (None, now):
            now = now or "empty"
            raise BadFormatError(f"{name} was {was} at initialize and is {now}: call initialize again")
        if memory is None:
            return
        if isinstance(memory, np.ma.MaskedArray):
            raise BadFormatError(f"{name} must be a plain numpy.ndarray, got {type(memory).__name__}")
        if memory.dtype.kind == "f" and not backend.supports(memory.dtype):
            raise BadFormatError(f"{name} is {memory.dtype}, which {backend.name} cannot compute on")
        attributes = self.array_attributes()
        if attributes[name].result and not (memory.flags.c_contiguous and memory.flags.writeable):
            raise BadFormatError(f"{name} must be C-contiguous and writable")
        for other in attributes.keys() - {name}:
            one_is_written = attributes[name].written or attributes[other].written
            if one_is_written and _overlap(getattr(self, other).host, memory):
                raise BadFormatError(f"{name} must not share memory with {other}")

    def _ready(self, backend: Any, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Have memory of this format for results in the Array of attribute `name`."""
        array: Array = getattr(self, name)
        if array.host is not None and array.host is self._memories.get(name):
            return  # nothing has changed since initialize
        wanted = f"{np.dtype(dtype)} {shape}"
        if self.array_attributes()[name].persistent and _format(array.host) not in (None, wanted):
            raise BadFormatError(f"{name} must be {wanted}, got {_format(array.host)}")
        array.allocate(shape, dtype)
        self._take(backend, name)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let errors about formats begin with the name of the unit."""
        try:
            yield
        except BadFormatError as error:
            raise BadFormatError(f"{self.name}: {error}") from None

    def __getstate__(self) -> dict[str, Any]:
        """Links to other units stay, what is linked to anything else becomes the value it has now."""
        state = vars(self) | {"workflow": None, "_memories": {}}
        state |= {"backend": None, "operations": None, "numerics": None}
        state["_links"] = {own: link for own, link in self._links.items() if isinstance(link[0], Unit)}
        return state | {own: self.linked(own) for own in self._links.keys() - state["_links"].keys()}

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}()" if self.name == kind else f"{kind}(name={self.name!r})"


def _format(memory: Memory) -> str | None:
    return None if memory is None else f"{memory.dtype} {memory.shape}"


def _plain(value: Any) -> Any:
    """A value that no change in place reaches, and that compares as one."""
    held = items(value)
    return value if held is None else held


def _overlap(one: Memory, other: Memory) -> bool:
    """Whether they have an element in common; when that is too hard to tell, whether their ranges overlap."""
    return one is not None and other is not None and np.may_share_memory(one, other, max_work=MAX_WORK)
