"""Known answers of fixed numerics: what the file holds, who gives them, and that others are told."""

from __future__ import annotations

import json
import runpy

import numpy as np
import pytest

from convgrad import backends, files
from convgrad.backends import verdict
from convgrad.checking import digests, families
from convgrad.checking.digests import computations, digest, known
from convgrad.numerics.leaves import Leaves
from convgrad.prng import Random

TITLES = list(computations())
KNOWN = known()


@pytest.fixture
def told(monkeypatch):
    """What the check says of the family, on a backend."""
    monkeypatch.setattr(families, "cases", lambda: list(digests.cases()))
    return lambda backend: dict(families.verdicts(backend))["fixed"]


def results(title):
    """What the judge computes of a case, from other operands than the file's."""
    numpy = backends.get("numpy")
    return computations()[title](Random(5), numpy, numpy.operations("fixed"))


def test_the_file_is_what_the_judge_gives():
    """Else: python -m convgrad.checking.digests."""
    assert digests.FILE.read_text() == digests.text()


def test_the_command_writes_the_file(monkeypatch):
    written = []
    monkeypatch.setattr(files, "write_whole", lambda *file_and_content: written.append(file_and_content))
    runpy.run_path(digests.__file__, run_name="__main__")
    assert written == [(digests.FILE, digests.FILE.read_bytes())]


def test_each_digest_is_of_something_else():
    assert len(set(KNOWN.values())) == len(TITLES)


@pytest.mark.parametrize("title", TITLES)
def test_a_device_gives_the_same(device_backend, title):
    assert digest(title, device_backend) == KNOWN[title]


def test_a_device_is_not_asked_for_its_verdict(device_backend, told, monkeypatch):
    """That would run its check, and so on for ever."""
    monkeypatch.delattr(verdict, "on")
    assert told(device_backend) == ""


@pytest.mark.parametrize("title", TITLES)
def test_results_have_no_nan(title):
    """Whose bits are not promised."""
    assert results(title)
    assert not any(np.isnan(array).any() for array in results(title))


@pytest.mark.parametrize("title", [title for title in TITLES if "subnormal" in title])
def test_results_are_subnormal_where_the_title_says_so(title):
    sizes = np.concatenate([np.abs(array).ravel() for array in results(title)])
    assert ((sizes > 0) & (sizes < np.finfo(np.float32).tiny)).sum() > 50


@pytest.mark.parametrize("images", [16, 8, 4])
def test_leaves_are_of_as_many_images_as_the_title_says(images):
    layer = digests.LAYERS[f"leaves of {images} images"]
    leaves = Leaves(layer.options.get("batch", layer.images), *layer.geometry.output_shape[:2])
    assert (leaves.leaf_images, leaves.units) == (images, 3)
    assert leaves.images % images


# --- what is wrong is told


def test_digests_that_are_wrong_are_told_by_name(backend, told, monkeypatch, tmp_path):
    monkeypatch.setattr(digests, "FILE", tmp_path / "digests.json")
    digests.FILE.write_text(json.dumps(KNOWN | {"bias": "0" * 64, "step, l1": KNOWN["step"]}))
    assert told(backend) == "bias: other bits; step, l1: other bits"


def test_a_digest_that_is_missing_is_told_by_name(told, monkeypatch, tmp_path):
    monkeypatch.setattr(digests, "FILE", tmp_path / "digests.json")
    digests.FILE.write_text(json.dumps({title: text for title, text in KNOWN.items() if title != "bias"}))
    assert told(backends.get("numpy")) == "bias: KeyError: 'bias'"


@pytest.mark.parametrize(
    ("title", "place"), [("pooling, max", 0), ("pooling, max", 1), ("leaves of 8 images", 1)]
)
def test_one_bit_of_one_result_is_another_digest(monkeypatch, title, place):
    compute = computations()[title]

    def altered(*arguments):
        arrays = compute(*arguments)
        arrays[place].view(np.uint8).flat[-1] ^= 1
        return arrays

    monkeypatch.setattr(digests, "computations", lambda: {title: altered})
    assert digest(title, backends.get("numpy")) != KNOWN[title]
