"""The order of fixed numerics as results show it, and that the probe sees an order that is another one."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad import backends
from convgrad.backends import verdict
from convgrad.backends.device import conv_plans, correlation, programs
from convgrad.backends.device.backend import DeviceBackend
from convgrad.backends.verdict import Verdict
from convgrad.kernel_source import kernel_text
from convgrad.numerics import chains
from convgrad.numerics import leaves as cut
from convgrad.numerics.tree import Node, Nodes
from tests import order_probe
from tests.order_probe import Window, differences, meeting, pairs_of, pairwise, probes, ways
from tests.test_fixed_bits import fixed

WINDOWS = (
    Window(384),  # 256 and 128 terms
    Window(600, (2, 1)),  # segments begin anew with each tap
    Window(256, (1, 3)),
    Window(255, (2, 1)),  # one tap a segment
    Window(100, (3, 2)),  # two taps
    Window(3, (11, 9)),  # 85 taps, 255 terms
    Window(1, (20, 17)),
    Window(2, (13, 12), others=70),
    Window(50, (5, 3), outside=(2, 1)),  # taps outside keep their place
    Window(7, (9, 8), outside=(1, 5)),
)
BATCHES = ((40, 1, 1), (33, 4, 4), (21, 5, 7), (5, 15, 17), (5, 16, 16), (3, 20, 27), (2, 3, 300), (1, 90, 6))


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    """Devices pass their check without it."""
    monkeypatch.setattr(verdict, "on", lambda _: Verdict({"device": ""}))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_segments_of_a_forward_pass(backend, window):
    assert order_probe.forward(fixed(backend), window) == []


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_segments_of_an_input_gradient(backend, window):
    assert order_probe.input_gradient(fixed(backend), window) == []


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_leaves_and_trees_of_weights_and_bias(backend, batch):
    assert order_probe.over_images(fixed(backend), *batch) == []


# --- what the probe sees


def nodes(tree):
    """For each pair of terms how many are below the node where they meet."""
    paths = sorted(ways(tree))
    return [meeting(one, two) for number, (_, one) in enumerate(paths) for _, two in paths[:number]]


def test_nodes_and_trees():
    assert nodes([[0, 1], 2, [3, 4]]) == [2, 3, 3, 5, 5, 5, 5, 5, 5, 2]
    assert pairwise([0, 1, 2, 3, 4, 5, 6]) == [[[0, 1], [2, 3]], [[4, 5], 6]]


def summed(values, tree):
    """Columns of `values` as a tree."""
    if not isinstance(tree, list):
        return values[:, tree]
    total = np.zeros(len(values), np.float32)
    for part in tree:
        total += summed(values, part)
    return total


TREES = (
    [*range(9)],
    [*range(4), [4, 5, 6], [7, 8]],
    [[0, 1, 2, 3], [4, 5, 6, 7], [8]],
    pairwise([*range(9)]),
    pairwise([[0, 1], [2, 3, 4], [5], [6, 7, 8]]),
    [[0, 1], [[2, 3, 4], [5, [6, 7, 8]]]],
)


def test_the_probe_tells_trees_from_each_other():
    pairs = pairs_of(9)
    for mine in TREES:
        sums = summed(probes(pairs, 9), mine)[:, None]
        for other in TREES:
            assert (differences(sums, pairs, other) == []) is (nodes(mine) == nodes(other))
    assert len({tuple(nodes(tree)) for tree in TREES}) == len(TREES)


def orders(place):
    """What each of three probes finds."""
    return {
        "forward": order_probe.forward(place, Window(300, (2, 1))),
        "taps": order_probe.input_gradient(place, Window(50, (5, 3))),
        "leaf": order_probe.over_images(place, 3, 20, 10),
        "tree": order_probe.over_images(place, 5, 16, 16),
    }


def seen(place):
    """Those of the probes that find another order than the contract's."""
    return [name for name, found in orders(place).items() if found]


@pytest.fixture
def anew():
    """Plans are made with what is altered, and again with what is not."""
    plans = conv_plans.forward_plan, conv_plans.backward_plan
    for plan in plans:
        plan.cache_clear()
    yield
    for plan in plans:
        plan.cache_clear()


def fold_nodes(nodes, node):
    """In place of Nodes._add: one after another instead of a tree."""
    total = nodes._nodes.pop().value + node.value if nodes._nodes else node.value
    nodes._nodes.append(Node(0, node.place, total))
    nodes._next = node.place + 1


ALTERED = {
    "segments of 128": ((chains, "SEGMENT", 128), ["forward", "taps"]),
    "leaves of 128": ((cut, "POSITIONS", 128), ["leaf", "tree"]),
    "one after another": ((Nodes, "_add", fold_nodes), ["tree"]),
}


@pytest.mark.parametrize(("change", "found"), ALTERED.values(), ids=ALTERED)
def test_it_sees_an_altered_order_of_numpy(monkeypatch, change, found):
    place = fixed(backends.get("numpy"))
    assert seen(place) == []
    monkeypatch.setattr(*change)
    assert seen(place) == found


HOST = {
    "segments of 128": ((correlation, "SEGMENT", 128), ["forward", "taps"]),
    "leaves of 128": ((cut, "POSITIONS", 128), ["leaf", "tree"]),
}


@pytest.mark.parametrize(("change", "found"), HOST.values(), ids=HOST)
def test_it_sees_an_altered_plan_of_a_device(device_backend, monkeypatch, anew, change, found):
    monkeypatch.setattr(*change)
    assert seen(fixed(device_backend)) == found


TEXTS = {
    "segments of twice the taps": ("+ 1) * segment_taps", "+ 1) * 2 * segment_taps", ["forward", "taps"]),
    "one after another": (
        "for (; count & 1; count >>= 1)",
        "for (int once = count > 0; once; once = 0)",
        ["tree"],
    ),
}


@pytest.mark.parametrize(("old", "new", "found"), TEXTS.values(), ids=TEXTS)
def test_it_sees_an_altered_kernel(device_backend, monkeypatch, old, new, found):
    altered = []

    def text(file):
        original = kernel_text(file)
        altered.append(original.count(old))
        return original.replace(old, new)

    monkeypatch.setattr(programs, "kernel_text", text)
    other = DeviceBackend(device_backend.driver)  # with programs of its own
    assert seen(fixed(other)) == found
    assert sum(altered)
    assert seen(fixed(device_backend)) == []
