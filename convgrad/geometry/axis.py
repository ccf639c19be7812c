"""One direction of a sliding window: the arithmetic that all layer kinds share.

The cell that tap `t` of output `o` reads is `o * stride - before + t * dilation`; cells outside the
image are padding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from convgrad.errors import BadFormatError


@dataclass(frozen=True, slots=True)
class Axis:
    """Window positions along x or y; all sizes are in cells.

    `ceil` adds one window when the last step is not filled, unless that window would start beyond the
    image and the padding before it.
    """

    name: str
    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    ceil: bool = False
    output: int = field(init=False, compare=False)  # number of windows

    def __post_init__(self) -> None:
        if self.extent > self.padded:
            raise BadFormatError(
                f"kernel must fit into the padded image: along {self.name} it spans {self.extent} cells "
                f"(kernel {self.kernel}, dilation {self.dilation}), the padded image has {self.padded}"
            )
        # A longer step than the padded image gives the same single window; it need not fit into 64 bits.
        object.__setattr__(self, "stride", min(self.stride, self.padded))
        object.__setattr__(self, "output", self._windows())

    def _windows(self) -> int:
        steps, rest = divmod(self.padded - self.extent, self.stride)
        one_more = self.ceil and rest and (steps + 1) * self.stride < self.before + self.size
        return steps + (2 if one_more else 1)

    @property
    def extent(self) -> int:
        """Cells from the first to the last tap."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """Cells of the image with its padding."""
        return self.before + self.size + self.after

    @property
    def adjoint(self) -> Axis:
        """The windows of cells that lead back from the outputs, for a stride of 1: taps in reverse order.

        Its paddings are negative where this axis pads by more than its kernel spans.
        """
        margins = self.extent - 1 - self.before, self.extent - 1 - self.after
        return Axis(self.name, self.output, self.kernel, 1, self.dilation, *margins)

    def reach(self, tap: int, outputs: range | None = None) -> tuple[range, range]:
        """The outputs (all, or those of `outputs`) whose `tap` lies inside the image, and the cells it reads.

        Both ranges have the same length; the second steps by the stride.
        """
        outputs = range(self.output) if outputs is None else outputs
        shift = tap * self.dilation - self.before
        first = max(outputs.start, -(shift // self.stride))
        last = min(outputs.stop, (self.size - 1 - shift) // self.stride + 1)
        count = max(0, last - first)
        cell = first * self.stride + shift
        return range(first, first + count), range(cell, cell + count * self.stride, self.stride)

    @property
    def covered(self) -> bool:
        """Whether every window has a tap inside the image.

        Windows get later one by one, so the first shows whether all reach the image and the last whether
        all start before its end. One that starts before the image has its first tap past the image's edge at
        `start % dilation`; where the taps lie further apart than the image is large, it may step over it.
        """
        starts = range(-self.before, (self.output - 1) * self.stride - self.before + 1, self.stride)
        if starts[0] + self.extent <= 0 or starts[-1] >= self.size:
            return False
        early = starts[: -(starts[0] // self.stride)]
        return self.dilation <= self.size or all(start % self.dilation < self.size for start in early)
