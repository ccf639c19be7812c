"""The loops of the check: right sums by the judges, the order by cases whose every sum can be followed."""

from __future__ import annotations

import numpy as np
import pytest

from convgrad.checking.convolution import WITH_INTEGERS
from convgrad.checking.exact import Rounding, floats, fractions
from convgrad.checking.order import Order
from convgrad.geometry import ConvGeometry
from tests.reference import conv as judge

BIG = 2.0**24  # the next number is BIG + 2: a single 1 that is added gets lost


def order(geometry):
    return Order(geometry, Rounding(np.float32))


def exact(*arrays):
    return [fractions(np.asarray(array, np.float32)) for array in arrays]


GEOMETRIES = list(dict.fromkeys(layer.geometry for layer in WITH_INTEGERS))


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=range(len(GEOMETRIES)))
def test_sums_of_integers_are_those_of_the_judges(rng, geometry):
    window = {name: getattr(geometry, name) for name in ("padding", "sliding", "dilation", "groups")}
    shapes = (2, *geometry.input_shape), geometry.weights_shape, (2, *geometry.output_shape)
    x, w, d = (rng.integers(-3, 4, shape) for shape in shapes)
    mine, kernel = order(geometry), (geometry.kx, geometry.ky)
    ex, ew, ed = exact(x, w, d)
    assert (floats(mine.forward(ex, ew), float) == judge.conv_forward(x, w, **window)).all()
    size = geometry.height, geometry.width
    assert (floats(mine.err_input(ed, ew), float) == judge.conv_input_gradient(d, w, size, **window)).all()
    assert (floats(mine.weights(ex, ed), float) == judge.conv_weight_gradient(x, d, kernel, **window)).all()
    assert (floats(mine.bias(ed), float) == judge.bias_gradient(d)).all()


def row(terms, channels):
    """One image whose only row holds these terms, channels within columns."""
    return np.reshape(terms, (1, 1, -1, channels))


def test_segments_hold_several_taps():
    """130 taps of 2 channels: 128 of them make a segment, the last 2 another."""
    terms = [BIG, *[1] * 259]
    x, w = exact(row(terms, 2), np.ones((1, 1, 130, 2)))
    assert order(ConvGeometry(1, 130, 2, 1, 130, 1)).forward(x, w).item() == BIG + 4


def test_segments_begin_anew_at_each_tap():
    """2 taps of 384 channels: segments of 256, 128, 256 and 128 terms."""
    terms = np.zeros(768)
    terms[[0, 256, 383, 384, 639]] = BIG, 1, 1, 1, 1
    x, w = exact(row(terms, 384), np.ones((1, 1, 2, 384)))
    assert order(ConvGeometry(1, 2, 384, 1, 2, 1)).forward(x, w).item() == BIG + 4
    terms[[256, 383, 384, 639]] = 1, 0, 0, 1  # two segments with a 1 each: both get lost
    x, w = exact(row(terms, 384), np.ones((1, 1, 2, 384)))
    assert order(ConvGeometry(1, 2, 384, 1, 2, 1)).forward(x, w).item() == BIG


def test_err_input_begins_with_the_last_tap():
    """A cell that 3 taps of 1 kernel reach, outputs ascending: BIG + 1 + 1 or 1 + 1 + BIG."""
    geometry = ConvGeometry(1, 5, 1, 1, 3, 1)
    w, first, last = exact(np.ones((1, 1, 3, 1)), row([BIG, 1, 1], 1), row([1, 1, BIG], 1))
    assert order(geometry).err_input(first, w)[0, 0, 2, 0] == BIG
    assert order(geometry).err_input(last, w)[0, 0, 2, 0] == BIG + 2


def test_taps_outside_keep_their_place_in_the_segments():
    """The first cell sees tap 128 on: in the second segment, so nothing of it is with the first."""
    geometry = ConvGeometry(1, 132, 2, 1, 130, 1, (127, 0, 0, 0))
    x, w = exact(row([BIG, *[1] * 263], 2), np.ones((1, 1, 130, 2)))
    assert order(geometry).forward(x, w)[0, 0, 0, 0] == BIG + 4


def gradient(images, rows, columns, places):
    """What ones at `places` (image, row, column) add to BIG at the start, for a bias and for a 1x1 kernel."""
    d = np.zeros((images, rows, columns, 1))
    for place in places:
        d[place] = 1
    d[0, 0, 0, 0] = BIG
    x, d = exact(np.ones_like(d), d)
    mine = order(ConvGeometry(rows, columns, 1, 1, 1, 1))
    assert mine.weights(x, d).item() == mine.bias(d).item()
    return mine.bias(d).item() - int(BIG)


def test_a_leaf_holds_up_to_16_images():
    assert gradient(20, 1, 1, [(n, 0, 0) for n in range(1, 16)]) == 0  # one by one, lost
    assert gradient(20, 1, 1, [(n, 0, 0) for n in range(16, 20)]) == 4  # in a leaf of their own


def test_a_leaf_holds_at_most_256_positions():
    assert gradient(9, 5, 7, [(n, 0, 0) for n in (1, 2, 3)]) == 0  # 4 images of 35
    assert gradient(9, 5, 7, [(n, 0, 0) for n in (4, 5, 6, 7)]) == 4
    assert gradient(9, 5, 7, [(4, 0, 0), (8, 0, 0)]) == 0  # each alone when it meets the sum
    assert gradient(13, 5, 7, [(8, 0, 0), (12, 0, 0)]) == 2  # (0 + 1) + (2 + 3)


def test_large_images_are_cut_into_bands():
    assert gradient(2, 40, 10, [(0, 24, 9), (0, 1, 0)]) == 0  # rows 0 to 24
    assert gradient(2, 40, 10, [(0, 25, 0), (0, 39, 9)]) == 2  # rows 25 to 39
    assert gradient(2, 40, 10, [(0, 25, 0), (1, 0, 0)]) == 0  # bands of an image come first
    assert gradient(2, 40, 10, [(1, 0, 0), (1, 39, 0)]) == 2
