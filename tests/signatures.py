"""Signatures of interface methods against those of their implementations.

zope.interface keeps neither keyword-only parameters nor the method itself, and verifyObject compares only the
number of positional ones; so the declarations are read out of the interfaces' source.
"""

from __future__ import annotations

import ast
import importlib
import inspect

KEYWORD = inspect.Parameter.KEYWORD_ONLY


def declared(interface):
    """Name -> inspect.Signature of every method that `interface` or one of its bases declares."""
    found = {}
    for base in reversed(interface.__iro__):
        tree = ast.parse(inspect.getsource(importlib.import_module(base.__module__)))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
                found.update({method.name: _signature(method) for method in methods})
    return {name: found[name] for name in interface.names(all=True) if name in found}


def _signature(method):
    names = {}
    exec(ast.unparse(method), names)  # noqa: S102  # the project's own text
    return inspect.signature(names[method.name])


def differences(interface, implementation):
    """What would surprise a caller who trusts the interface, one line each; `implementation` is an object.

    Positional parameters must be the same in name and order, keyword-only ones in name. A default that is
    declared must be there; where none is, the implementation may have one.
    """
    found = []
    for name, wanted in declared(interface).items():
        actual = inspect.signature(getattr(implementation, name))
        found += [f"{name}: {line}" for line in _differences(wanted, actual)]
    return found


def _differences(wanted, actual):
    for positional in (True, False):
        names = [_names(signature, positional) for signature in (wanted, actual)]
        if (names[0] if positional else sorted(names[0])) != (names[1] if positional else sorted(names[1])):
            yield f"{names[1]} where the interface has {names[0]}"
    for parameter in wanted.parameters.values():
        own = actual.parameters.get(parameter.name)
        declares = parameter.default is not parameter.empty
        if declares and own is not None and own.default != parameter.default:
            yield f"{parameter.name}={own.default!r} where the interface has {parameter.default!r}"


def _names(signature, positional):
    return [p.name for p in signature.parameters.values() if (p.kind is not KEYWORD) == positional]
