"""Copies stretches of one topic through Spark's Kafka connector, row by row.

For what record batches are not read for: logs in older message formats, and brokers that serve no
others. Where a timestamp is out of Spark's range, that partition is copied without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from services.model import TopicPartition, known
from services.pipeline.committed_log import CommittedLog
from services.pipeline.continuing import Stretch
from services.pipeline.exact import copy_exactly
from services.pipeline.part_writer import PART, PartTarget, write_parts
from services.pipeline.reading import Ranges, TimestampTooWide, TopicReader
from services.pipeline.running import Run
from services.pipeline.source import PartitionSource
from services.topic_backup.part import Part

WIDEST_MS = (2**63 - 1) // 1000
"""Spark holds microseconds in 64 bits."""

Watching = Callable[[PartTarget, Ranges], AbstractContextManager[None]]
"""Entered for a job of some ranges that writes to a target: tells how far it is."""


@dataclass(slots=True)
class RowCopy:
    """Writes parts of one topic."""

    run: Run
    topic: str
    target: Callable[[int], PartTarget]
    """Where the parts of one more job go, of so many tasks at a time."""
    watching: Watching
    exact: set[TopicPartition] = field(default_factory=set, init=False)
    """Partitions of which something was read without Spark."""
    _reader: TopicReader | None = field(default=None, init=False)

    def parts(self, job: Sequence[Stretch]) -> list[Part]:
        """The parts of *job*, whose stretches have offsets.

        Raises:
            DataLost: retention was faster.
            StorageError: nothing more can be written.
            PipelineError, ClusterError, Unreachable: the topic cannot be read.
        """
        wide = [one for one in job if _too_wide(one.source)]
        plain = {one.number: one for one in job if one not in wide}
        parts = self._by_spark(plain) if plain else []
        for one in wide:
            parts += self._exactly(one)
        return parts

    def _by_spark(self, stretches: Mapping[int, Stretch]) -> list[Part]:
        try:
            return self._job(stretches)
        except TimestampTooWide as error:
            wide = stretches.get(-1 if error.partition is None else error.partition)
            if wide is None and len(stretches) == 1:
                wide = next(iter(stretches.values()))
        if wide is None:
            groups = [{number: one} for number, one in stretches.items()]
            return [part for group in groups for part in self._by_spark(group)]
        others = {number: one for number, one in stretches.items() if one is not wide}
        return [*self._exactly(wide), *(self._by_spark(others) if others else [])]

    def _job(self, stretches: Mapping[int, Stretch]) -> list[Part]:
        ranges = {number: (one.start, one.end) for number, one in stretches.items()}
        if self._reader is None:
            self._reader = TopicReader(
                self.run.session(),
                self.run.jvm_connection(),
                self.topic,
                share=1 / (self.run.side_by_side or 1),
                in_sips=self.run.settings.bytes_per_second is not None,
            )
        reader = self._reader
        target = self.target(reader.side_by_side(ranges))
        work = partial(write_parts, target=target)
        with self.watching(target, ranges):
            answers = reader.run(ranges, work, PART)
        parts = map(Part.from_json, answers)
        return sorted(parts, key=lambda part: (part.partition, part.first_offset))

    def _exactly(self, one: Stretch) -> list[Part]:
        self.exact.add(one.source.partition)
        log = CommittedLog(self.run.client.sender, one.source.leader, one.source.partition)
        return copy_exactly(log, one.start, one.end, self.target(1))


def _too_wide(source: PartitionSource) -> bool:
    return known(source.newest_ms) and (source.newest_ms or 0) > WIDEST_MS
