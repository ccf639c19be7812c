"""Attributes that units share: Arrays by reference, everything else as live one-way links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from convgrad.errors import BadFormatError
from convgrad.memory import Array


class ArrayAttribute:
    """An attribute that holds an Array from the start, so that it can be linked before there is content.

    Assigning an ndarray makes it the content, which all units that share the Array see; None empties it;
    assigning an Array shares that one from now on. `result`: each run makes the content anew, so that
    pickles keep its shape only, and content of another shape or dtype is replaced at initialize.
    `persistent`: part of what a snapshot keeps of the unit that owns it; training changes it in place.
    """

    def __init__(self, *, result: bool = False, persistent: bool = False) -> None:
        self.result = result
        self.persistent = persistent

    @property
    def written(self) -> bool:
        """Whether units change the content, which must then be no other attribute's."""
        return self.result or self.persistent

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, unit: None, owner: type) -> Self: ...
    @overload
    def __get__(self, unit: Linked, owner: type) -> Array: ...
    def __get__(self, unit: Linked | None, owner: type) -> Self | Array:
        if unit is None:
            return self
        name, own = self.name, unit.__dict__  # read hundreds of times in a training step
        if name in own["_links"]:
            array = unit.linked(name)
        elif name in own:
            array = own[name]
        else:
            array = own[name] = Array(shallow_pickle=self.result)
        if not isinstance(array, Array):
            raise BadFormatError(f"{self.name} must be linked to an Array, found {type(array).__name__}")
        return array

    def __set__(self, unit: Linked, value: Array | NDArray[Any] | None) -> None:
        if isinstance(value, Array):
            unit.unlink(self.name)
            vars(unit)[self.name] = value
        else:
            self.__get__(unit, type(unit)).reset(_content(self.name, value))


def _content(name: str, value: Any) -> NDArray[Any] | None:
    if value is None or isinstance(value, np.ndarray):
        return value
    kind = type(value).__name__
    raise BadFormatError(f"{name} must be a numpy.ndarray, an Array or None, got {kind}")


def _pair(name: Any) -> tuple[str, str]:
    match (name, name) if isinstance(name, str) else name:
        case (str(own), str(theirs)):
            return own, theirs
    raise TypeError(f"link_attrs takes names and pairs (own name, other's name), got {name!r}")


def name_of(owner: Any) -> str:
    """What messages call an object, be it a unit or not."""
    return str(getattr(owner, "name", type(owner).__name__))


class Linked:
    """An object some of whose attributes may be those of other objects."""

    _links: dict[str, tuple[Any, str]]  # own name -> other object, its name for the attribute

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Have a place for links before any attribute is set."""
        self = super().__new__(cls)
        vars(self)["_links"] = {}
        return self

    def link_attrs(self, other: Any, *names: str | tuple[str, str]) -> Self:
        """Take attributes from `other`: each of `names` is a name, or a pair (own name, other's name).

        Reading one reads the other's present value. Setting it raises RuntimeError, except that an Array is
        shared: an ndarray assigned on either side becomes the content on both, and assigning another Array
        ends the link. Raises AttributeError when this object or `other` has no such attribute, ValueError
        for a link that would lead back to itself.
        """
        pairs = [_pair(name) for name in names]
        for own, theirs in pairs:
            if own not in self._links:
                getattr(self, own)
            getattr(other, theirs)
        for own, theirs in pairs:
            self._check_cycle(own, other, theirs)
            vars(self).pop(own, None)
            self._links[own] = (other, theirs)
        return self

    def _check_cycle(self, own: str, other: Any, theirs: str) -> None:
        first = f"{theirs!r} of {name_of(other)}"
        while isinstance(other, Linked):
            if other is self and theirs == own:
                raise ValueError(
                    f"{own} of {name_of(self)} cannot be linked to {first}, which leads back to it"
                )
            link = other.link_of(theirs)
            if link is None:
                return
            other, theirs = link

    def link_of(self, name: str) -> tuple[Any, str] | None:
        """The object that this attribute is taken from, and its name there."""
        return self._links.get(name)

    def is_linked(self, name: str) -> bool:
        """Whether this attribute is another object's."""
        return name in self._links

    def linked(self, name: str) -> Any:
        """The present value of a linked attribute."""
        other, theirs = self._links[name]
        return getattr(other, theirs)

    def unlink(self, name: str) -> None:
        """End the link of this attribute, if there is one; it keeps the present value (the same Array)."""
        if name in self._links:
            vars(self)[name] = self.linked(name)
            del self._links[name]

    if not TYPE_CHECKING:  # a type checker that saw these two would let any misspelt attribute pass

        def __getattr__(self, name: str) -> Any:
            if name in vars(self).get("_links", ()):
                return self.linked(name)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)

        def __setattr__(self, name: str, value: Any) -> None:
            if name in self._links and not isinstance(getattr(type(self), name, None), ArrayAttribute):
                other, theirs = self._links[name]
                raise RuntimeError(f"{name} is linked to {theirs!r} of {name_of(other)}: set it there")
            super().__setattr__(name, value)
