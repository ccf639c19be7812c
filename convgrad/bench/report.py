"""Rows of measurements: as lines of a table, as JSON, and their geometric means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any

from convgrad.bench.calls import LAYOUTS
from convgrad.bench.layers import ELEVEN, Layer
from convgrad.bench.timing import LEAST_GAIN, Spread, is_void

Gains = tuple[float | None, float | None]  # of two threads, before a layer and after it


def head(*, against_torch: bool) -> str:
    """The line above the rows."""
    rest = f" {'(spread)':<17}{'GF/s':>6}"
    ours = f"{'layer':<12}{'operation':<10}{'ms':>8}{rest}{'columns':>11} |"
    torch = f"{'torch ms':>9}{rest} {'layout':<6}{'ratio':>6}{'paired':>7} |"
    return ours + (torch if against_torch else "") + f"{'gain':>5}"


@dataclass(frozen=True)
class Row:
    """One operation of one layer: seconds by who was timed, and the two-thread gains before and after."""

    layer: Layer
    operation: str
    samples: dict[str, list[float]]
    gains: Gains

    @property
    def void(self) -> bool:
        """Whether the machine was not fit to be measured on."""
        return is_void(self.gains)

    @property
    def layout(self) -> str | None:
        """PyTorch's better layout; None without PyTorch."""
        timed = [layout for layout in LAYOUTS if layout in self.samples]
        return min(timed, key=lambda layout: median(self.samples[layout]), default=None)

    @property
    def ratio(self) -> float | None:
        """Our median over PyTorch's: below 1 we are faster."""
        if self.layout is None:
            return None
        return median(self.samples["convgrad"]) / median(self.samples[self.layout])

    @property
    def paired_ratio(self) -> float | None:
        """Median of the ratios of neighbours in time, which a slow drift of the machine does not touch."""
        if self.layout is None:
            return None
        pairs = zip(self.samples["convgrad"], self.samples[self.layout], strict=True)
        return median(ours / theirs for ours, theirs in pairs)

    def rate(self, who: str) -> float:
        """GFLOP/s at the median."""
        return self.layer.flops(self.operation) / median(self.samples[who]) / 1e9

    def as_json(self) -> dict[str, Any]:
        """Milliseconds and rates by who was timed, the ratios, and the layer's sizes."""
        return {
            "layer": self.layer.name,
            "operation": self.operation,
            "batch": self.layer.batch,
            "column_bytes": self.layer.column_bytes,
            "flops": self.layer.flops(self.operation),
            "timed": {who: self._timed(who) for who in self.samples},
            "layout": self.layout,
            "ratio": self.ratio,
            "paired_ratio": self.paired_ratio,
            "two_thread_gain": self.gains,
            "void": self.void,
        }

    def _timed(self, who: str) -> dict[str, float]:
        spread = Spread.of([second * 1e3 for second in self.samples[who]])
        return {**{f"{name}_ms": value for name, value in spread._asdict().items()}, "gflops": self.rate(who)}

    def as_line(self) -> str:
        """The row under `head`."""
        mebibytes = f"{self.layer.column_bytes / 2**20:.1f} MiB"
        line = f"{self.layer.name:<12}{self.operation:<10}{self._cells('convgrad')}{mebibytes:>11} |"
        if self.layout is not None:
            ratios = f"{self.layout:<6}{self.ratio:>6.2f}{self.paired_ratio:>7.2f}"
            line += f" {self._cells(self.layout)} {ratios} |"
        gain = min((gain for gain in self.gains if gain is not None), default=None)
        return line + ("" if gain is None else f"{gain:>5.2f}") + (" void" if self.void else "")

    def _cells(self, who: str) -> str:
        middle, least, greatest = (second * 1e3 for second in Spread.of(self.samples[who]))
        return f"{middle:>8.2f} {f'({least:.2f}-{greatest:.2f})':<17}{self.rate(who):>6.0f}"


def means(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """By operation: geometric means and the greatest of the ratios, over the eleven without void rows."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.layer in ELEVEN and row.ratio is not None and not row.void:
            found.setdefault(row.operation, []).append(row)
    return {operation: _mean(those) for operation, those in found.items()}


def _mean(rows: Sequence[Row]) -> dict[str, float]:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return {
        "layers": len(rows),
        "ratio": geometric_mean(ratios),
        "paired_ratio": geometric_mean(row.paired_ratio for row in rows if row.paired_ratio is not None),
        "greatest_ratio": max(ratios),
    }


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """The lines under the table."""
    for operation, mean in means(rows).items():
        yield (
            f"{operation}: {mean['ratio']:.2f} times PyTorch's time (paired {mean['paired_ratio']:.2f}, "
            f"greatest {mean['greatest_ratio']:.2f}), geometric mean over {mean['layers']} of the eleven"
        )
    if void := sum(row.void for row in rows):
        yield (
            f"{void} of {len(rows)} rows are void and left out of the means: two threads gained less than "
            f"{LEAST_GAIN}; run again on a quiet machine"
        )
