"""What `convgrad bench` runs, and what `pytest benchmarks` shares with it: layers, checks, clock."""

from convgrad.bench.command import main

__all__ = ["main"]
