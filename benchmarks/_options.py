"""What can be set for a benchmark on the command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """None where nothing was said: each benchmark then takes what its target names."""

    partitions: int | None = None
    runs: int | None = None
    records: int | None = None
    """Of 1,000 bytes; of 100 bytes there are ten times as many."""
