"""Types in layer dicts, and which units belong together."""

from __future__ import annotations

import pytest

import convgrad
from convgrad.errors import BadFormatError
from convgrad.units import conv, dense, pooling
from convgrad.units.pairing import Pairing, standard_pairing

VELES = {
    "conv": (conv.Conv, conv.GradientDescentConv),
    "conv_tanh": (conv.ConvTanh, conv.GDTanhConv),
    "conv_sigmoid": (conv.ConvSigmoid, conv.GDSigmoidConv),
    "conv_relu": (conv.ConvRELU, conv.GDRELUConv),
    "conv_str": (conv.ConvStrictRELU, conv.GDStrictRELUConv),
    "all2all": (dense.All2All, dense.GradientDescent),
    "all2all_tanh": (dense.All2AllTanh, dense.GDTanh),
    "all2all_sigmoid": (dense.All2AllSigmoid, dense.GDSigmoid),
    "all2all_relu": (dense.All2AllRELU, dense.GDRELU),
    "all2all_str": (dense.All2AllStrictRELU, dense.GDStrictRELU),
    "softmax": (dense.All2AllSoftmax, dense.GDSoftmax),
    "max_pooling": (pooling.MaxPooling, pooling.GDMaxPooling),
    "maxabs_pooling": (pooling.MaxAbsPooling, pooling.GDMaxAbsPooling),
    "avg_pooling": (pooling.AvgPooling, pooling.GDAvgPooling),
}


class ConvCube(conv.Conv):
    MAPPING = frozenset({"conv_cube", "conv_3"})


class GDCubeConv(conv.GradientDescentConv):
    MAPPING = frozenset({"conv_cube", "conv_3"})


def test_all_types():
    pairing = standard_pairing()
    assert set(pairing.types) == set(VELES)
    for string, (forward, backward) in VELES.items():
        assert pairing.forward_class(string) is forward
        assert pairing.backward_class(forward) is backward
        assert backward.MAPPING == forward.MAPPING == {string}


def test_all_units_are_public():
    names = {unit.__name__ for pair in VELES.values() for unit in pair}
    assert names <= set(convgrad.__all__)
    for name in names:
        assert getattr(convgrad, name).__name__ == name


def test_own_units():
    pairing = standard_pairing()
    pairing.register(ConvCube, GDCubeConv)
    assert pairing.forward_class("conv_3") is pairing.forward_class("conv_cube") is ConvCube
    assert pairing.backward_class(ConvCube) is GDCubeConv
    assert "conv_cube" not in standard_pairing().types

    class Derived(conv.ConvTanh):
        pass

    assert pairing.backward_class(Derived) is conv.GDTanhConv


def test_two_forwards_of_one_type():
    class Second(conv.Conv):
        MAPPING = frozenset({"conv_new", "conv_3"})

    class GDSecond(conv.GradientDescentConv):
        MAPPING = frozenset({"conv_new", "conv_3"})

    pairing = standard_pairing()
    pairing.register(ConvCube, GDCubeConv)
    with pytest.raises(ValueError, match="type 'conv_3' is taken by ConvCube"):
        pairing.register(Second, GDSecond)
    assert "conv_new" not in pairing.types


def test_unequal_mappings():
    with pytest.raises(ValueError, match="MAPPING of ConvCube and GradientDescentConv must be the same"):
        Pairing().register(ConvCube, conv.GradientDescentConv)


def test_unknown_types():
    pairing = Pairing()
    with pytest.raises(BadFormatError, match="no backward unit is registered for Conv"):
        pairing.backward_class(conv.Conv)
    with pytest.raises(BadFormatError, match=r"type must be one of .*conv_tanh.* got 'conv_tan'"):
        standard_pairing().forward_class("conv_tan")
