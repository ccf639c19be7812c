"""Sums of leaves as a tree that can be cut: nodes of neighbouring ranges are merged later, to the same bits.

A list becomes one value by halving: `v[i] = v[2i] + v[2i + 1]`, an odd last element passes through, until
one is left. A *node* is a whole subtree, its index counted over the whole list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]


class Node(NamedTuple):
    """The sum over leaves place * 2**level and on, 2**level of them."""

    level: int
    place: int
    value: Singles


class Nodes:
    """The nodes of a range of leaves, as few as there can be: at most two of each level.

    first: number of the first leaf in the whole list.
    """

    def __init__(self, first: int = 0, nodes: Iterable[Node] = ()) -> None:
        self._next = first
        self._nodes: list[Node] = []
        for node in nodes:
            self._add(node)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def push(self, value: Singles) -> None:
        """Add the next leaf; `value` is kept, not copied."""
        self._add(Node(0, self._next, value))

    def merge(self, following: Iterable[Node]) -> None:
        """Add the nodes of the range that follows; ValueError where leaves are missing or there twice."""
        for node in following:
            if node.place << node.level != self._next:
                raise ValueError(f"leaf {self._next} must come next, got {node.place << node.level}")
            self._add(node)

    def _add(self, node: Node) -> None:
        self._next = (node.place + 1) << node.level
        while self._nodes and self._nodes[-1].level == node.level and node.place == self._nodes[-1].place + 1:
            if node.place % 2 == 0:
                break  # not siblings
            left = self._nodes.pop()
            node = Node(node.level + 1, node.place // 2, left.value + node.value)
        self._nodes.append(node)

    def total(self, zero: Singles) -> Singles:
        """The sum, for the nodes of a whole list; `zero` for an empty one."""
        total = None
        for node in reversed(self._nodes):
            total = node.value if total is None else node.value + total
        return zero if total is None else total
