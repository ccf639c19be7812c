"""Where the kernel texts are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from convgrad.kernel_source import kernels_folder


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
