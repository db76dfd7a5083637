"""Copies stretches of one topic into parts, from where its logs begin by now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from services.errors import LogBeginsLater, UsageError
from services.kafka.wire.deadline import Deadline
from services.pipeline.backup_context import BackupRun
from services.pipeline.batches.log_range import Ranges, divided, range_of
from services.pipeline.batches.tasks import copy_by_tasks
from services.pipeline.committed_log import CommittedLog
from services.pipeline.part_writer import PartTarget
from services.pipeline.repeating import repeating
from services.pipeline.resume_point import CopyStretch
from services.pipeline.session import jvm_errors
from services.pipeline.source import PartitionSource, TopicSource, WantedTopics, read_sources
from services.topic_backup.assembling import Assembler
from services.topic_backup.manifest import TopicIdentity
from services.topic_backup.part import SegmentPart, part_index_of, run_place_of
from services.topic_backup.segment_index import ENTRY
from services.topic_backup.summary import Gap, GapReason

ASK_SECONDS = 60.0
WATCH_SECONDS = 0.5
WATCH_STORE_SECONDS = 5.0
"""Where each look is a request, or many."""
ATTEMPTS = 5
"""How often a range is begun again because retention overtook the reader."""


@dataclass(slots=True)
class RangeCopy:
    """Writes parts for the backup of one topic."""

    run: BackupRun
    identity: TopicIdentity
    """Of the topic."""
    assembler: Assembler

    @property
    def topic(self) -> str:
        return self.identity.topic

    def copy(self, job: Sequence[CopyStretch]) -> tuple[list[CopyStretch], list[SegmentPart]]:
        """The parts of *job*, which may begin later than asked where retention was faster.

        Raises:
            StorageError: nothing more can be written.
            PipelineError, ClusterError, Unreachable: the topic cannot be read.
        """
        stretches = list(job)
        for _ in range(ATTEMPTS):
            try:
                return stretches, self._parts(stretches)
            except LogBeginsLater:
                stretches = self._overtaken(stretches)
        return stretches, self._parts(stretches)

    def now(self, stretches: Iterable[CopyStretch]) -> TopicSource | None:
        """The topic and the partitions of *stretches* as they are now; None when it is gone."""
        deadline, numbers = Deadline.after(ASK_SECONDS), {one.number for one in stretches}
        try:
            return read_sources(self.run.client, WantedTopics((self.topic,)), deadline, numbers)[0]
        except UsageError:
            return None

    def log(self, one: CopyStretch) -> CommittedLog:
        """The log that *one* is of, for reading it without Spark."""
        return CommittedLog(self.run.client.sender, one.source.leader, one.source.partition)

    def _parts(self, job: Sequence[CopyStretch]) -> list[SegmentPart]:
        some = [one for one in job if one.offsets]
        if not some:
            return []
        with jvm_errors(f"reading topic {self.topic}"):
            cores = self.run.cores()
            whole = [range_of(self.identity, one.source, one.start, one.end) for one in some]
            ranges = divided(whole, cores)
            target = self.target(min(cores, len(ranges)))
            with self._watching(target, {one.number: (one.start, one.end) for one in some}):
                cluster_id = self.identity.cluster_id
                found = copy_by_tasks(self.run, ranges, cluster_id, {self.topic: target})
        return found.get(self.topic, [])

    @contextmanager
    def _watching(self, target: PartTarget, ranges: Ranges) -> Iterator[None]:
        """Tell how far the job that runs within is, by what it has written."""
        original = target.folder.original
        written = _indexed if original else _finished
        seconds = WATCH_SECONDS if original else WATCH_STORE_SECONDS
        with repeating(lambda: self.run.meter.say(self.topic, written(target, ranges)), seconds):
            yield

    def target(self, tasks: int = 1) -> PartTarget:
        """Where the parts of one more job go, of so many *tasks* at a time."""
        how = self.run.settings
        share = None if how.bytes_per_second is None else how.bytes_per_second / tasks
        credit = 0.0 if self.run.budget is None else self.run.budget.credit() / tasks
        folder, run = self.assembler.folder, self.assembler.run
        return PartTarget(folder, run, how.max_segment_bytes, share, credit, how.records_crc)

    def _overtaken(self, job: Sequence[CopyStretch]) -> list[CopyStretch]:
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


def _begun_later(one: CopyStretch, now: PartitionSource | None) -> CopyStretch:
    if now is None or now.log_start <= one.start:
        return one
    start = min(now.log_start, one.end)
    lost = Gap(one.lost.start if one.lost else one.start, start, GapReason.LOST)
    return replace(one, start=start, lost=lost)
