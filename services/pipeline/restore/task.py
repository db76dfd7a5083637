"""One partition that is to be restored, as a task of Spark is given it, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from services.errors import PipelineError
from services.pipeline.segment_files import RecordRun
from services.pipeline.stored_segments import StoredSegment, runs_between


class Hopeless(PipelineError):
    """The records cannot be restored, however often it is tried."""


class ForeignRecords(Hopeless):
    """Somebody else has written into a topic that is to be the restore's alone."""


Spans = Sequence[tuple[int, int]]
"""Stored offsets ``[start, end)``, rising."""


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """One partition that is to be restored."""

    topic: str
    """The target."""
    partition: int
    spans: Spans
    segments: Sequence[StoredSegment]
    restore_id: str
    log: str
    """File that each transaction is announced in."""
    records_a_transaction: int
    transactional: bool = True
    alone: bool = True
    """Nobody else writes into the target: a restored record that is not next to the one before it
    is an error."""

    @property
    def group(self) -> str:
        """Whose offsets say how far the restore is."""
        return f"breakglass-restore-{self.restore_id}"

    @property
    def transactional_id(self) -> str:
        return f"{self.group}-{self.topic}-{self.partition}"

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"{self.topic}-{self.partition}"

    @property
    def log_path(self) -> Path:
        return Path(self.log)

    def runs(self, start: int) -> Iterator[RecordRun]:
        """The records that are to be restored, from the stored offset *start* on."""
        return runs_within(self.segments, self.spans, start)


def runs_within(
    segments: Sequence[StoredSegment], spans: Spans, start: int = 0
) -> Iterator[RecordRun]:
    """The stored records of *spans* from offset *start* on."""
    for begin, end in spans:
        if end > start:
            yield from runs_between(segments, max(begin, start), end)


@dataclass(slots=True)
class PartitionRestored:
    """What became of it."""

    partition: int
    records: int = 0
    """Produced by this attempt."""
    bytes: int = 0
    error: str = ""
    """Why it cannot go on, where trying again is of no use."""
    foreign: bool = False
    """The error is that somebody else has written into the topic."""

    def to_json(self) -> str:
        """As it comes back from a task."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` made."""
        return cls(**json.loads(text))
