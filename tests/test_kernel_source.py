"""Where the kernel texts are looked for, and how their includes are put in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from convgrad import kernel_source
from convgrad.kernel_source import kernel_text, kernels_folder


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "README.md").touch()
    return folder


def test_a_checkout_uses_the_folder_beside_the_package():
    assert kernels_folder() == Path(__file__).parents[1] / "kernels"


def test_the_copy_inside_the_package_comes_first(tmp_path):
    make(tmp_path / "kernels")
    inside = make(tmp_path / "convgrad" / "_kernels")
    assert kernels_folder(tmp_path / "convgrad") == inside


def test_a_folder_without_readme_is_not_taken(tmp_path):
    (tmp_path / "convgrad" / "_kernels").mkdir(parents=True)
    beside = make(tmp_path / "kernels")
    assert kernels_folder(tmp_path / "convgrad") == beside


def test_the_error_names_both_places(tmp_path):
    package = tmp_path / "convgrad"
    with pytest.raises(FileNotFoundError) as error:
        kernels_folder(package)
    assert str(package / "_kernels") in str(error.value)
    assert str(tmp_path / "kernels") in str(error.value)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of kernels to write into; texts are read anew."""
    monkeypatch.setattr(kernel_source, "kernels_folder", lambda: tmp_path)
    kernel_text.cache_clear()
    yield tmp_path
    kernel_text.cache_clear()


def test_includes_are_put_in_place_once(folder):
    (folder / "lib").mkdir()
    (folder / "lib" / "a.h").write_text("A\n")
    (folder / "lib" / "b.h").write_text('#include "lib/a.h"\nB\n')
    (folder / "x.cl").write_text('#include "lib/b.h"\n#include "lib/a.h"\n#include <cmath>\nX\n')
    assert kernel_text("x.cl").split() == ["A", "B", "#include", "<cmath>", "X"]


def test_a_file_that_includes_itself_ends(folder):
    (folder / "x.cl").write_text('#include "x.cl"\nX\n')
    assert kernel_text("x.cl").split() == ["X"]


def test_an_include_that_is_not_there_is_named(folder):
    (folder / "x.cl").write_text('#include "lib/none.h"\n')
    with pytest.raises(FileNotFoundError, match=r"none\.h"):
        kernel_text("x.cl")


def test_every_include_of_the_kernels_is_found():
    files = [path.relative_to(kernels_folder()) for path in kernels_folder().rglob("*.cl")]
    assert files
    for file in files:
        assert '#include "' not in kernel_text(str(file))
