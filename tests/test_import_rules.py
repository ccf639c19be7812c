"""The import arrows of docs/layout.md, read out of the sources; imports in functions and for types count too.

A part may import the parts on lower floors and itself. Type-only imports are held to the same rule: an arrow
says what a part knows of, not only what it loads; a lower part that needs a type from above wants an
interface.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "convgrad").rglob("*.py"))
ORACLES = sorted((ROOT / "tests" / "reference").rglob("*.py"))

FLOORS = (
    ("errors",),
    ("prng", "files", "kernel_source", "geometry", "update_rule", "testing"),
    ("interfaces",),
    ("memory",),
    ("numerics",),
    ("backends",),
    ("functional",),
    ("units", "interop"),
    ("training", "bench", "checking"),
    ("cli",),
    ("__main__",),
)
FLOOR = {part: number for number, parts in enumerate(FLOORS) for part in parts}

# (importer, imported): not allowed although the floors would let it pass. Backends of one kind know nothing
# of another; only the two drivers use what they share. A device asks for its own verdict, NumPy needs none.
KINDS = ("numpy", "device", "opencl", "cuda")
FORBIDDEN = (
    ("convgrad.units", "convgrad.functional"),
    *(("convgrad.units", f"convgrad.backends.{kind}") for kind in KINDS),
    *(
        (f"convgrad.backends.{one}", f"convgrad.backends.{other}")
        for one, other in permutations(KINDS, 2)
        if other != "device" or one == "numpy"
    ),
    *((f"convgrad.backends.{kind}", "convgrad.backends.verdict") for kind in KINDS if kind != "device"),
    *(
        (f"convgrad.backends.{kind}", "convgrad.backends.opencl_devices")
        for kind in KINDS
        if kind != "opencl"
    ),
)
# GPU package: the only module that may import it.
HOME = {
    "pyopencl": "convgrad.backends.opencl",
    "pycuda": "convgrad.backends.cuda",
    "nvidia": "convgrad.backends.cuda",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parent.parts)


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported, relative names and import_module("...") resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, package)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and is_import_call(node):
            yield node.lineno, node.args[0].value


def absolute(node: ast.ImportFrom, package: str) -> str:
    parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join([*parents, *filter(None, [node.module])])


def is_import_call(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    constant = bool(node.args) and isinstance(node.args[0], ast.Constant)
    return name in ("import_module", "__import__") and constant


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def part_of(name: str) -> str:
    return [*name.split("."), ""][1]


def complaint(importer: str, imported: str) -> str | None:
    """Why `importer` may not import `imported`, or None when it may."""
    for package, home in HOME.items():
        if within(imported, package) and importer != home:
            return f"only {home} may import {package}"
    if not within(imported, "convgrad") or importer == "convgrad":
        return None
    for above, below in FORBIDDEN:
        if within(importer, above) and within(imported, below):
            return f"{above} may not import {below}"
    return floor_complaint(part_of(importer), part_of(imported))


def floor_complaint(mine: str, other: str) -> str | None:
    if mine not in FLOOR:
        return f"{mine} has no floor yet: give it one in {Path(__file__).name}"
    if other not in FLOOR:  # a name of convgrad itself, such as `from convgrad import Conv`
        return None if mine in ("cli", "bench") else f"import {other or 'convgrad'} from its own module"
    return None if other == mine or FLOOR[other] < FLOOR[mine] else f"{mine} may not import {other}"


def complaints(source: str, importer: str, package: str) -> list[str]:
    found = [(line, complaint(importer, name)) for line, name in imports(ast.parse(source), package)]
    return [f"{importer}, line {line}: {text}" for line, text in found if text]


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_follow_the_arrows(path):
    assert complaints(path.read_text(), module_name(path), package_of(path)) == []


def test_every_module_has_a_floor():
    parts = {part_of(module_name(path)) for path in SOURCES} - {""}
    assert parts - set(FLOOR) == set()


def test_testing_knows_numpy_and_errors_only():
    path = ROOT / "convgrad" / "testing.py"
    if path.exists():
        assert outsiders(path) <= {"numpy", "convgrad"}


@pytest.mark.parametrize("path", ORACLES, ids=module_name)
def test_oracles_stand_alone(path):
    assert outsiders(path) <= {"numpy", "tests"}
    own = [name for name in imported_by(path) if within(name, "tests")]
    assert [name for name in own if not within(name, "tests.reference")] == []


def imported_by(path: Path) -> list[str]:
    return [name for _, name in imports(ast.parse(path.read_text()), package_of(path))]


def outsiders(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported_by(path)} - sys.stdlib_module_names


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("convgrad.geometry.conv", "from convgrad.memory import Array"),
        ("convgrad.geometry.conv", "import convgrad.units"),
        ("convgrad.geometry.conv", "from convgrad import units"),
        ("convgrad.geometry.conv", "from ..memory import Array"),
        ("convgrad.geometry.conv", "from .. import memory"),
        ("convgrad.geometry.conv", "from convgrad import Conv"),
        ("convgrad.geometry.conv", "import convgrad"),
        ("convgrad.memory", "def later():\n    from convgrad.functional import conv_forward"),
        ("convgrad.memory", "import importlib\nimportlib.import_module('convgrad.units')"),
        ("convgrad.memory", "if TYPE_CHECKING:\n    from convgrad.units import Conv"),
        ("convgrad.units.conv", "from convgrad.functional import conv_forward"),
        ("convgrad.units.conv", "from convgrad.backends import numpy"),
        ("convgrad.units.conv", "from convgrad.backends.numpy.conv import forward"),
        ("convgrad.backends.numpy.conv", "from convgrad.units import Conv"),
        ("convgrad.backends.numpy.conv", "from convgrad.backends.device import plan"),
        ("convgrad.backends.device.plan", "from ..opencl import Driver"),
        ("convgrad.backends.device.plan", "import pyopencl as cl"),
        ("convgrad.backends.opencl", "from pycuda import driver"),
        ("convgrad.backends.cuda", "import pyopencl"),
        ("convgrad.interop.torch", "from convgrad.units import Conv"),
        ("convgrad", "import pycuda.driver"),
        ("convgrad.unplaced", "from convgrad.errors import BadFormatError"),
    ],
)
def test_a_breach_is_found(importer, source):
    assert len(complaints(source, importer, importer.rpartition(".")[0])) == 1


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        (
            "convgrad.geometry.conv",
            "from .axis import Axis\nfrom . import checks\nfrom ..errors import BadFormatError",
        ),
        ("convgrad.units.conv", "from convgrad import backends\nfrom convgrad.geometry import ConvGeometry"),
        ("convgrad.backends.opencl", "import pyopencl\nfrom convgrad.backends.device import plan"),
        ("convgrad.cli", "from convgrad import __version__"),
        ("convgrad.prng", "import numpy as np\nfrom convgrad.errors import BadFormatError"),
    ],
)
def test_an_allowed_import_passes(importer, source):
    assert complaints(source, importer, importer.rpartition(".")[0]) == []
