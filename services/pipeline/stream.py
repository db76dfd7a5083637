"""A micro-batch of a stream: a job over all of its topics, committed by the rules of every copy.

The manifest is what counts: of a batch only what follows the last commit is taken. What was
committed already is passed over. Where the job fails, each topic is copied as a run copies it, so
that what is wrong with one of them keeps no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType

from services.errors import BreakglassError
from services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    list_offsets,
)
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition
from services.pipeline.backup import OpenTopic, begun, opened
from services.pipeline.backup_context import BackupRun
from services.pipeline.batches.log_range import divided, range_of
from services.pipeline.batches.tasks import copy_by_tasks
from services.pipeline.report import BackupReport, TopicReport
from services.pipeline.resume_point import CopyStretch
from services.pipeline.session import jvm_errors
from services.pipeline.source import WantedTopics, read_sources
from services.topic_backup.part import SegmentPart

BATCH_ASK_SECONDS = 60.0
PATIENCE_SECONDS = 10.0
"""How long a job waits for a leader; then each topic waits for its own."""

BatchRanges = Mapping[TopicPartition, tuple[int, int]]
"""What is new in some partitions: offsets ``[start, end)``, never none of them."""


def back_up_batch(run: BackupRun, batch: BatchRanges) -> BackupReport:
    """Copy and commit *batch*. What goes wrong with one topic does not keep the others.

    Raises:
        UsageError: a topic is gone.
        Unreachable, NotAuthorized: the cluster cannot be asked.
        StorageError: a folder cannot be given back.
    """
    names = tuple(sorted({one.topic for one in batch}))
    sources = read_sources(run.client, WantedTopics(names), Deadline.after(BATCH_ASK_SECONDS))
    run.meter.total = sum(end - start for start, end in batch.values())
    report = BackupReport(topics=[begun(run, one) for one in sources])
    with ExitStack() as stack:
        topics = []
        for source, told in zip(sources, report.topics, strict=True):
            with _told_to(told):
                topics.append(stack.enter_context(opened(run, source, told)))
        _copy(run, batch, topics)
    report.seconds = run.meter.seconds
    return report


@contextmanager
def _told_to(report: TopicReport) -> Iterator[None]:
    try:
        yield
    except BreakglassError as error:
        report.error = str(error)


def _copy(run: BackupRun, batch: BatchRanges, topics: Sequence[OpenTopic]) -> None:
    jobs = [(topic, _todo(topic, batch)) for topic in topics]
    some = [(topic, todo) for topic, todo in jobs if todo]
    parts = _parts(run, some) if some else None
    for topic, todo in some:
        with _told_to(topic.report):
            if parts is None:
                topic.copy.copy(todo)
            else:
                topic.copy.take(todo, parts.get(topic.source.name, []))


def _todo(topic: OpenTopic, batch: BatchRanges) -> list[CopyStretch]:
    """What of the topic's partitions is in *batch* and not committed yet."""
    stretches = (within(batch, one) for one in topic.todo)
    return [one for one in stretches if one.offsets]


def within(ranges: BatchRanges, one: CopyStretch) -> CopyStretch:
    """What of *one* lies before the end of its range; nothing of a partition without a range."""
    _, end = ranges.get(one.source.partition, (one.start, one.start))
    return replace(one, end=max(one.start, min(one.end, end)))


def _parts(
    run: BackupRun, jobs: Sequence[tuple[OpenTopic, Sequence[CopyStretch]]]
) -> dict[str, list[SegmentPart]] | None:
    """The parts of all stretches by topic; None where they cannot be read together."""
    whole = [
        range_of(topic.source.identity, one.source, one.start, one.end)
        for topic, todo in jobs
        for one in todo
    ]
    targets = {topic.source.name: topic.copy.target() for topic, _ in jobs}
    cluster_id = jobs[0][0].source.identity.cluster_id
    try:
        with jvm_errors("copying a batch"):
            ranges = divided(whole, run.cores())
            return copy_by_tasks(run, ranges, cluster_id, targets, PATIENCE_SECONDS)
    except BreakglassError:
        # Whatever it is: reading the same as a run does tells, and knows what to do about it.
        return None


TRIGGER_SECONDS = 1.0
"""How often it is looked for new records."""
ASK_SECONDS = 5.0
"""How long a broker may take to answer."""

Ends = Mapping[TopicPartition, int]
"""The next offset of each partition."""


class Stream:
    """Entered, it runs in a thread of its own until the block ends."""

    def __init__(
        self, run: BackupRun, ends: Ends, each: Callable[[BatchRanges], None], trigger: float
    ) -> None:
        """Prepare the partitions of *ends* from there on; *each* gets the batches, in the thread.

        A batch begins *trigger* seconds after the one before it began, or when that is done.
        """
        self._run = run
        self._ends = dict(ends)
        self._each = each
        self._trigger = trigger
        self._led: dict[int, dict[TopicPartition, int]] = {}
        """Each leader's partitions with their leader epochs; empty: to be asked."""
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
        """Whether batches are still to come, and Spark is there to copy them."""
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
                self._ends.update({one: end for one, (_, end) in ranges.items()})
            self._over.wait(max(0.0, began + self._trigger - time.monotonic()))

    def _new(self) -> BatchRanges:
        """What lies between the last look and the stable ends, as far as they are told."""
        most = self._run.settings.offsets_a_job
        return {
            one: (self._ends[one], min(end, self._ends[one] + most))
            for one, end in self._stable_ends().items()
            if end > self._ends[one]
        }

    def _stable_ends(self) -> dict[TopicPartition, int]:
        try:
            self._led = self._led or self._leaders()
        except BreakglassError:
            # A run asks the same, and says what it is told.
            return {}
        found: dict[TopicPartition, int] = {}
        for leader, epochs in self._led.items():
            found |= self._told_by(leader, epochs)
        if found.keys() != self._ends.keys():
            self._led = {}
        return found

    def _told_by(self, leader: int, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The stable ends that *leader* tells; one that leads no more tells none."""
        try:
            told = list_offsets(
                self._run.client.sender,
                leader,
                epochs,
                LATEST,
                Deadline.after(ASK_SECONDS),
                replica_id=LEADER_ONLY,
                leader_epochs=epochs,
                isolation_level=READ_COMMITTED,
            )
        except BreakglassError:
            return {}
        return {one: end.offset for one, end in told.items() if isinstance(end, ListedOffset)}

    def _leaders(self) -> dict[int, dict[TopicPartition, int]]:
        deadline = Deadline.after(ASK_SECONDS)
        topics = sorted({one.topic for one in self._ends})
        self._run.client.describe(deadline)
        led: dict[int, dict[TopicPartition, int]] = {}
        for state in self._run.client.partitions(topics, deadline):
            if state.partition in self._ends and state.leader is not None:
                led.setdefault(state.leader, {})[state.partition] = state.leader_epoch
        return led


def require_spark(run: BackupRun) -> None:
    """Return if Spark's JVM answers.

    Raises:
        PipelineError: it has ended, and no job can be run any more.
    """
    context = run.context()
    with jvm_errors("backing up"):
        context.startTime  # noqa: B018
