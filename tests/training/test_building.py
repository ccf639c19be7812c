import numpy as np
import pytest

from convgrad.errors import BadFormatError
from convgrad.memory import Array
from convgrad.prng import Random
from convgrad.training.building import Net
from convgrad.units.conv import ConvTanh, GDTanhConv
from convgrad.units.dense import All2AllSoftmax, GDSoftmax
from convgrad.units.pairing import standard_pairing

SOFTMAX = {"type": "softmax", "output_sample_shape": 3}
CONV = {"type": "conv_tanh", "n_kernels": 2, "kx": 3, "ky": 2}


class Source:
    def __init__(self):
        self.input, self.targets = Array(np.zeros((4, 5, 4, 2), np.float32)), Array(np.zeros(4, np.int32))
        self.batch_size = 4
        self.random = Random(7)


@pytest.fixture
def source():
    return Source()


def test_layers_become_pairs(source):
    net = Net([CONV, SOFTMAX], "softmax", source)
    assert [type(unit) for unit in net.forwards] == [ConvTanh, All2AllSoftmax]
    assert [type(unit) for unit in net.gds] == [GDTanhConv, GDSoftmax]


def test_types_of_your_own_come_by_a_pairing_of_your_own(source):
    class Mine(ConvTanh):
        MAPPING = frozenset({"mine"})

    class GDMine(GDTanhConv):
        MAPPING = frozenset({"mine"})

    pairing = standard_pairing()
    pairing.register(Mine, GDMine)
    net = Net([CONV | {"type": "mine"}, SOFTMAX], "softmax", source, pairing)
    assert [type(net.forwards[0]), type(net.gds[0])] == [Mine, GDMine]


def test_names_are_those_of_veles(source):
    net = Net([CONV | {"name": "edges"}, CONV, SOFTMAX], "softmax", source)
    assert [u.name for u in net.forwards] == ["edges_forward", "conv_tanh_1_forward", "softmax_2_forward"]
    assert [u.name for u in net.gds] == [
        "gd_edges_backward",
        "gd_conv_tanh_1_backward",
        "gd_softmax_2_backward",
    ]


def test_keys_go_where_they_are_known(source):
    layer = CONV | {
        "learning_rate": 0.3,
        "weights_transposed": True,
        "->": {"kx": 1},
        "<-": {"learning_rate": 0.2},
    }
    net = Net([layer, SOFTMAX], "softmax", source)
    assert (net.forwards[0].kx, net.forwards[0].ky) == (1, 2)
    assert net.forwards[0].weights_transposed
    assert net.gds[0].weights_transposed
    assert net.gds[0].learning_rate == 0.2


def test_arrays_are_shared_along_the_chain(source):
    net = Net([CONV, {"type": "avg_pooling", "kx": 2, "ky": 2}, SOFTMAX], "softmax", source)
    first, second, third = net.forwards
    assert first.input is source.input
    assert (second.input, third.input) == (first.output, second.output)
    assert net.evaluator.output is third.output
    assert net.evaluator.labels is source.targets
    assert net.evaluator.max_idx is third.max_idx
    assert net.gds[2].err_output is net.evaluator.err_output
    assert net.gds[1].err_output is net.gds[2].err_input
    assert net.gds[0].err_output is net.gds[1].err_input
    assert net.gds[0].weights is first.weights
    assert [gd.need_err_input for gd in net.gds] == [False, True, True]


def test_batch_size_and_generator_are_live(source):
    net = Net([CONV, SOFTMAX], "softmax", source)
    source.batch_size, source.random = 3, Random(8)
    assert [unit.batch_size for unit in (*net.forwards, net.evaluator)] == [3, 3, 3]
    assert [gd.forward_batch_size for gd in net.gds] == [3, 3]
    assert [unit.rand for unit in net.forwards] == [source.random] * 2


def test_generator_of_a_layer_is_its_own(source):
    net = Net([CONV | {"rand": 5}, SOFTMAX], "softmax", source)
    assert [unit.rand for unit in net.forwards] == [5, source.random]


def test_layer_dicts_are_not_changed(source):
    layers = [CONV | {"->": {"padding": (1, 1, 1, 1)}, "<-": {"learning_rate": 1}}, dict(SOFTMAX)]
    before = [dict(layer) for layer in layers]
    Net(layers, "softmax", source)
    assert layers == before


@pytest.mark.parametrize(
    ("layers", "loss", "error", "message"),
    [
        ([], "softmax", BadFormatError, "layers must hold one layer at least"),
        (None, "softmax", BadFormatError, "layers must be a list of dicts, got None"),
        ("conv", "softmax", BadFormatError, "layers must be a list of dicts, got 'conv'"),
        (CONV, "softmax", BadFormatError, "layers must be a list of dicts, got {"),
        (["conv"], "softmax", BadFormatError, "layer 0 must be a dict of keywords, got 'conv'"),
        ([{"type": []}], "softmax", BadFormatError, 'layer 0 must have a "type", a string'),
        ([CONV | {5: 1}], "softmax", BadFormatError, "layer 0 must be a dict of keywords"),
        (
            [CONV | {"->": 5}, SOFTMAX],
            "softmax",
            BadFormatError,
            "'->' of layer 'conv_tanh_0' must be a dict",
        ),
        ([CONV | {"name": 5}], "softmax", BadFormatError, "the name of layer 0 must be a string, got 5"),
        ([{"kx": 1}], "softmax", BadFormatError, 'layer 0 must have a "type"'),
        ([CONV, {"type": "conv_tan"}], "softmax", BadFormatError, "got 'conv_tan'"),
        (
            [CONV | {"paddin": 1}, SOFTMAX],
            "softmax",
            TypeError,
            "conv_tanh_0.*'paddin'.*nearest is 'padding'",
        ),
        (
            [CONV | {"->": {"learning_rate": 1}}, SOFTMAX],
            "softmax",
            TypeError,
            "ConvTanh.*'learning_rate'.*belongs in '<-'",
        ),
        (
            [{"type": "conv", "->": {"n_kernels": 2, "kx": 2, "kyy": 2}}, SOFTMAX],
            "softmax",
            TypeError,
            "no keyword 'kyy'; the nearest is 'ky'",
        ),
        ([CONV | {"<-": {"bias_filing": 1}}, SOFTMAX], "softmax", TypeError, "GDTanhConv.*'bias_filing'"),
        ([{"type": "conv", "ky": 2}, SOFTMAX], "softmax", TypeError, "'conv_0' must have n_kernels and kx, "),
        ([CONV, {"type": "avg_pooling"}], "mse", TypeError, "layer 'avg_pooling_1' must have kx and ky"),
        ([CONV | {"name": "a"}, SOFTMAX | {"name": "a"}], "softmax", BadFormatError, "'a' is there 2 times"),
        ([CONV], "softmax", BadFormatError, "needs a last layer of type"),
        ([SOFTMAX], "hinge", BadFormatError, "loss must be .* got 'hinge'"),
    ],
)
def test_what_cannot_be_built_is_named(source, layers, loss, error, message):
    with pytest.raises(error, match=message):
        Net(layers, loss, source)
