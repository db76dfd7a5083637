"""One topic of a run with its folder taken: which generation it is, what is to be copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from services.errors import ClusterError
from services.pipeline.backup_context import BackupRun
from services.pipeline.generations import Generation, following, latest, set_aside
from services.pipeline.report import PartitionReport, TopicReport
from services.pipeline.resume_point import CopyStretch, diverged, other_log, stretch
from services.pipeline.source import PartitionSource, TopicSource
from services.pipeline.topic_copy import TopicCopy
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
