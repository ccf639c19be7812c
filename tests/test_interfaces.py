"""The contracts, held against what implements them: zope's own check, and the signatures it leaves out."""

from __future__ import annotations

import pytest
from zope.interface import Interface, implementer
from zope.interface.verify import verifyObject

from convgrad.backends import verdict
from convgrad.backends.numpy import activation
from convgrad.backends.verdict import Verdict
from convgrad.geometry import POOL_KINDS
from convgrad.interfaces import (
    ACTIVATIONS,
    NUMERICS,
    ConvGradients,
    IBackend,
    IBackwardUnit,
    IConvOperations,
    IForwardUnit,
    IOperations,
    IPoolOperations,
    IUpdateOperations,
)
from tests.reference import activation as oracle
from tests.signatures import declared, differences

FAMILIES = {"conv": IConvOperations, "pool": IPoolOperations, "update": IUpdateOperations}


def test_a_backend_is_what_it_says(backend):
    assert verifyObject(IBackend, backend)
    assert differences(IBackend, backend) == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("numerics", NUMERICS)
def test_operations_are_what_they_say(backend, numerics, family, monkeypatch):
    monkeypatch.setattr(verdict, "on", lambda _: Verdict({"device": ""}))
    assert verifyObject(IOperations, backend.operations(numerics))
    operations = getattr(backend.operations(numerics), family)
    assert verifyObject(FAMILIES[family], operations)
    assert differences(FAMILIES[family], operations) == []


@pytest.mark.parametrize("interface", [*FAMILIES.values(), IBackend, IForwardUnit, IBackwardUnit])
def test_every_method_is_documented(interface):
    assert len(declared(interface)) >= 1
    for name in declared(interface):
        assert interface[name].getDoc(), name


def test_activations_are_the_same_everywhere():
    assert ACTIVATIONS == oracle.NAMES
    assert tuple(activation._FORWARD) == tuple(activation._SCALE) == ACTIVATIONS


def test_names_of_gradients_and_poolings():
    assert ConvGradients._fields == ("err_input", "weights", "bias")
    assert ConvGradients() == (None, None, None)
    assert POOL_KINDS == ("max", "maxabs", "average")


class IBase(Interface):
    def inherited(x):  # noqa: N805  # zope's way
        """Of the base."""


class IPretended(IBase):
    def method(x, y, *, flag=True, other):  # noqa: N805  # zope's way
        """To be implemented."""


@implementer(IPretended)
class Right:
    def inherited(self, x):
        pass

    def method(self, x, y, *, other=None, flag=True):
        pass


class WrongName(Right):
    def method(self, x, z, *, flag=True, other):
        pass


class WrongOrder(Right):
    def method(self, y, x, *, flag=True, other):
        pass


class WrongKind(Right):
    def method(self, x, y, flag=True, *, other):
        pass


class WrongDefault(Right):
    def method(self, x, y, *, flag=False, other):
        pass


class LacksKeyword(Right):
    def method(self, x, y, *, flag=True):
        pass


class OfItsOwn(Right):
    def method(self, x, y, *, flag=True, other, more=None):
        pass


class WrongBase(Right):
    def inherited(self, z):
        pass


def test_the_right_signature_passes():
    assert differences(IPretended, Right()) == []


@pytest.mark.parametrize(
    "wrong", [WrongName, WrongOrder, WrongKind, WrongDefault, LacksKeyword, OfItsOwn, WrongBase]
)
def test_a_wrong_signature_is_found(wrong):
    assert differences(IPretended, wrong()) != []
