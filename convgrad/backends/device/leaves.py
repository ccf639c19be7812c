"""Chunks: leaves (convgrad/numerics/leaves.py) that one launch sums up.

A *chunk* is a power of two of units or, inside of one unit, of bands: a node of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from convgrad.numerics.leaves import Leaves

CHUNK = 2048  # positions of a chunk, about: fewer cost memory, more are less to share between work-groups
LARGEST = 2**10  # leaves of a chunk: kernels hold its nodes in a stack


MOST_AT_ONCE = 2**16 - 1  # chunks of a launch: the limit of CUDA for groups along y


@dataclass(frozen=True)
class Chunks:
    """Leaves in chunks of `units` units or, where that is 1, of `bands` bands."""

    leaves: Leaves
    units: int
    bands: int

    @property
    def parts(self) -> int:
        """Chunks of a unit; 1 where a chunk holds whole units."""
        return -(-self.leaves.bands // self.bands)

    @property
    def groups(self) -> int:
        """Chunks, or units that are cut into parts."""
        return -(-self.leaves.units // self.units)

    @property
    def count(self) -> int:
        """All chunks."""
        return self.groups * self.parts

    @property
    def positions(self) -> int:
        """Positions of a chunk that is full."""
        leaves = self.leaves
        return self.units * self.bands * leaves.leaf_images * leaves.leaf_rows * leaves.columns

    @property
    def images(self) -> int:
        """Images of a chunk, or of the unit that it is a part of."""
        return self.units * self.leaves.leaf_images

    def span(self, first: int, last: int) -> tuple[range, range]:
        """(images, rows) of the chunks from `first` to `last`, which are of one unit or make whole units."""
        leaves, parts = self.leaves, self.parts
        images = range(first // parts * self.images, min(leaves.images, -(-last // parts) * self.images))
        if first // parts != (last - 1) // parts or parts == 1:
            return images, range(leaves.rows)
        height = self.bands * leaves.leaf_rows
        return images, range(first % parts * height, min(leaves.rows, ((last - 1) % parts + 1) * height))

    def blocks(self, limit: int, chunks: range) -> Iterator[tuple[int, int]]:
        """`chunks` in runs of at most `limit`, each inside of one unit or of whole units."""
        parts, limit = self.parts, min(limit, MOST_AT_ONCE)
        step = limit // parts * parts if limit >= parts else limit
        first = chunks.start
        while first < chunks.stop:
            end_of_unit = (first // parts + 1) * parts
            last = min(first + step, chunks.stop) if step >= parts else min(first + step, end_of_unit)
            yield first, last
            first = last


def chunkings(leaves: Leaves) -> Iterator[Chunks]:
    """All chunkings, from single leaves to one chunk for all, or as large as chunks may be."""
    units = bands = 1
    yield Chunks(leaves, units, bands)
    while units * bands < LARGEST and (bands < leaves.bands or units < leaves.units):
        if bands < leaves.bands:
            bands *= 2
        else:
            units *= 2
        yield Chunks(leaves, units, bands)


def chosen(leaves: Leaves, cost: Callable[[Chunks], int], budget: int) -> Chunks:
    """The chunking of about CHUNK positions, or the nearest one to it, whose cost is within the budget.

    Where there is none, the one that costs least. cost: bytes of scratch memory.
    """
    affordable = cheapest = None
    least = 0
    for chunks in chunkings(leaves):
        bytes_here = cost(chunks)
        if cheapest is None or bytes_here < least:
            cheapest, least = chunks, bytes_here
        if bytes_here <= budget:
            affordable = chunks
            if chunks.positions >= CHUNK:
                break
    found = affordable or cheapest
    assert found is not None
    return found
