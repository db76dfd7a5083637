"""Copies stretches of one topic into parts: by Spark, and exactly where Spark cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from services.errors import UsageError
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition, known
from services.pipeline.batches.copying import CopyRange, divided
from services.pipeline.batches.tasks import run_tasks
from services.pipeline.committed_log import CommittedLog
from services.pipeline.continuing import Stretch
from services.pipeline.exact import copy_exactly
from services.pipeline.part_writer import PART, PartTarget, write_parts
from services.pipeline.reading import DataLost, Ranges, TimestampTooWide, TopicReader
from services.pipeline.repeating import repeating
from services.pipeline.running import Run
from services.pipeline.session import jvm_errors
from services.pipeline.source import PartitionSource, TopicSource, Wanted, read_sources
from services.topic_backup.assembling import Assembler
from services.topic_backup.part import Part, part_index_of, run_place_of
from services.topic_backup.segment_index import ENTRY
from services.topic_backup.summary import Gap, GapReason

if TYPE_CHECKING:
    from services.session import ReadAccess

WIDEST_MS = (2**63 - 1) // 1000
"""Spark holds microseconds in 64 bits."""
ASK_SECONDS = 60.0
WATCH_SECONDS = 0.5
WATCH_STORE_SECONDS = 5.0
"""Where each look is a request, or many."""
ATTEMPTS = 5
"""How often a range is begun again because retention overtook the reader."""


@dataclass(slots=True)
class RangeCopy:
    """Writes parts for the backup of one topic."""

    run: Run
    topic: str
    topic_id: UUID
    assembler: Assembler
    exact: set[TopicPartition] = field(default_factory=set, init=False)
    """Partitions of which something was read without Spark."""
    _reader: TopicReader | None = field(default=None, init=False)

    def copy(self, job: Sequence[Stretch]) -> tuple[list[Stretch], list[Part]]:
        """The parts of *job*, which may begin later than asked where retention was faster.

        Raises:
            StorageError: nothing more can be written.
            PipelineError, ClusterError, Unreachable: the topic cannot be read.
        """
        stretches = list(job)
        for _ in range(ATTEMPTS):
            try:
                return stretches, self._parts(stretches)
            except DataLost:
                stretches = self._overtaken(stretches)
        return stretches, self._parts(stretches)

    def now(self, stretches: Iterable[Stretch]) -> TopicSource | None:
        """The topic and the partitions of *stretches* as they are now; None when it is gone."""
        deadline, numbers = Deadline.after(ASK_SECONDS), {one.number for one in stretches}
        try:
            return read_sources(self.run.client, Wanted((self.topic,)), deadline, numbers)[0]
        except UsageError:
            return None

    def log(self, one: Stretch) -> CommittedLog:
        """The log that *one* is of, for reading it without Spark."""
        return CommittedLog(self.run.client.sender, one.source.leader, one.source.partition)

    def _parts(self, job: Sequence[Stretch]) -> list[Part]:
        some = {one.number: one for one in job if one.offsets}
        wide = [one for one in some.values() if _too_wide(one.source)]
        plain = {number: one for number, one in some.items() if one not in wide}
        parts = self._by_spark(plain) if plain else []
        for one in wide:
            parts += self._exactly(one)
        return parts

    def _by_spark(self, stretches: Mapping[int, Stretch]) -> list[Part]:
        """Copy by Spark; a partition with a timestamp that it cannot hold is copied without."""
        if self.run.access is not None:
            return self._by_batches(self.run.access, stretches)
        ranges = {number: (one.start, one.end) for number, one in stretches.items()}
        try:
            return self._job(ranges)
        except TimestampTooWide as error:
            wide = stretches.get(-1 if error.partition is None else error.partition)
            if wide is None and len(stretches) == 1:
                wide = next(iter(stretches.values()))
        if wide is None:
            groups = [{number: one} for number, one in stretches.items()]
            return [part for group in groups for part in self._by_spark(group)]
        others = {number: one for number, one in stretches.items() if one is not wide}
        return [*self._exactly(wide), *(self._by_spark(others) if others else [])]

    def _job(self, ranges: Ranges) -> list[Part]:
        if self._reader is None:
            self._reader = TopicReader(
                self.run.session(),
                self.run.connection,
                self.topic,
                share=1 / (self.run.side_by_side or 1),
                in_sips=self.run.settings.bytes_per_second is not None,
            )
        reader = self._reader
        with jvm_errors(f"reading topic {self.topic}"):
            target = self.target(reader.side_by_side(ranges))
            seconds = WATCH_SECONDS if target.folder.original else WATCH_STORE_SECONDS
            with repeating(lambda: self._watch(target, ranges), seconds):
                answers = reader.run(ranges, partial(write_parts, target=target), PART)
        return sorted(map(Part.from_json, answers), key=_place)

    def _by_batches(self, access: ReadAccess, stretches: Mapping[int, Stretch]) -> list[Part]:
        """Copy by tasks that read batches from the leaders."""
        session = self.run.session()
        cores = max(1, session.sparkContext.defaultParallelism // (self.run.side_by_side or 1))
        whole = [
            CopyRange(one.source.partition, self.topic_id, one.source.leader, one.start, one.end)
            for one in stretches.values()
        ]
        tasks = divided(whole, cores)
        target = self.target(max(1, min(cores, len(tasks))))
        ranges = {number: (one.start, one.end) for number, one in stretches.items()}
        seconds = WATCH_SECONDS if target.folder.original else WATCH_STORE_SECONDS
        with (
            jvm_errors(f"reading topic {self.topic}"),
            repeating(lambda: self._watch(target, ranges), seconds),
        ):
            answers = run_tasks(session, tasks, access, target, f"reading topic {self.topic}")
        return sorted(map(Part.from_json, answers), key=_place)

    def _watch(self, target: PartTarget, ranges: Ranges) -> None:
        """Tell how far the job is, by what it has written."""
        written = _indexed if target.folder.original else _finished
        self.run.meter.say(self.topic, written(target, ranges))

    def _exactly(self, one: Stretch) -> list[Part]:
        self.exact.add(one.source.partition)
        return copy_exactly(self.log(one), one.start, one.end, self.target())

    def target(self, tasks: int = 1) -> PartTarget:
        """Where the parts of one more job go, of so many *tasks* at a time."""
        how = self.run.settings
        share = None if how.bytes_per_second is None else how.bytes_per_second / tasks
        credit = 0.0 if self.run.budget is None else self.run.budget.credit() / tasks
        folder, run = self.assembler.folder, self.assembler.run
        return PartTarget(folder, run, how.max_segment_bytes, share, credit, how.records_crc)

    def _overtaken(self, job: Sequence[Stretch]) -> list[Stretch]:
        """The same *job* from where the logs begin by now (B3)."""
        topic = self.now(job)
        now = {one.partition: one for one in topic.partitions} if topic else {}
        return [_begun_later(one, now.get(one.source.partition)) for one in job]


def _indexed(target: PartTarget, _: Ranges) -> int:
    """Records written, by the size of the indexes, which grow."""
    folder = target.folder
    indexes = [one for one in folder.names() if part_index_of(one, target.run) is not None]
    return sum(folder.size(name) or 0 for name in indexes) // ENTRY.size


def _finished(target: PartTarget, ranges: Ranges) -> int:
    """Offsets copied, about: a file is there once it is whole, and the next one has begun."""
    reached = {number: start for number, (start, _) in ranges.items()}
    for name in target.folder.names():
        place = run_place_of(name, target.run)
        if place is not None and place[0] in reached:
            reached[place[0]] = max(place[1], reached[place[0]])
    return sum(at - ranges[number][0] for number, at in reached.items())


def _place(part: Part) -> tuple[int, int]:
    return part.partition, part.first_offset


def _begun_later(one: Stretch, now: PartitionSource | None) -> Stretch:
    if now is None or now.log_start <= one.start:
        return one
    start = min(now.log_start, one.end)
    lost = Gap(one.lost.start if one.lost else one.start, start, GapReason.LOST)
    return replace(one, start=start, lost=lost)


def _too_wide(source: PartitionSource) -> bool:
    return known(source.newest_ms) and (source.newest_ms or 0) > WIDEST_MS
