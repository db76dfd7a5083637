"""A micro-batch of Structured Streaming, committed by the rules of every other copy.

The manifest is what counts, not Spark's checkpoint: of a batch only what follows the last commit
is taken. What was committed already is passed over; what a batch cannot give, for the timestamps
of its records, for retention, or because it does not begin where the commit ends, is copied as a
run copies it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from services.errors import BreakglassError, PipelineError, StorageError
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition
from services.pipeline.answers import answer
from services.pipeline.continuing import Stretch
from services.pipeline.opening import OpenTopic, begun, opened
from services.pipeline.part_writer import PART, PartTarget, write_parts
from services.pipeline.reading import collected
from services.pipeline.report import BackupReport, TopicReport
from services.pipeline.running import Run
from services.pipeline.source import Wanted, read_sources
from services.topic_backup.part import Part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ASK_SECONDS = 60.0
FIELDS = ("partition", "topic")
"""What the records of a batch have beside the encoded record."""

BatchRanges = Mapping[TopicPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Encoded records of some partitions."""

    records: DataFrame
    ranges: BatchRanges
    """The offsets ``[start, end)`` that it was planned with; never empty ones."""


def back_up_batch(run: Run, batch: MicroBatch) -> BackupReport:
    """Copy and commit *batch*. What goes wrong with one topic does not keep the others.

    Raises:
        UsageError: a topic is gone.
        Unreachable, NotAuthorized: the cluster cannot be asked.
        StorageError: a folder cannot be given back.
    """
    names = tuple(sorted({one.topic for one in batch.ranges}))
    sources = read_sources(run.client, Wanted(names), Deadline.after(ASK_SECONDS))
    run.meter.total = sum(end - start for start, end in batch.ranges.values())
    report = BackupReport(topics=[begun(run, one) for one in sources])
    with ExitStack() as stack:
        topics = []
        for source, told in zip(sources, report.topics, strict=True):
            with _told_to(told):
                topics.append(stack.enter_context(opened(run, source, told)))
        _copy(batch, topics)
    report.seconds = run.meter.seconds
    return report


@contextmanager
def _told_to(report: TopicReport) -> Iterator[None]:
    try:
        yield
    except BreakglassError as error:
        report.error = str(error)


def _copy(batch: MicroBatch, topics: Sequence[OpenTopic]) -> None:
    todo = {one.source.name: [within(batch.ranges, of) for of in one.todo] for one in topics}
    given = {
        name: [one for one in some if one.offsets and is_given(batch.ranges, one)]
        for name, some in todo.items()
    }
    parts = _parts(batch, {one.source.name: one.copy.target() for one in topics}, given)
    for topic in topics:
        name = topic.source.name
        taken = given[name] if parts is not None else []
        rest = [one for one in todo[name] if one.offsets and one not in taken]
        with _told_to(topic.report):
            if parts is not None and taken:
                topic.copy.take(taken, parts.get(name, []))
            if rest:
                topic.copy.copy(rest)


def within(ranges: BatchRanges, one: Stretch) -> Stretch:
    """What of *one* lies before the end of its range; nothing of a partition without a range."""
    _, end = ranges.get(one.source.partition, (one.start, one.start))
    return replace(one, end=max(one.start, min(one.end, end)))


def is_given(ranges: BatchRanges, one: Stretch) -> bool:
    """Whether its range is just what is wanted of *one*."""
    return one.lost is None and ranges[one.source.partition] == (one.start, one.end)


def _parts(
    batch: MicroBatch, targets: Mapping[str, PartTarget], given: Mapping[str, Sequence[Stretch]]
) -> dict[str, list[Part]] | None:
    """The parts of the *given* stretches by topic; None if Spark cannot read them."""
    wanted = {one.source.partition: (one.start, one.end) for some in given.values() for one in some}
    if not wanted:
        return {}
    rows = batch.records if wanted == batch.ranges else batch.records.where(_condition(wanted))
    try:
        answers = collected(rows, partial(write_topics, targets=targets), PART, "copying a batch")
    except (PipelineError, StorageError):
        # Whatever it is: reading the same as a run does tells, and knows what to do about it.
        return None
    found: dict[str, list[Part]] = {}
    for one in answers:
        topic, _, text = one.partition(" ")
        part = Part.from_json(text)
        start, end = wanted[TopicPartition(topic, part.partition)]
        if not start <= part.first_offset <= part.last_offset < end:
            return None
        found.setdefault(topic, []).append(part)
    for some in found.values():
        some.sort(key=lambda one: (one.partition, one.first_offset))
    return found


def _condition(wanted: Mapping[TopicPartition, tuple[int, int]]) -> str:
    """SQL that is true for records of *wanted* partitions."""
    return " or ".join(f"(topic = '{one.topic}' and partition = {one.partition})" for one in wanted)


def write_topics(
    batches: Iterator[pa.RecordBatch], targets: Mapping[str, PartTarget]
) -> Iterator[pa.RecordBatch]:
    """`write_parts` for a task that reads a partition of any topic; answers name the topic."""
    some = (one for one in batches if len(one))
    first = next(some, None)
    if first is None:
        return
    topic = first.column("topic")[0].as_py()
    for part in write_parts(chain([first], some), targets[topic]):
        text = part.column(PART)[0].as_py()
        yield answer(PART, f"{topic} {text}")
