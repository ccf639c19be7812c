import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from convgrad.errors import SnapshotError
from convgrad.training import snapshot

TENSORS = {
    "a.weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.bias": np.array([np.nan, -0.0, np.inf]),
    "b.counts": np.array([[1, 2**40]]),
    "b.empty": np.zeros((0, 3), np.float32),
}
STATE = {"layers": [{"type": "conv", "padding": [1, 2, 3, 4]}], "iteration": 2**60, "rate": 0.1}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "last.safetensors"
    snapshot.write(path, TENSORS, STATE)
    return path


def test_what_is_written_is_read(path):
    found = snapshot.read(path)

    assert found.state == STATE | {"format": 1}
    assert found.tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert (found.tensors[name].dtype, found.tensors[name].shape) == (tensor.dtype, tensor.shape)
        assert found.tensors[name].tobytes() == tensor.tobytes()


def test_strided_tensors_are_written_in_their_own_order(tmp_path):
    tensor = np.arange(24.0).reshape(4, 6)[::2, ::-1].T
    snapshot.write(tmp_path / "x", {"x": tensor}, {})
    assert (snapshot.read(tmp_path / "x").tensors["x"] == tensor).all()


def test_metadata_is_json_that_others_can_read(path):
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])

    state = json.loads(header["__metadata__"]["convgrad"])

    assert state["iteration"] == 2**60
    assert state["tensors"]["a.weights"][:2] == ["float32", [2, 3]]


def test_any_flipped_bit_is_found(path):
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(SnapshotError, match=r"last\.safetensors"):
            snapshot.read(path)


def test_any_cut_is_found(path):
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(SnapshotError, match="not a whole convgrad snapshot"):
            snapshot.read(path)


def test_added_bytes_are_found(path):
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(SnapshotError):
        snapshot.read(path)


def test_tensor_that_was_exchanged_is_found(path):
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    path.write_bytes(save(TENSORS | {"a.bias": np.zeros(3)}, metadata=header["__metadata__"]))
    with pytest.raises(SnapshotError, match="damaged"):
        snapshot.read(path)


def test_file_of_another_program_is_refused(tmp_path):
    save_file(TENSORS, tmp_path / "x")
    with pytest.raises(SnapshotError, match="another program"):
        snapshot.read(tmp_path / "x")


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"PK\x03\x04" + bytes(100), b"{}" * 100])
def test_file_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SnapshotError, match="not a whole convgrad snapshot"):
        snapshot.read(tmp_path / "x")


def test_absent_file_and_folder_are_refused(tmp_path):
    for path in (tmp_path / "x", tmp_path):
        with pytest.raises(SnapshotError):
            snapshot.read(path)


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3"])
@pytest.mark.parametrize("forged", [False, True])
def test_dtypes_that_numpy_lacks_are_refused(tmp_path, dtype, forged):
    described = {"convgrad": '{"format": 1, "tensors": {}}'}
    described["sha256"] = hashlib.sha256(described["convgrad"].encode()).hexdigest()
    size = 4 if dtype == "BF16" else 2
    tensor = {"dtype": dtype, "shape": [2], "data_offsets": [0, size]}
    header = json.dumps({"x": tensor, **({"__metadata__": described} if forged else {})}).encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    with pytest.raises(SnapshotError, match="not a whole" if forged else "another program"):
        snapshot.read(tmp_path / "x")


@pytest.mark.parametrize("text", ["[]", "null", '"text"', "5", "{}", '{"format": 1}', "[" * 100_000])
def test_state_that_is_none_is_refused(tmp_path, text):
    checksum = hashlib.sha256(text.encode()).hexdigest()
    save_file(TENSORS, tmp_path / "x", metadata={"convgrad": text, "sha256": checksum})
    with pytest.raises(SnapshotError, match="not a whole convgrad snapshot"):
        snapshot.read(tmp_path / "x")


def test_foreign_tensors_are_not_loaded(tmp_path, monkeypatch):
    save_file(TENSORS, tmp_path / "x")
    opened = snapshot.safe_open(tmp_path / "x", framework="numpy")

    class Watched:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def metadata(self):
            return opened.metadata()

        def keys(self):
            raise AssertionError("tensors were asked for")

    monkeypatch.setattr(snapshot, "safe_open", lambda *_, **__: Watched())
    with pytest.raises(SnapshotError, match="another program"):
        snapshot.read(tmp_path / "x")


def test_later_format_is_named(path, monkeypatch):
    monkeypatch.setattr(snapshot, "FORMAT", 2)
    snapshot.write(path, TENSORS, STATE)
    monkeypatch.undo()
    with pytest.raises(SnapshotError, match="it has format 2, this version of convgrad reads format 1"):
        snapshot.read(path)


@pytest.mark.parametrize("fault", ["fsync", "replace"])
def test_fault_before_the_rename_leaves_the_old_file(path, monkeypatch, fault):
    old = path.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(*((os, "fsync") if fault == "fsync" else (Path, "replace")), fail)
    with pytest.raises(OSError, match="no space left"):
        snapshot.write(path, TENSORS, STATE | {"iteration": 5})

    assert path.read_bytes() == old
    assert list(path.parent.iterdir()) == [path]
