"""Attributes that units share."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.memory import Array
from convgrad.units.conv import Conv, ConvTanh, GDTanhConv, GradientDescentConv
from convgrad.units.pooling import AvgPooling, GDMaxPooling, MaxPooling
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
    with pytest.raises(AttributeError, match="input_offset"):
        GDMaxPooling().link_forward(AvgPooling(kx=2, ky=2))


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
