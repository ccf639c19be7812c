import numpy as np
import pytest

from convgrad.training import nets
from convgrad.training.loader import ArrayLoader
from convgrad.training.workflow import StandardWorkflow


def built(net, shape):
    """The units of a net for images of this shape, and what it makes of one."""
    data = np.ones((2, *shape), np.float32)
    made = StandardWorkflow(net.layers, ArrayLoader((data, np.array([0, 1]))), lr_policy=net.lr_policy)
    made.initialize("numpy")
    return made


def sizes(made):
    return [(type(unit).__name__, unit.output.shape[1:]) for unit in made.forwards]


def test_digits_has_the_layers_of_its_description():
    net = nets.digits()
    made = built(net, (8, 8, 1))
    assert sizes(made) == [
        ("ConvStrictRELU", (8, 8, 16)),
        ("MaxPooling", (4, 4, 16)),
        ("ConvStrictRELU", (4, 4, 32)),
        ("MaxPooling", (2, 2, 32)),
        ("All2AllSoftmax", (10,)),
    ]
    assert (net.minibatch_size, net.epochs) == (50, 30)
    assert {(gd.learning_rate, gd.gradient_moment) for gd in made.gds if hasattr(gd, "weights")} == {
        (0.02, 0.9)
    }


def test_mnist_is_the_net_of_caffe():
    net = nets.mnist()
    made = built(net, (28, 28, 1))
    assert sizes(made) == [
        ("Conv", (24, 24, 20)),
        ("MaxPooling", (12, 12, 20)),
        ("Conv", (8, 8, 50)),
        ("MaxPooling", (4, 4, 50)),
        ("All2AllStrictRELU", (500,)),
        ("All2AllSoftmax", (10,)),
    ]
    assert (net.minibatch_size, net.epochs) == (64, 5)
    names = ("learning_rate", "learning_rate_bias", "gradient_moment", "weights_decay", "weights_decay_bias")
    numbers = {tuple(getattr(gd, name) for name in names) for gd in made.gds if hasattr(gd, "weights")}
    assert numbers == {(0.01, 0.02, 0.9, 5e-4, 0)}
    assert net.lr_policy == {"type": "inv", "gamma": 1e-4, "pow_ratio": 0.75}


@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ((8, 8, 1), (2, 2, 32)),
        ((28, 35, 3), (2, 3, 64)),
        ((5, 40, 1), (2, 10, 32)),
        ((64, 64, 3), (2, 2, 64)),
        ((3, 3, 1), (2, 2, 16)),
    ],
)
def test_images_are_halved_to_a_side_of_two(shape, last):
    made = built(nets.images(shape, 4), shape)
    assert made.forwards[-2].output.shape[1:] == last
    assert made.forwards[-1].output.shape[1:] == (4,)


def test_tiny_images_go_straight_to_softmax():
    assert [layer["type"] for layer in nets.images((2, 9, 1), 4).layers] == ["softmax"]


@pytest.mark.parametrize(
    ("net", "shape", "variance"),
    [(nets.mnist(), (28, 28, 1), nets.XAVIER), (nets.images((28, 35, 3), 4), (28, 35, 3), nets.RELU)],
)
def test_weights_begin_by_their_number_of_inputs(net, shape, variance):
    """The net's description counts the inputs of each layer by itself; the units know."""
    for unit in built(net, shape).forwards:
        if unit.tensors():
            limit = (3 * variance / unit.geometry.taps) ** 0.5
            assert 0.9 * limit < np.abs(unit.weights.mem).max() <= limit
            assert (unit.bias.mem == 0).all()
