"""Copies one partition as far as the cut and what was in transit over it: a `PartitionCopier`.

Large logs are read by the Spark pipeline of topic backups, small ones without: a job costs more
than they do. The result is a topic backup of one partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from breakglass.services.checkpoint.kafka.epochs import require_same_log
from breakglass.services.checkpoint.spark.copied_files import (
    channel_store,
    manifest_of,
    segments_store,
)
from breakglass.services.checkpoint.store.documents import ManifestDocument
from breakglass.services.errors import ClusterError, EvidenceChanged, TimedOut
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.pipeline.backup import jobs
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.part_writer import PartTarget, copy_chosen, copy_exactly
from breakglass.services.pipeline.report import PartitionReport, TopicReport
from breakglass.services.pipeline.resume_point import CopyStretch
from breakglass.services.pipeline.source import (
    PartitionSource,
    TopicSource,
    WantedTopics,
    read_sources,
)
from breakglass.services.pipeline.topic_copy import TopicCopy
from breakglass.services.topic_backup.addition import Addition, Missing, NewSegment
from breakglass.services.topic_backup.assembling import assembling
from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.store.store import Store
from breakglass.services.topic_backup.summary import EpochStart

ASK_SECONDS = 60.0
MOVING_SECONDS = 10.0
"""For a partition to have a leader again."""
SMALL = 10_000
"""Offsets that are copied without Spark."""


@dataclass(slots=True)
class PartitionCopy:
    """One partition of a topic, in one checkpoint."""

    run: BackupRun
    topic: TopicSource
    partition: PartitionSource
    position: int
    """Of the cut, exclusive."""
    in_transit: Collection[int] = ()
    """Offsets behind the cut that are copied beside it."""
    needed: int = 0
    """The first offset that a restore cannot do without: where the first group goes on."""
    incarnation: str | None = None
    tool_version: str = "unknown"
    written: tuple[EpochStart, ...] = ()
    """Offsets that are copied, with the leader epochs that wrote them when the cut was decided."""
    states: Mapping[str, bytes] = field(default_factory=dict)
    """What each group's owner has saved at the cut."""
    spark: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Entered for each job: of all partitions a few have one at the same time."""
    _tried: bool = field(default=False, init=False)

    def copy(self, where: str) -> ManifestDocument:
        """Write it below *where*, and say what was written.

        Raises:
            EvidenceChanged: retention was faster.
            ClusterError: the log is another one by now.
            StorageError, Unreachable, PipelineError: it may be tried again.
        """
        if self._tried:
            # Its leader may be another one by now.
            self._read_again()
        self._tried = True
        self._require()
        start = self.partition.log_start
        try:
            parts = self._copy_prefix(segments_store(where))
            if self.in_transit:
                self._copy_channel(channel_store(where))
        except ClusterError:
            # A log that is another one by now is the reason, whatever has shown it.
            self._require_same()
            raise
        self._require_same()
        return manifest_of(
            where,
            self.topic.name,
            self.number,
            self.position,
            start=start,
            cluster_id=self.topic.identity.cluster_id,
            incarnation=self.incarnation,
            tool_version=self.tool_version,
            states=self.states,
            parts=parts,
        )

    @property
    def number(self) -> int:
        """Of the partition in its topic."""
        return self.partition.partition.partition

    @property
    def offsets(self) -> int:
        """As far as the cut."""
        return max(0, self.position - self.partition.log_start)

    def _read_again(self) -> None:
        # A leader that moves just now, as with a broker that is killed, is found a moment later.
        until(Deadline.after(MOVING_SECONDS), self._read_once)

    def _read_once(self) -> None:
        deadline = Deadline.after(ASK_SECONDS)
        wanted = WantedTopics((self.topic.name,))
        (self.topic,) = read_sources(self.run.client, wanted, deadline, {self.number})
        found = (one for one in self.topic.partitions if one.partition == self.partition.partition)
        partition = next(found, None)
        if partition is None:
            raise TimedOut(f"{self.partition.partition} has no leader: try again", "no leader")
        self.partition = partition

    def _require_same(self) -> None:
        if self.written:
            self._read_again()
            self._require_written()

    def _require(self) -> None:
        self._require_written()
        if self.partition.stable_end < self.position:
            raise ClusterError(
                f"{self.partition.partition} ends at {self.partition.stable_end}, before the cut "
                f"at {self.position}: its log was cut; take a checkpoint with a new id"
            )
        self._require_kept(self.partition.log_start)

    def _require_written(self) -> None:
        """Return if the log is still the one that the cut was decided on (H10)."""
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
            found = sum(one.count for one in parts)
            if found != len(self.in_transit):
                raise EvidenceChanged(
                    f"{len(self.in_transit) - found} records in transit behind the cut of "
                    f"{self.partition.partition} are gone: take a checkpoint with a new id"
                )
            segments = [NewSegment(one) for one in parts]
            assembler.add([Addition(self.number, segments, Missing(), end)])
            assembler.commit()

    def _log(self) -> CommittedLog:
        return CommittedLog(self.run.client.sender, self.partition.leader, self.partition.partition)
