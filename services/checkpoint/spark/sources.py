"""The partitions of a cluster as sources of copies: what each of them needs, read once for all."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from breakglass.services.checkpoint.copying import PartitionCopier
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC, Control
from breakglass.services.checkpoint.kafka.control_log import read_control
from breakglass.services.checkpoint.kafka.states import places, promised_states
from breakglass.services.checkpoint.kafka.topics import incarnation, of
from breakglass.services.checkpoint.spark.partition_copy import PartitionCopy
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    NumberedPartition,
    TakeDocument,
)
from breakglass.services.errors import ClusterError, EvidenceChanged
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.retry import until
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.pace import Budget
from breakglass.services.pipeline.source import TopicSource, WantedTopics, read_sources
from breakglass.services.topic_backup.summary import EpochStart

ASK_SECONDS = 60.0
JOBS = 2
"""Of Spark, side by side: while one is planned or committed the other keeps the cores busy."""


@dataclass(frozen=True, slots=True)
class KafkaSources:
    """`finishing.Sources` of the cluster that *run* reads."""

    run: BackupRun
    control_topic: str = CONTROL_TOPIC
    tool_version: str = "unknown"
    _spark: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(JOBS))

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, PartitionCopier]:
        """A source for each partition.

        Raises:
            EvidenceChanged: a topic is another one by now (H12).
            ClusterError: a partition cannot be read.
        """
        deadline = Deadline.after(ASK_SECONDS)
        return until(deadline, lambda: self._open(take, cut, deadline))

    def _open(
        self, take: TakeDocument, cut: CutDocument, deadline: Deadline
    ) -> Mapping[int, PartitionCopier]:
        topics = tuple(sorted({one.topic for one in take.partitions}))
        found = {
            one.name: one for one in read_sources(self.run.client, WantedTopics(topics), deadline)
        }
        partitions = self.run.client.partitions(topics, deadline)
        if take.incarnation != incarnation(partitions):
            raise EvidenceChanged(
                "topics were deleted and created again since the checkpoint was asked for: take "
                "one with a new id"
            )
        control = read_control(self.run.client, self.control_topic, deadline, take.id) or Control()
        states = promised_states(take, cut, places(take, partitions), control)
        sources = {
            one.number: self._source(one, found[one.topic], take, cut, states[one.number])
            for one in take.partitions
        }
        whole = sum(one.offsets for one in sources.values())
        rate = self.run.settings.bytes_per_second
        budget = None if rate is None else Budget(rate)
        return {
            number: replace(one, run=self._run(one.offsets, whole, budget))
            for number, one in sources.items()
        }

    def _run(self, offsets: int, whole: int, budget: Budget | None) -> BackupRun:
        """What copies so many *offsets* of the *whole*: most of it takes every core."""
        alone = 2 * offsets > whole or budget is not None
        return replace(
            self.run,
            settings=replace(self.run.settings, records_crc=True),
            budget=budget,
            side_by_side=1 if alone else JOBS,
        )

    def _source(
        self,
        subject: NumberedPartition,
        topic: TopicSource,
        take: TakeDocument,
        cut: CutDocument,
        states: Mapping[str, bytes],
    ) -> PartitionCopy:
        partition = next((one for one in topic.partitions if one.partition == of(subject)), None)
        if partition is None:
            why = topic.unread.get(subject.partition, "it is gone")
            raise ClusterError(
                f"{of(subject)} cannot be copied ({why}): run `breakglass triage`, then take a "
                "checkpoint with a new id"
            )
        return PartitionCopy(
            self.run,
            topic,
            partition,
            cut.positions[subject.number],
            in_transit=cut.in_transit.get(subject.number, ()),
            needed=needed_from(subject.number, cut, partition.log_start),
            incarnation=take.incarnation,
            tool_version=self.tool_version,
            written=tuple(_written(subject.number, cut)),
            states=states,
            spark=self._spark,
        )


def needed_from(number: int, cut: CutDocument, log_start: int) -> int:
    """The first offset of a partition that a restore cannot do without; of none, its log's start.

    Of an owner that replays its log it is the first of all.
    """
    offsets = (
        0 if number in one.replayed else one.offsets.get(number) for one in cut.groups.values()
    )
    return min((one for one in offsets if one is not None), default=log_start)


def _written(number: int, cut: CutDocument) -> Iterator[EpochStart]:
    """Offsets of the partition that are copied, with the leader epochs that wrote them."""
    if number in cut.epochs:
        yield EpochStart(cut.epochs[number], cut.positions[number] - 1)
    if number in cut.in_transit_epochs:
        yield EpochStart(cut.in_transit_epochs[number], cut.in_transit[number][-1])
