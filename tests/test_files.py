"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from convgrad import files


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX")
def test_file_then_rename_then_folder(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, Path.replace

    def noting_fsync(descriptor):
        events.append("folder" if Path(f"/dev/fd/{descriptor}").resolve() == tmp_path else "file")
        fsync(descriptor)

    def noting_replace(self, target):
        events.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(Path, "replace", noting_replace)
    files.write_whole(tmp_path / "x", b"content")

    assert events == ["file", "rename", "folder"]


def test_writers_of_one_file_do_not_meet(tmp_path, monkeypatch):
    """Another write of the same file, as a thread may do it, while the first is on its way to the disk."""
    fsync, others = os.fsync, [b"second"]

    def meeting_fsync(descriptor):
        if others:
            files.write_whole(tmp_path / "x", others.pop())
            assert (tmp_path / "x").read_bytes() == b"second"
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meeting_fsync)
    files.write_whole(tmp_path / "x", b"first")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"first")]


@pytest.mark.skipif(os.name != "posix", reason="rights as POSIX has them")
def test_rights_are_those_of_any_new_file(tmp_path):
    (tmp_path / "y").touch()
    files.write_whole(tmp_path / "x", b"content")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode


def test_folder_is_made(tmp_path):
    files.write_whole(tmp_path / "a" / "b" / "x", b"content")
    assert (tmp_path / "a" / "b" / "x").read_bytes() == b"content"
