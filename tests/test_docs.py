"""README and docs say what is there: links, files, names, variables, options; their Python code runs."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import convgrad
from convgrad import cli
from convgrad.units.evaluator import EvaluatorMSE, EvaluatorSoftmax
from convgrad.units.pairing import _PAIRS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
SOURCES = sorted((ROOT / "convgrad").rglob("*.py"))

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w/.-])(?:convgrad|tests|docs|benchmarks|kernels|\.ci)/[\w./-]*")
MEMBER = re.compile(r"([\w./-]+\.py)::([\w.]+)")  # file.py::name or file.py::Class.name
DOTTED = re.compile(r"`(convgrad(?:\.\w+)+)")
OPTION = re.compile(r"--[a-z-]+")


def name(path):
    return str(path.relative_to(ROOT))


pages = pytest.mark.parametrize("page", PAGES, ids=name)


def blocks(text):
    """(language, code) of every fenced block."""
    return BLOCK.findall(text)


def links(page):
    """(target file, anchor) of every link to a file of the project."""
    for link in LINK.findall(BLOCK.sub("", page.read_text())):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def anchors(page):
    """How a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_links_lead_somewhere(page):
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), (target, anchor)


def test_pages_that_sources_name_exist():
    named = {page for path in SOURCES for page in re.findall(r"docs/[\w/-]+\.md", path.read_text())}
    assert "docs/numerics.md" in named
    assert [page for page in named if ROOT / page not in PAGES] == []


def test_every_page_is_reached_from_the_index():
    reached, new = set(), {DOCS / "index.md"}
    while new:
        reached |= new
        new = {target for page in new for target, _ in links(page) if target.suffix == ".md"} - reached
    assert set(DOCS.rglob("*.md")) - reached == set()


@pages
def test_files_that_are_named_exist(page):
    for path in PATH.findall(page.read_text()):
        assert (ROOT / path.rstrip(".")).exists(), path


@pages
def test_members_that_are_named_exist(page):
    for path, member in MEMBER.findall(page.read_text()):
        assert (ROOT / path).is_file(), path
        assert defines(ast.parse((ROOT / path).read_text()), member), f"{path}::{member}"


@pages
def test_dotted_names_that_are_named_exist(page):
    for dotted in DOTTED.findall(page.read_text()):
        assert resolves(dotted), dotted


def defines(tree, member):
    """Whether a module or class defines `member`, a name or Class.name."""
    first, _, rest = member.partition(".")
    found = [node for node in tree.body if first in names_of(node)]
    return bool(found) and (not rest or defines(found[0], rest))


def names_of(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return {target.id for target in targets if isinstance(target, ast.Name)}


def resolves(dotted):
    found = import_module("convgrad")
    for part in dotted.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError:
                return False
    return True


def variables(source):
    """Names of environment variables that a source reads, or that are convgrad's own."""
    found = set(re.findall(r"\bCONVGRAD_[A-Z_]+\b", source))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.environ.get", "os.getenv"):
            found |= {argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)}
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            found |= {node.slice.value} if isinstance(node.slice, ast.Constant) else set()
    return found


def test_every_variable_that_is_read_has_its_line():
    read = set().union(*(variables(path.read_text()) for path in [*SOURCES, ROOT / "conftest.py"]))
    assert read >= {"CONVGRAD_BACKEND", "XDG_CACHE_HOME"}
    assert read - described() == set()


def test_every_variable_that_has_a_line_is_read():
    sources = "".join(path.read_text() for path in [*SOURCES, ROOT / "conftest.py"])
    assert [variable for variable in described() if variable not in sources] == []


def described():
    rows = re.findall(r"^\| (`[^|]+) \|", (DOCS / "environment.md").read_text(), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_options_of_train_are_those_that_are_described(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    offered = set(OPTION.findall(capsys.readouterr().out)) - {"--help", "--no-deps"}
    told = re.findall(r"^\| `(--[a-z-]+)`", (DOCS / "training.md").read_text(), re.MULTILINE)
    assert set(told) == offered


UNITS = [*(unit for pair in _PAIRS for unit in pair), EvaluatorSoftmax, EvaluatorMSE]
REQUIRED = "required"


def defaults():
    """{(class, keyword): default}: each class that units are made of, each keyword that it introduces."""
    bases = {base for unit in UNITS for base in unit.__mro__ if is_dataclass(base)}
    return {
        (base.__name__, keyword.name): REQUIRED if keyword.default is MISSING else keyword.default
        for base in bases
        for keyword in fields(base)
        if keyword.name in inspect.get_annotations(base)
    }


def test_every_keyword_of_every_unit_has_its_line_and_default():
    expected = defaults()
    for unit in UNITS:
        owners = {base.__name__ for base in unit.__mro__}
        assert {keyword for owner, keyword in expected if owner in owners} == unit.keywords()
    assert told_defaults((DOCS / "units.md").read_text()) == expected


def told_defaults(text):
    """{(class, keyword): default} from the tables below headings that end in a class."""
    told = {}
    for section in re.split(r"^#{2,3} ", text, flags=re.MULTILINE):
        if owner := re.match(r"[^\n]*: `(\w+)`\n", section):
            rows = re.findall(r"^\| `(\w+)` \| (?:`(.+?)`|(required)) \|", section, re.MULTILINE)
            told |= {(owner[1], keyword): ast.literal_eval(v) if v else r for keyword, v, r in rows}
    return told


def test_told_defaults_are_found():
    rows = "| `kx` | required | b |\n| `ky` | `(1, 2)` | b |\n"
    text = f"## A\n\n### Some: `Ours`\n\n{rows}\n## B\n\n| `kz` | `1` | b |\n"
    assert told_defaults(text) == {("Ours", "kx"): REQUIRED, ("Ours", "ky"): (1, 2)}


def test_every_array_of_every_unit_has_its_line():
    section = (DOCS / "units.md").read_text().split("\n## Arrays\n")[1]
    told = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(told) == sorted({name for unit in UNITS for name in unit.array_attributes()})


def test_every_type_of_layer_has_its_line():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \|", (DOCS / "units.md").read_text(), re.MULTILINE)
    pairs = {(string, *(unit.__name__ for unit in pair)) for pair in _PAIRS for string in pair[0].MAPPING}
    assert set(rows) == pairs
    assert all(getattr(convgrad, unit.__name__) is unit for unit in UNITS)


def run(code, folder):
    """Run a block in a process of its own; a warning ends it."""
    command = [sys.executable, "-W", "error", "-c", code]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


CODE = [
    pytest.param(code, id=f"{name(page)}-{number}")
    for page in PAGES
    for number, (language, code) in enumerate(blocks(page.read_text()))
    if language == "python"
]


@pytest.mark.parametrize("code", CODE)
def test_python_blocks_run(code, tmp_path):
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr


def test_readme_has_python_blocks():
    assert sum(language == "python" for language, _ in blocks(PAGES[0].read_text())) >= 3


def test_the_loop_of_ones_own_learns(tmp_path):
    [(language, code), *_] = blocks((DOCS / "own_loop.md").read_text())
    assert language == "python"
    assert len(code.splitlines()) <= 45
    wrong, of = re.fullmatch(r"(\d+) of (\d+) wrong\n", run(code, tmp_path).stdout).groups()
    assert int(of) == 357
    assert int(wrong) <= 36


BROKEN = """
```python
import convgrad
convgrad.Conv(n_kernels=1, kx=1, ky=1, colour="red")
```
```sh
exit 1
```
"""


def test_a_broken_block_is_found(tmp_path):
    [(language, code), other] = blocks(BROKEN)
    assert (language, other) == ("python", ("sh", "exit 1\n"))
    assert "no keyword 'colour'" in run(code, tmp_path).stderr
    assert run("import warnings; warnings.warn('odd')", tmp_path).returncode == 1


def test_quick_start_is_two_commands():
    section = PAGES[0].read_text().split("\n## Quick start\n")[1].split("\n## ")[0]
    found = blocks(section)
    assert [language for language, _ in found] == ["sh", "sh"]
    commands = [code.splitlines() for _, code in found]
    assert [len(lines) for lines in commands] == [1, 1]
    assert all(line.startswith("sh tests/setup.sh") for [line] in commands)


def families(rows):
    """The first column of a table, backends without their devices; each once."""
    return list(dict.fromkeys(row.split("|")[1].strip().partition(":")[0] for row in rows))


def test_readme_shows_the_backends_that_devices_prints(capsys):
    cli.main(["devices", "--markdown"])
    printed = capsys.readouterr().out.splitlines()
    shown = PAGES[0].read_text().split("<!-- devices -->\n")[1].split("\n<!-- /devices -->")[0].splitlines()
    assert shown[:2] == printed[:2]
    assert families(shown) == families(printed)
    missing = [row for row in printed if row.startswith("| cuda | no")]  # there may be no OpenCL here
    assert [row for row in missing if row not in shown] == []


def test_decisions_are_numbered():
    assert [path.name[:5] for path in DECISIONS] == [f"{n:04}-" for n in range(1, len(DECISIONS) + 1)]


@pytest.mark.parametrize("note", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_date_question_choice_price_and_guard(note):
    text = note.read_text()
    title, date, *_ = filter(None, text.splitlines())
    assert title.startswith(f"# {note.name[:4]} ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Question", "Choice", "Price", "Guard"]
    guards = MEMBER.findall(text.partition("## Guard")[2])
    assert guards
    assert all(path.startswith("tests/") and "test_" in member for path, member in guards)


def test_scikit_cuda_stays_out():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [project["dependencies"], *project["optional-dependencies"].values()]
    assert [package for extra in wanted for package in extra if package.startswith("scikit-cuda")] == []
    assert [path for path in SOURCES if "skcuda" in path.read_text()] == []


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (test_files_that_are_named_exist, "see `tests/test_nothing.py`"),
        (test_members_that_are_named_exist, "see `convgrad/errors.py::WrongError`"),
        (test_members_that_are_named_exist, "see `convgrad/memory.py::Array.map_all`"),
        (test_dotted_names_that_are_named_exist, "see `convgrad.functional.conv_sideways`"),
        (test_links_lead_somewhere, "[here](nowhere.md)"),
        (test_links_lead_somewhere, "# There\n\n[here](#elsewhere)"),
    ],
)
def test_what_is_not_there_is_found(check, wrong, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(wrong)
    with pytest.raises(AssertionError):
        check(page)


def test_variables_are_found():
    source = "os.environ['ONE'], os.environ.get('TWO', ''), os.getenv('THREE'), 'CONVGRAD_FOUR'"
    assert variables(source) == {"ONE", "TWO", "THREE", "CONVGRAD_FOUR"}
