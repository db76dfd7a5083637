"""One topic of a run with its folder taken: which generation it is, what is to be copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from services.errors import BreakglassError, ClusterError
from services.kafka.wire.deadline import Deadline
from services.pipeline.backup_context import BackupRun
from services.pipeline.generations import Generation, following, latest, set_aside
from services.pipeline.report import BackupReport, PartitionReport, TopicReport
from services.pipeline.resume_point import CopyStretch, diverged, other_log, stretch
from services.pipeline.session import jvm_errors
from services.pipeline.source import PartitionSource, TopicSource, WantedTopics, read_sources
from services.pipeline.topic_copy import TopicCopy
from services.recovery.group_reset import GroupStanding, read_standing
from services.topic_backup import group_history
from services.topic_backup.assembling import Assembler, assembling
from services.topic_backup.manifest import read_manifest


@dataclass(frozen=True, slots=True)
class OpenTopic:
    """A topic that nobody else backs up to that place meanwhile."""

    source: TopicSource
    assembler: Assembler
    report: TopicReport
    todo: list[CopyStretch]
    """What is not backed up yet of each partition, up to its stable end."""
    copy: TopicCopy


def begun(run: BackupRun, source: TopicSource) -> TopicReport:
    """The report of a topic with the generation that its log belongs to.

    Raises:
        MalformedInput, UnsupportedSchema: its manifest cannot be read.
        UsageError: the new generation cannot get the folder that is wanted.
    """
    generation, because = _generation(run, source)
    where = run.settings.store.where(generation.name)
    aside = generation.others_aside
    report = TopicReport(source.name, where, generation.number, aside, because)
    report.unread = source.unread
    return report


@contextmanager
def opened(run: BackupRun, source: TopicSource, report: TopicReport) -> Iterator[OpenTopic]:
    """Take the folder that *report* names, until the end of the ``with`` block.

    Raises:
        ClusterError: its log is not the one that was backed up.
        AlreadyRunning, StorageError and others: as `assembling`.
    """
    identity = source.identity
    if report.new_generation:
        identity = replace(identity, origin={"new generation": report.new_generation})
    how = run.settings
    generation = Generation(source.name, report.generation, report.others_aside)
    if report.new_generation and generation.others_aside:
        set_aside(how.store, latest(how.store, source.name))
    folder = how.store.folder(generation.name, how.form)
    with assembling(folder, identity, how.max_segment_bytes) as assembler:
        todo = [_stretch(assembler, one) for one in source.partitions]
        report.partitions = [_reported(one) for one in todo]
        yield OpenTopic(source, assembler, report, todo, TopicCopy(run, source, assembler, report))


def _generation(run: BackupRun, source: TopicSource) -> tuple[Generation, str]:
    """The generation of the topic's log, and why it is a new one, if it is."""
    store = run.settings.store
    newest = latest(store, source.name)
    held = read_manifest(store.folder(newest.name)) if store.names(newest.name) else None
    because = other_log(held, source)
    return (following(newest, run.settings.new_generation), because) if because else (newest, "")


def _stretch(assembler: Assembler, source: PartitionSource) -> CopyStretch:
    held = assembler.partition(source.partition.partition)
    reason = diverged(held, source)
    if reason:
        raise ClusterError(f"{source.partition}: {reason}; run the backup again")
    return stretch(held, source)


def _reported(one: CopyStretch) -> PartitionReport:
    report = PartitionReport(one.source.partition, one.start, one.start)
    report.held_back = one.source.held_back
    return report


ASK_SECONDS = 60.0


def back_up(run: BackupRun, wanted: WantedTopics) -> BackupReport:
    """Back up what is *wanted*. What goes wrong with one topic does not keep the others.

    Raises:
        UsageError: there is no such topic.
        Unreachable, NotAuthorized: the cluster cannot be asked.
    """
    sources = read_sources(run.client, wanted, Deadline.after(ASK_SECONDS), partial=True)
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
