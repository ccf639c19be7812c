"""How a batch is cut: images or bands of rows per block, workers, within a budget of bytes.

A block is what is unpacked and multiplied at once. Blocks that stay in a core's cache are faster than
large ones, so the budget is an upper bound, not an aim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

CACHE_BYTES = 6 << 20  # of a block: see docs/decisions/0005-fast-numpy-convolution.md
LEAST_WORK = 1 << 22  # multiply-adds below which starting a second worker costs more than it saves


@dataclass(frozen=True, slots=True)
class Blocks:
    """`images` whole images per block, or `rows` output rows of one image where that is less than all."""

    batch: int
    images: int
    all_rows: int
    rows: int
    workers: int

    def of_worker(self, worker: int) -> Iterator[tuple[slice, range]]:
        """The blocks of a worker in order: images, and the band of output rows."""
        first, last = self.batch * worker // self.workers, self.batch * (worker + 1) // self.workers
        for start in range(first, last, self.images):
            images = slice(start, min(start + self.images, last))
            for row in range(0, self.all_rows, self.rows):
                yield images, range(row, min(row + self.rows, self.all_rows))


def plan_blocks(
    block_bytes: Callable[[int, int], int],
    worker_bytes: int,
    *,
    batch: int,
    rows: int,
    work: int,
    budget: int,
    threads: int,
    unpack_size: int | None = None,
) -> Blocks:
    """Cut `batch` images of `rows` output rows.

    `block_bytes(images, rows)` is the scratch of one block, `worker_bytes` what each worker needs besides;
    `work` counts the multiply-adds of the whole call. Every worker's scratch together stays within
    `budget`, down to one row of one image.
    """
    workers = max(1, min(threads, batch)) if work >= LEAST_WORK else 1
    least = block_bytes(1, 1) + worker_bytes
    while workers > 1 and workers * least > budget:
        workers -= 1
    room = budget // workers - worker_bytes
    images, band = _block(block_bytes, rows, min(room, max(CACHE_BYTES, block_bytes(1, rows))))
    share = -(-batch // workers)
    if unpack_size is not None:
        images = min(images, unpack_size)
    return Blocks(batch, max(1, min(images, share)), rows, max(1, band), workers)


def _block(block_bytes: Callable[[int, int], int], rows: int, room: int) -> tuple[int, int]:
    """As many images, or rows of one image, as fit into `room`; at least one row."""
    images = room // max(1, block_bytes(1, rows))
    if images > 0:
        return images, rows
    fitting = rows
    while fitting > 1 and block_bytes(1, fitting) > room:
        fitting = max(1, min(fitting - 1, fitting * room // block_bytes(1, fitting)))
    return 1, fitting
