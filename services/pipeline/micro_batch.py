"""A micro-batch of a stream: a job over all of its topics, committed by the rules of every copy.

The manifest is what counts: of a batch only what follows the last commit is taken. What was
committed already is passed over. Where the job fails, each topic is copied as a run copies it, so
that what is wrong with one of them keeps no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from services.errors import BreakglassError
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition
from services.pipeline.backup_context import BackupRun
from services.pipeline.batches.log_range import divided, range_of
from services.pipeline.batches.tasks import copy_by_tasks
from services.pipeline.opening import OpenTopic, begun, opened
from services.pipeline.report import BackupReport, TopicReport
from services.pipeline.resume_point import CopyStretch
from services.pipeline.session import jvm_errors
from services.pipeline.source import WantedTopics, read_sources
from services.topic_backup.part import SegmentPart

ASK_SECONDS = 60.0
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
    sources = read_sources(run.client, WantedTopics(names), Deadline.after(ASK_SECONDS))
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
