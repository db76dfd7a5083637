"""A backup of topics, once: from where the last one ended to the stable end seen at the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from services.errors import BreakglassError
from services.kafka.wire.deadline import Deadline
from services.pipeline.backup_context import BackupRun
from services.pipeline.opening import begun, opened
from services.pipeline.report import BackupReport, TopicReport
from services.pipeline.resume_point import CopyStretch
from services.pipeline.session import jvm_errors
from services.pipeline.source import TopicSource, WantedTopics, read_sources
from services.recovery.group_reset import GroupStanding, read_standing
from services.topic_backup import group_history

ASK_SECONDS = 60.0


def back_up(run: BackupRun, wanted: WantedTopics) -> BackupReport:
    """Back up what is *wanted*. What goes wrong with one topic does not keep the others.

    Raises:
        UsageError: there is no such topic.
        Unreachable, NotAuthorized: the cluster cannot be asked.
    """
    sources = read_sources(run.client, wanted, Deadline.after(ASK_SECONDS))
    standing = _groups(run, sources)
    report = BackupReport(unread_groups=_unread(standing))
    run.meter.total = sum(
        one.stable_end - one.log_start for topic in sources for one in topic.partitions
    )
    report.topics = [_topic(run, source, standing) for source in sources]
    report.seconds = run.meter.seconds
    return report


def _topic(run: BackupRun, source: TopicSource, standing: GroupStanding) -> TopicReport:
    """Back one topic up; what went wrong is in the report."""
    report = begun(run, source)
    try:
        with jvm_errors(f"backing up {source.name}"), opened(run, source, report) as topic:
            skipped = sum(one.start - one.source.log_start for one in topic.todo)
            run.meter.count(source.name, skipped, 0)
            for job in jobs(topic.todo, run.settings.offsets_a_job):
                topic.copy.copy(job)
            group_history.update(topic.assembler.folder, _offsets_on(source, standing))
    except BreakglassError as error:
        report.error = str(error)
    return report


def jobs(todo: Sequence[CopyStretch], offsets: int) -> Iterator[list[CopyStretch]]:
    """The stretches of one topic in jobs of no more than so many *offsets* of a partition.

    Even where there is nothing to copy there is one job: it commits the partitions as they are.
    """
    waiting = list(todo)
    while True:
        job = [replace(one, end=min(one.end, one.start + offsets)) for one in waiting]
        yield job
        waiting = [
            replace(one, start=cut.end, lost=None)
            for one, cut in zip(waiting, job, strict=True)
            if cut.end < one.end
        ]
        if not waiting:
            return


def _groups(run: BackupRun, sources: Sequence[TopicSource]) -> GroupStanding:
    """What every group has committed on the topics."""
    deadline = Deadline.after(ASK_SECONDS)
    brokers = run.client.describe(deadline).brokers
    wanted = {one.partition for topic in sources for one in topic.partitions}
    asked = [one.id for one in brokers if one.fenced is not True]
    return read_standing(run.client, asked, wanted, deadline)


def _offsets_on(source: TopicSource, standing: GroupStanding) -> dict[int, Mapping[str, int]]:
    return {
        one.partition.partition: standing.offsets.get(one.partition, {})
        for one in source.partitions
    }


def _unread(standing: GroupStanding) -> tuple[str, ...]:
    silent = (f"groups of b{broker}: {why}" for broker, why in sorted(standing.unread.items()))
    return (*silent, *(f"not allowed: needs {acl}" for acl in standing.missing_acls))
