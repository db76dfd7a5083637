"""Streams micro-batches: each copies and commits the new records of all topics in one job.

The stream asks the leaders for new records every second; a leader that does not answer delays no
other. A batch copies only what follows the last commit in the manifests. If the job of a batch
fails, each topic is copied separately, as in a run, so that a failing topic does not stop the
others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.replicas.leader_ends import ask_brokers
from breakglass.services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.pipeline.backup import OpenTopic, begun, opened
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.batches.log_range import divided, range_of
from breakglass.services.pipeline.batches.tasks import copy_by_tasks
from breakglass.services.pipeline.report import BackupReport, TopicReport
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import CopyStretch, WantedTopics, read_sources
from breakglass.services.topic_backup.part import SegmentPart

BatchRanges = Mapping[TopicPartition, tuple[int, int]]
"""New offsets ``[start, end)`` by partition; never empty."""


def back_up_batch(run: BackupRun, batch: BatchRanges) -> BackupReport:
    """Copy and commit *batch*. A topic that fails does not stop the others.

    Raises:
        UsageError: a topic was deleted.
        Unreachable, NotAuthorized: the cluster does not answer, or an ACL is missing.
        StorageError: a folder cannot be unlocked.
    """
    names = tuple(sorted({partition.topic for partition in batch}))
    sources = read_sources(run.client, WantedTopics(names), Deadline.after(patience.JOB))
    run.meter.total = sum(end - start for start, end in batch.values())
    report = BackupReport(topics=[begun(run, source) for source in sources])
    with ExitStack() as stack:
        topics = []
        for source, topic in zip(sources, report.topics, strict=True):
            with _reported_in(topic):
                topics.append(stack.enter_context(opened(run, source, topic)))
        _copy(run, batch, topics)
    report.seconds = run.meter.seconds
    return report


@contextmanager
def _reported_in(report: TopicReport) -> Iterator[None]:
    try:
        yield
    except BreakglassError as error:
        report.error = str(error)


def _copy(run: BackupRun, batch: BatchRanges, topics: Sequence[OpenTopic]) -> None:
    jobs = [(topic, _todo(topic, batch)) for topic in topics]
    some = [(topic, todo) for topic, todo in jobs if todo]
    parts = _parts(run, some) if some else None
    for topic, todo in some:
        with _reported_in(topic.report):
            if parts is None:
                topic.copy.copy(todo)
            else:
                topic.copy.take(todo, parts.get(topic.source.name, []))


def _todo(topic: OpenTopic, batch: BatchRanges) -> list[CopyStretch]:
    """The offsets of the topic in *batch* that are not committed yet."""
    stretches = (within(batch, stretch) for stretch in topic.todo)
    return [stretch for stretch in stretches if stretch.offsets]


def within(ranges: BatchRanges, stretch: CopyStretch) -> CopyStretch:
    """*stretch* up to the end of its range; empty for a partition without a range."""
    _, end = ranges.get(stretch.source.partition, (stretch.start, stretch.start))
    return replace(stretch, end=max(stretch.start, min(stretch.end, end)))


def _parts(
    run: BackupRun, jobs: Sequence[tuple[OpenTopic, Sequence[CopyStretch]]]
) -> dict[str, list[SegmentPart]] | None:
    """The parts of all stretches by topic; None if their job fails."""
    whole = [
        range_of(topic.source.identity, stretch.source, stretch.start, stretch.end)
        for topic, todo in jobs
        for stretch in todo
    ]
    targets = {topic.source.name: topic.copy.target() for topic, _ in jobs}
    cluster_id = jobs[0][0].source.identity.cluster_id
    try:
        with jvm_errors("copying a batch"):
            ranges = divided(whole, run.cores())
            return copy_by_tasks(run, ranges, cluster_id, targets, patience.LEADERLESS)
    except BreakglassError:
        # Whatever the error: the separate copies find it again and report it by topic.
        return None


TRIGGER_SECONDS = 1.0
"""How often the stream asks for new records."""

Ends = Mapping[TopicPartition, int]
"""The next offset of each partition."""


class Stream:
    """Runs in a separate thread while its block is open."""

    def __init__(
        self, run: BackupRun, ends: Ends, each: Callable[[BatchRanges], None], trigger: float
    ) -> None:
        """Stream the partitions from the offsets *ends* on; *each* gets every batch, in the thread.

        A batch starts *trigger* seconds after the previous batch started, or when that is done.
        """
        self._run = run
        self._ends = dict(ends)
        self._each = each
        self._trigger = trigger
        self._led: dict[int, dict[TopicPartition, int]] = {}
        """The partitions of each leader with their leader epochs; empty: not known yet."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="stream", daemon=True)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def running(self) -> bool:
        """Whether the stream runs, and Spark can copy its batches."""
        if not self._thread.is_alive():
            return False
        try:
            require_spark(self._run)
        except BreakglassError:
            return False
        return True

    def _follow(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            ranges = self._new()
            if ranges:
                self._each(ranges)
                self._ends.update({partition: end for partition, (_, end) in ranges.items()})
            self._over.wait(max(0.0, began + self._trigger - time.monotonic()))

    def _new(self) -> BatchRanges:
        """The offsets from the previous batch to the stable ends of the leaders that answer."""
        most = self._run.settings.offsets_a_job
        return {
            partition: (self._ends[partition], min(end, self._ends[partition] + most))
            for partition, end in self._stable_ends().items()
            if end > self._ends[partition]
        }

    def _stable_ends(self) -> dict[TopicPartition, int]:
        try:
            self._led = self._led or self._leaders()
        except BreakglassError:
            # The next run asks the same and reports the error.
            return {}
        answers = ask_brokers(self._led, self._listed)
        found = {
            partition: end.offset
            for partition, end in answers.items()
            if isinstance(end, ListedOffset)
        }
        if found.keys() != self._ends.keys():
            self._led = {}
        return found

    def _listed(
        self, leader: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ListedOffset | Unknown]:
        """The stable ends that *leader* reports; none of partitions that it no longer leads."""
        return list_offsets(
            self._run.client.sender,
            leader,
            partitions,
            LATEST,
            Deadline.after(patience.BRIEF),
            replica_id=LEADER_ONLY,
            leader_epochs=self._led[leader],
            isolation_level=READ_COMMITTED,
        )

    def _leaders(self) -> dict[int, dict[TopicPartition, int]]:
        deadline = Deadline.after(patience.BRIEF)
        topics = sorted({partition.topic for partition in self._ends})
        self._run.client.describe(deadline)
        led: dict[int, dict[TopicPartition, int]] = {}
        for state in self._run.client.partitions(topics, deadline):
            if state.partition in self._ends and state.leader is not None:
                led.setdefault(state.leader, {})[state.partition] = state.leader_epoch
        return led


def require_spark(run: BackupRun) -> None:
    """Check that Spark's JVM answers.

    Raises:
        PipelineError: the JVM has ended, so that no job can run.
    """
    context = run.context()
    with jvm_errors("backing up"):
        context.startTime  # noqa: B018
