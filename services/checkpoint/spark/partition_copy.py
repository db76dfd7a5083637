"""Copies partitions up to the cut, with their records in transit, as topic backups.

The Spark pipeline of topic backups reads large logs; small logs are read without Spark, because a
job costs more than the read. `KafkaSources` reads what all partitions need once.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from breakglass.services import patience
from breakglass.services.checkpoint.coordinator import CopyPartition
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC, Control, MovedRecords
from breakglass.services.checkpoint.kafka.holding import without_hold
from breakglass.services.checkpoint.kafka.logs import read_control
from breakglass.services.checkpoint.kafka.owners import promised_states, topic_ids
from breakglass.services.checkpoint.kafka.topics import incarnation, require_same_log
from breakglass.services.checkpoint.spark.copied_files import (
    channel_store,
    files_of,
    records_digest,
    segments_store,
    summary_of,
    write_snapshot,
)
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    ManifestDocument,
    NumberedPartition,
    TakeDocument,
)
from breakglass.services.errors import ClusterError, EvidenceChanged, TimedOut
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.pipeline.backup import jobs
from breakglass.services.pipeline.backup_context import BackupRun, PartitionReport, TopicReport
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.part_writer import Budget, PartTarget, copy_chosen, copy_exactly
from breakglass.services.pipeline.source import (
    CopyStretch,
    PartitionSource,
    TopicSource,
    WantedTopics,
    read_sources,
)
from breakglass.services.pipeline.topic_copy import TopicCopy
from breakglass.services.topic_backup.assembler import assembling
from breakglass.services.topic_backup.part import Addition, Missing, NewSegment, SegmentPart
from breakglass.services.topic_backup.store.store import Store
from breakglass.services.topic_backup.summary import EpochStart

SMALL = 10_000
"""Maximum number of offsets that are copied without Spark."""


@dataclass(slots=True)
class PartitionCopy:
    """One partition of a topic, in one checkpoint."""

    run: BackupRun
    topic: TopicSource
    partition: PartitionSource
    position: int
    """The cut, exclusive."""
    in_transit: Collection[int] = ()
    """Offsets after the cut that are copied too."""
    needed: int = 0
    """The first offset that a restore needs: where the first group resumes."""
    incarnation: str | None = None
    tool_version: str = "unknown"
    written: tuple[EpochStart, ...] = ()
    """The copied offsets, with the leader epochs that wrote them when the cut was decided."""
    states: Mapping[str, bytes] = field(default_factory=dict)
    """The state that each group's owner saved at the cut."""
    moved: tuple[MovedRecords, ...] = ()
    """What an earlier restore has written here: another cluster has no notes of that."""
    spark: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Entered for each job: it limits the jobs that run at the same time."""
    _tried: bool = field(default=False, init=False)

    def copy(self, where: str) -> ManifestDocument:
        """Write the copy below *where*, and return what was written.

        Raises:
            EvidenceChanged: retention has removed records.
            ClusterError: the log was replaced.
            StorageError, Unreachable, PipelineError: the copy may be retried.
        """
        if self._tried:
            # The leader may have changed.
            self._read_again()
        self._tried = True
        self._require_written()
        if self.partition.stable_end < self.position:
            raise ClusterError(
                f"{self.partition.partition} ends at {self.partition.stable_end}, before the cut "
                f"at {self.position}: its log was cut; take a checkpoint with a new id"
            )
        self._require_kept(self.partition.log_start)
        start = self.partition.log_start
        try:
            parts = self._copy_prefix(segments_store(where))
            if self.in_transit:
                self._copy_channel(channel_store(where))
        except ClusterError:
            # A replaced log is the actual reason, whichever error has shown it.
            self._require_same()
            raise
        self._require_same()
        snapshot = write_snapshot(where, self.states, self.moved)
        summary = summary_of(segments_store(where).folder(self.topic.name), self.number)
        return ManifestDocument(
            created_at_ms=0,
            completed_at_ms=0,
            position=self.position,
            start=start,
            records=sum(segment.count for segment in summary.segments),
            records_digest=records_digest(parts),
            files=files_of(where, self.topic.name, summary),
            snapshot=snapshot,
            cluster_id=self.topic.identity.cluster_id,
            incarnation=self.incarnation,
            tool_version=self.tool_version,
        )

    @property
    def number(self) -> int:
        return self.partition.partition.partition

    @property
    def offsets(self) -> int:
        return max(0, self.position - self.partition.log_start)

    def _read_again(self) -> None:
        named, wanted = self.partition.partition, WantedTopics((self.topic.name,))

        def read() -> None:
            deadline = Deadline.after(patience.JOB)
            (self.topic,) = read_sources(self.run.client, wanted, deadline, {self.number})
            found = next((one for one in self.topic.partitions if one.partition == named), None)
            if found is None:
                raise TimedOut(f"{named} has no leader: try again", "no leader")
            self.partition = found

        # A leader that moves during a broker failure is found at the next try.
        until(Deadline.after(patience.LEADERLESS), read)

    def _require_same(self) -> None:
        if self.written:
            self._read_again()
            self._require_written()

    def _require_written(self) -> None:
        """Return if the log is still the log on which the cut was decided (H10)."""
        if self.written:
            require_same_log(self.partition.partition, self.written, self.partition.epochs)

    def _require_kept(self, start: int) -> None:
        if start > self.needed:
            raise EvidenceChanged(
                f"retention has removed what {self.partition.partition} held before offset "
                f"{start}, and the checkpoint needs it from {self.needed} on: give the topic more "
                "retention, then take one with a new id"
            )

    def _copy_prefix(self, store: Store) -> list[SegmentPart]:
        start = min(self.partition.log_start, self.position)
        report = TopicReport(
            self.topic.name,
            store.where(self.topic.name),
            partitions=[PartitionReport(self.partition.partition, start, start)],
        )
        folder = store.folder(self.topic.name)
        limit = self.run.settings.max_segment_bytes
        with assembling(folder, self.topic.identity, limit) as assembler:
            copy = TopicCopy(self.run, self.topic, assembler, report)
            stretch = CopyStretch(self.partition, start, self.position)
            if stretch.offsets <= SMALL:
                parts = copy_exactly(self._log(), start, self.position, copy.target())
                copy.take([stretch], parts)
                return parts
            todo = jobs([stretch], self.run.settings.offsets_a_job)
            with self.spark:
                parts = [part for job in todo for part in copy.copy(job)]
        (done,) = report.partitions
        lost = done.missing.get("lost", 0)
        if lost:
            self._require_kept(start + lost)
        return parts

    def _copy_channel(self, store: Store) -> None:
        end = max(self.in_transit) + 1
        limit = self.run.settings.max_segment_bytes
        folder = store.folder(self.topic.name)
        with assembling(folder, self.topic.identity, limit) as assembler:
            rate = self.run.settings.bytes_per_second
            target = PartTarget(assembler.folder, assembler.run, limit, rate)
            parts = copy_chosen(self._log(), self.in_transit, target)
            found = sum(part.count for part in parts)
            if found != len(self.in_transit):
                raise EvidenceChanged(
                    f"{len(self.in_transit) - found} records in transit behind the cut of "
                    f"{self.partition.partition} are gone: take a checkpoint with a new id"
                )
            segments = [NewSegment(part) for part in parts]
            assembler.add([Addition(self.number, segments, Missing(), end)])
            assembler.commit()

    def _log(self) -> CommittedLog:
        return CommittedLog(self.run.client.sender, self.partition.leader, self.partition.partition)


JOBS = 2
"""Parallel Spark jobs: while one job is planned or committed, the other uses the cores."""


@dataclass(frozen=True, slots=True)
class KafkaSources:
    """`coordinator.Sources` of the cluster of *run*."""

    run: BackupRun
    control_topic: str = CONTROL_TOPIC
    tool_version: str = "unknown"
    _spark: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(JOBS))

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, CopyPartition]:
        """How each partition is copied.

        Raises:
            EvidenceChanged: a topic was replaced (H12).
            ClusterError: a partition cannot be read.
        """
        deadline = Deadline.after(patience.JOB)
        return until(deadline, lambda: self._open(take, cut, deadline))

    def _open(
        self, take: TakeDocument, cut: CutDocument, deadline: Deadline
    ) -> Mapping[int, CopyPartition]:
        topics = take.topics
        read = read_sources(self.run.client, WantedTopics(topics), deadline)
        partitions = self.run.client.partitions(topics, deadline)
        if take.incarnation != incarnation(partitions):
            raise EvidenceChanged(
                "topics were deleted and created again since the checkpoint was asked for: take "
                "one with a new id"
            )
        control = read_control(self.run.client, self.control_topic, deadline, take.id) or Control()
        held = {source.name: source for source in read}
        states = promised_states(take, cut, topic_ids(partitions), control)
        sources = {
            partition.number: self._source(
                partition, held[partition.topic], take, cut, states[partition.number], control
            )
            for partition in take.partitions
        }
        whole = sum(source.offsets for source in sources.values())
        rate = self.run.settings.bytes_per_second
        budget = None if rate is None else Budget(rate)
        found: dict[int, CopyPartition] = {}
        for number, one in sources.items():
            # More than half of everything gets every core.
            alone = 2 * one.offsets > whole or budget is not None
            run = replace(
                self.run,
                settings=replace(self.run.settings, records_crc=True),
                budget=budget,
                side_by_side=1 if alone else JOBS,
            )
            found[number] = replace(one, run=run).copy
        return found

    def _source(
        self,
        subject: NumberedPartition,
        topic: TopicSource,
        take: TakeDocument,
        cut: CutDocument,
        states: Mapping[str, bytes],
        control: Control,
    ) -> PartitionCopy:
        named = subject.topic_partition
        partition = next((one for one in topic.partitions if one.partition == named), None)
        if partition is None:
            why = topic.unread.get(subject.partition, "it is gone")
            raise ClusterError(
                f"{named} cannot be copied ({why}): run `breakglass triage`, then take a "
                "checkpoint with a new id"
            )
        known = topic.identity
        # As they are when its retention is not held back.
        config = without_hold(known.topic_id, dict(known.config), control)
        before = None if known.topic_id is None else control.restored.get(known.topic_id.hex)
        return PartitionCopy(
            self.run,
            replace(topic, identity=replace(known, config=config)),
            partition,
            cut.positions[subject.number],
            in_transit=cut.in_transit.get(subject.number, ()),
            needed=needed_from(subject.number, cut, partition.log_start),
            incarnation=take.incarnation,
            tool_version=self.tool_version,
            written=tuple(_written(subject.number, cut)),
            states=states,
            moved=() if before is None else before.moved.get(subject.partition, ()),
            spark=self._spark,
        )


def needed_from(number: int, cut: CutDocument, log_start: int) -> int:
    """The first offset of a partition that a restore needs; the log start if no group reads it.

    An owner that replays its log needs all records.
    """
    offsets = (
        0 if number in group.replayed else group.offsets.get(number)
        for group in cut.groups.values()
    )
    return min((offset for offset in offsets if offset is not None), default=log_start)


def _written(number: int, cut: CutDocument) -> Iterator[EpochStart]:
    """The copied offsets of the partition, with the leader epochs that wrote them."""
    if number in cut.epochs:
        yield EpochStart(cut.epochs[number], cut.positions[number] - 1)
    if number in cut.in_transit_epochs:
        yield EpochStart(cut.in_transit_epochs[number], cut.in_transit[number][-1])
