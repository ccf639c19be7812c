"""Attributes that units share."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.memory import Array
from convgrad.units.conv import Conv, ConvTanh, GDTanhConv, GradientDescentConv
from convgrad.units.pooling import AvgPooling, GDAvgPooling, GDMaxPooling, MaxPooling
from tests.units.twins import host, ran

KEYWORDS = {"n_kernels": 2, "kx": 3, "ky": 2}


class Source:
    """Something that is no unit, such as a loader."""

    def __init__(self):
        self.data = Array()
        self.size = 3


def test_arrays_are_shared_before_they_have_content():
    first, second = Conv(**KEYWORDS), MaxPooling(kx=2, ky=2)
    second.link_attrs(first, ("input", "output"))
    assert second.input is first.output
    memory = np.zeros((1, 2, 3, 4))
    first.output = memory
    assert second.input.mem is memory
    second.input = other = np.ones((1, 2, 3, 4))
    assert first.output.mem is other


def test_a_new_array_on_the_other_side_is_seen():
    first, second = Conv(**KEYWORDS), MaxPooling(kx=2, ky=2).link_attrs(Conv(**KEYWORDS), ("input", "output"))
    second.link_attrs(first, ("input", "output"))
    first.output = array = Array(np.zeros((1, 2, 3, 4)))
    assert second.input is array


def test_assigning_an_array_ends_the_link():
    first, second = Conv(**KEYWORDS), MaxPooling(kx=2, ky=2)
    second.link_attrs(first, ("input", "output"))
    second.input = array = Array()
    assert second.input is array
    assert first.output is not array


def test_other_values_are_live_and_one_way():
    source, unit = Source(), Conv(**KEYWORDS)
    unit.link_attrs(source, ("batch_size", "size"), ("input", "data"))
    assert unit.batch_size == 3
    source.size = 2
    assert unit.batch_size == 2
    with pytest.raises(RuntimeError, match="batch_size is linked to 'size' of Source"):
        unit.batch_size = 1
    assert source.size == 2


def test_a_link_of_a_link(rng):
    first, second, third = (Conv(**KEYWORDS) for _ in range(3))
    third.link_attrs(second, "padding").link_attrs(second.link_attrs(first, "padding"), "sliding")
    first.padding = (1, 2, 3, 4)
    assert third.padding == (1, 2, 3, 4)


def test_names_that_do_not_exist():
    unit = Conv(**KEYWORDS)
    with pytest.raises(AttributeError, match=r"Source.*'date'"):
        unit.link_attrs(Source(), ("input", "date"))
    with pytest.raises(AttributeError, match="Conv has no attribute 'paddign'"):
        _ = unit.paddign
    with pytest.raises(AttributeError, match="Conv has no attribute 'paddign'"):
        unit.link_attrs(Source(), ("paddign", "size"))
    with pytest.raises(AttributeError, match="'date'"):
        unit.link_attrs(Source(), ("kx", "size"), ("ky", "date"))
    assert not unit.is_linked("kx")


@pytest.mark.parametrize("name", [3, ("kx", "size", "data"), ("kx", 3), None])
def test_what_is_no_name(name):
    with pytest.raises(TypeError, match=r"takes names and pairs \(own name, other's name\), got"):
        Conv(**KEYWORDS).link_attrs(Source(), name)


def test_links_lead_somewhere():
    first, second, third = (Conv(**KEYWORDS, name=name) for name in ("first", "second", "third"))
    for name in ("kx", "input"):
        with pytest.raises(ValueError, match=f"{name} of first cannot be linked to '{name}' of first, which"):
            first.link_attrs(first, name)
        second.link_attrs(first, name)
        third.link_attrs(second, name)
        with pytest.raises(ValueError, match=f"{name} of first cannot be linked to '{name}' of third, which"):
            first.link_attrs(third, name)
        with pytest.raises(ValueError, match="leads back"):
            second.link_attrs(third, name)
    with pytest.raises(ValueError, match="leads back"):
        first.link_attrs(first, ("kx", "ky"), ("ky", "kx"))
    first.ky = 4
    assert (first.kx, third.kx) == (4, 4)
    third.link_attrs(Source(), ("kx", "size"))  # anew
    assert third.kx == 3


def test_what_remains_without_the_link():
    source, unit = Source(), Conv(**KEYWORDS).link_attrs(Conv(**KEYWORDS), "ky")
    unit.link_attrs(source, ("batch_size", "size"), ("input", "data"))
    for name in ("ky", "batch_size", "input", "sliding"):
        unit.unlink(name)
    source.size = 2
    assert (unit.ky, unit.batch_size, unit.sliding) == (2, 3, (1, 1))
    assert unit.input is source.data
    unit.ky = 5
    assert unit.ky == 5


def test_an_array_attribute_takes_arrays_only():
    unit = Conv(**KEYWORDS)
    with pytest.raises(BadFormatError, match=r"input must be .* got list"):
        unit.input = [[1.0]]
    unit.link_attrs(Source(), ("input", "size"))
    with pytest.raises(BadFormatError, match="input must be linked to an Array, found int"):
        _ = unit.input


def test_link_forward_links_everything_and_copies_nothing(backend, rng):
    options = {"padding": (1, 2, 0, 1), "sliding": (2, 1), "unpack_size": 2, "weights_transposed": True}
    forward = ran(Conv(**KEYWORDS, **options), backend, input=rng.standard_normal((3, 4, 5, 2)))
    gd = GradientDescentConv(weights_transposed=False, padding=(9, 9, 9, 9))
    assert gd.link_forward(forward) is gd
    for name in ("input", "output", "weights", "bias"):
        assert getattr(gd, name) is getattr(forward, name)
    for name, value in (KEYWORDS | options | {"include_bias": True}).items():
        assert getattr(gd, name) == value
    before = host(forward.weights)
    ran(gd, backend, err_output=rng.standard_normal(forward.output.shape))
    assert not np.array_equal(host(forward.weights), before)


def test_link_forward_refuses_another_kind_of_twin():
    with pytest.raises(BadFormatError, match="GDTanhConv is for activation 'tanh', Conv has 'linear'"):
        GDTanhConv().link_forward(Conv(**KEYWORDS))
    with pytest.raises(BadFormatError, match="'linear', ConvTanh has 'tanh'"):
        GradientDescentConv().link_forward(ConvTanh(**KEYWORDS))
    with pytest.raises(BadFormatError, match="GDMaxPooling is for kind 'max', AvgPooling has 'average'"):
        GDMaxPooling().link_forward(AvgPooling(kx=2, ky=2))
    with pytest.raises(BadFormatError, match="GDAvgPooling is for kind 'average', second has 'max'"):
        GDAvgPooling().link_forward(MaxPooling(kx=2, ky=2, name="second"))
    with pytest.raises(BadFormatError, match="is for activation 'linear', MaxPooling has None"):
        GradientDescentConv().link_forward(MaxPooling(kx=2, ky=2))


def test_linked_numbers_can_be_changed_at_the_source(backend):
    forward = ran(Conv(**KEYWORDS), backend, input=np.ones((1, 4, 5, 1)))
    gd = ran(GradientDescentConv().link_forward(forward), backend, err_output=np.ones((1, 3, 3, 2)))
    forward.sliding = (2, 1)
    forward.initialize(backend)
    with pytest.raises(BadFormatError, match=r"output .*call initialize again"):
        gd.run()
    gd.err_output = np.ones((1, 3, 2, 2))
    gd.initialize(backend)
    gd.run()
    assert gd.geometry.sliding == (2, 1)
