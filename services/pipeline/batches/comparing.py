"""What one task of a comparison does: a range of a partition against what is stored of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.kafka.read_client import ReadClient
from services.pipeline.batches.log_range import LogRange, chunks_in
from services.pipeline.comparing import StretchComparison
from services.pipeline.stored_segments import StoredSegment

if TYPE_CHECKING:
    from services.pipeline.restore.offset_map import OffsetMap


@dataclass(frozen=True, slots=True)
class CompareWork:
    """Compares ranges in tasks: `tasks.RangeWork`."""

    stored: Mapping[int, Sequence[StoredSegment]]
    """By partition."""
    maps: Mapping[int, OffsetMap] | None = None
    """Of a restored topic, whose offsets are others."""
    alone: bool = True
    """Nobody else should have written into a restored topic."""

    def __call__(
        self, client: ReadClient, wanted: LogRange, attempt: int, patience: float
    ) -> Iterator[str]:
        """`Differences` of one range, as JSON, which every attempt finds alike."""
        del attempt
        number = wanted.partition.partition
        offsets = self.maps.get(number) if self.maps else None
        comparison = StretchComparison(
            number, self.stored.get(number, ()), offsets, alone=self.alone
        )
        with closing(chunks_in(client, wanted, patience)) as chunks:
            for chunk in chunks:
                comparison.take(chunk)
        yield comparison.found.to_json()
