"""Units provide the interfaces that they declare, with the same parameters; nothing names a backend."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from zope.interface.verify import verifyObject

from convgrad.interfaces import IBackwardUnit, IForwardUnit, IUnit
from convgrad.units.evaluator import EvaluatorMSE, EvaluatorSoftmax
from tests.units.twins import CONVS, DENSES, POOLS

SOURCES = sorted((Path(__file__).parents[2] / "convgrad" / "units").glob("*.py"))


def pairs():
    for kind, (forward, backward) in (*CONVS.items(), *DENSES.items(), *POOLS.items()):
        del kind
        yield (
            forward(**{name: 2 for name in ("n_kernels", "kx", "ky") if name in forward.keywords()}),
            backward(),
        )


UNITS = [unit for pair in pairs() for unit in pair] + [EvaluatorSoftmax(), EvaluatorMSE()]


def contract(unit):
    for interface in (IForwardUnit, IBackwardUnit):
        if interface.providedBy(unit):
            return interface
    return IUnit


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_units_keep_their_contract(unit):
    assert verifyObject(contract(unit), unit)


def test_who_is_what():
    assert {contract(forward) for forward, _ in pairs()} == {IForwardUnit}
    assert {contract(backward) for _, backward in pairs()} == {IBackwardUnit}


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_parameters_are_those_of_the_contract(unit):
    interface = contract(unit)
    for name in interface:
        method = interface[name]
        if not hasattr(method, "getSignatureInfo"):
            continue
        found = inspect.signature(getattr(unit, name)).parameters.values()
        mine = [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
        rest = [p.name for p in found if p.kind is p.VAR_POSITIONAL]
        info = method.getSignatureInfo()
        assert (mine, rest) == (list(info["positional"]), [info["varargs"]] if info["varargs"] else [])


def test_initialize_takes_numerics_by_keyword():
    for unit in UNITS:
        assert (
            inspect.signature(unit.initialize).parameters["numerics"].kind is inspect.Parameter.KEYWORD_ONLY
        )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_units_name_no_backend(path):
    texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    assert not texts & {"numpy", "opencl", "cuda"}
