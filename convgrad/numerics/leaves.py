"""How sums over images and positions are cut into leaves, see docs/numerics.md."""

from __future__ import annotations

from dataclasses import dataclass

POSITIONS = 256  # of a leaf, at most, unless one row has more


@dataclass(frozen=True)
class Leaves:
    """The leaves of a sum over `images` of `rows` x `columns` positions.

    A unit is one image, cut into bands of rows, or several whole images that make one leaf.
    """

    images: int
    rows: int
    columns: int

    @property
    def leaf_images(self) -> int:
        """Images of a leaf."""
        size = self.rows * self.columns
        return max((n for n in (1, 2, 4, 8, 16) if n * size <= POSITIONS), default=1)

    @property
    def leaf_rows(self) -> int:
        """Rows of a leaf."""
        if self.rows * self.columns <= POSITIONS:
            return self.rows
        return max(1, POSITIONS // self.columns)

    @property
    def units(self) -> int:
        """Units of all images."""
        return -(-self.images // self.leaf_images)

    @property
    def bands(self) -> int:
        """Bands of a unit."""
        return -(-self.rows // self.leaf_rows) if self.rows else 0

    def rows_of(self, band: int) -> range:
        """The rows of a band."""
        return range(band * self.leaf_rows, min(self.rows, (band + 1) * self.leaf_rows))
