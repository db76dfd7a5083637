"""A backup of topics: each run copies from the last commit to the stable ends at its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, ClusterError, UsageError
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup_context import (
    BackupReport,
    BackupRun,
    Generation,
    PartitionReport,
    TopicReport,
    following,
    latest,
    name_before,
    set_aside,
)
from breakglass.services.pipeline.session import jvm_errors
from breakglass.services.pipeline.source import (
    CopyStretch,
    PartitionSource,
    TopicSource,
    WantedTopics,
    continued,
    diverged,
    other_log,
    read_sources,
    stretch,
)
from breakglass.services.pipeline.stored_segments import stored_segments
from breakglass.services.pipeline.topic_copy import LostDeletions, TopicCopy
from breakglass.services.pipeline.verify import LISTED, PartitionVerified, compared
from breakglass.services.recovery.group_standing import GroupStanding, read_standing
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.assembler import Assembler, assembling
from breakglass.services.topic_backup.catalog import BEGUN
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import missing_of
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.notes import (
    UNSAID,
    Unsaid,
    forget,
    note_unsaid,
    read_unsaid,
    read_verified,
)
from breakglass.services.topic_backup.store.store import Store
from breakglass.services.topic_backup.summary import (
    UNVOUCHED,
    GapReason,
    PartitionSummary,
    Unproved,
)
from breakglass.services.topic_backup.verification import lacks_last

NAMED = 3
"""How many partitions a sentence names."""
TAIL = 10_000
"""How many offsets before the end of a backup are compared if its end has no leader epoch."""
NOT_IN_TOPIC = "the topic does not have these records, so they could not be compared"


class OtherLog(ClusterError):
    """The files are not of the topic's log: it is copied into a folder of its own (B28)."""


@dataclass(frozen=True, slots=True)
class OpenTopic:
    """A topic whose backup folder this process has locked."""

    source: TopicSource
    assembler: Assembler
    report: TopicReport
    todo: list[CopyStretch]
    """The offsets of each partition that still have to be copied, up to its stable end."""
    copy: TopicCopy


def begun(
    run: BackupRun, source: TopicSource, reason: str = "", *, recopied: bool = False
) -> TopicReport:
    """Start the report of a topic, with the generation that its log belongs to.

    *reason* is why a new generation is needed, if that is known; it may be of the same log, which
    is *recopied*.

    Raises:
        MalformedInput, UnsupportedSchema: its manifest cannot be read.
        UsageError: the new generation cannot have the requested folder.
    """
    generation, because, before = _generation(run, source, reason)
    where = run.settings.store.where(generation.name)
    aside = generation.others_aside
    report = TopicReport(source.name, where, generation.number, aside, because)
    report.unread = source.unread
    report.partitions_before = before
    report.other_log = bool(because) and not recopied
    return report


@contextmanager
def opened(run: BackupRun, source: TopicSource, report: TopicReport) -> Iterator[OpenTopic]:
    """Lock the folder that *report* names until the ``with`` block ends.

    Raises:
        OtherLog: its log is not the log that was backed up.
        AlreadyRunning, StorageError and others: as `assembling`.
    """
    identity = source.identity
    how = run.settings
    generation = report.place
    if report.new_generation and generation.others_aside:
        set_aside(how.store, latest(how.store, source.name))
    folder = how.store.folder(generation.name, how.form)
    left = read_unsaid(folder)
    report.new_generation = report.new_generation or left.new_generation
    report.other_log = report.other_log or left.other_log
    if report.new_generation:
        origin = {"new generation": report.new_generation, BEGUN: str(source.read_at_ms)}
        identity = replace(identity, origin=origin)
    with assembling(folder, identity, how.max_segment_bytes) as assembler:
        older = None if assembler.committed else _before(run, source, generation)
        if report.new_generation and not assembler.committed:
            first = Unsaid({}, {}, report.new_generation, report.other_log)
            note_unsaid(folder, first)
        against = require_joined(run, source, assembler)
        had = _partitions_before(assembler.committed or older, generation)
        todo = []
        for log in source.partitions:
            number = log.partition.partition
            before = older.partition(number) if older else None
            if had is not None and number >= had:
                # Created after the last look at the topic, so its first offset was 0.
                before = PartitionSummary(number, 0, ())
            todo.append(stretch(assembler.partition(number), log, before))
        known = left.committed(assembler.committed)
        report.partitions = [_reported(assembler, one, known, against) for one in todo]
        report.damages = list(known_damages(assembler))
        yield OpenTopic(source, assembler, report, todo, TopicCopy(run, source, assembler, report))


def _generation(
    run: BackupRun, source: TopicSource, reason: str
) -> tuple[Generation, str, int | None]:
    """The generation of the topic's log, the reason if it is new, and the partitions it had."""
    store = run.settings.store
    newest = latest(store, source.name)
    manifest = read_manifest(store.folder(newest.name)) if store.names(newest.name) else None
    because = reason or other_log(manifest, source)
    if because:
        because += _not_copied(manifest) if not reason else ""
        return following(newest, run.settings.new_generation), because, None
    return newest, "", manifest.identity.partition_count if manifest else None


def _before(run: BackupRun, source: TopicSource, one: Generation) -> TopicManifest | None:
    """The last commit of the generation before *one*, if it is of the same topic."""
    name, store = name_before(one), run.settings.store
    if name is None or not store.names(name):
        return None
    older = read_manifest(store.folder(name))
    known = older is not None and None not in (older.identity.topic_id, source.identity.topic_id)
    same = not known or (older and older.identity.topic_id == source.identity.topic_id)
    return older if same else None


def _partitions_before(known: TopicManifest | None, one: Generation) -> int | None:
    """How many partitions of this topic the backup has seen; None if it sees the topic first."""
    if known is not None:
        return known.identity.partition_count
    return 0 if one.number > 1 else None


def _not_copied(older: TopicManifest | None) -> str:
    """What no backup has of a log that is replaced by another, behind a reason for that."""
    ends = [(part.partition, part.next_offset or 0) for part in older.partitions] if older else []
    named = ", ".join(f"{end:,} of partition {number}" for number, end in ends[:NAMED])
    more = f" and of {len(ends) - NAMED:,} more partitions" if len(ends) > NAMED else ""
    behind = f"from offset {named}{more} on" if ends else "behind its last copied offset"
    return f"; whatever the older log had {behind} is in no backup"


def require_joined(run: BackupRun, topic: TopicSource, assembler: Assembler) -> dict[int, str]:
    """Check that each log continues its backup; return the offsets that were compared, as text.

    Records that no manifest vouches for are compared with the log, and so is the end of a backup
    that no leader epoch proves to be of the log. What is equal is proved (B28).

    Raises:
        OtherLog: a log was cut, or its records are not those of the folder.
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    commit = assembler.committed
    known = commit if commit and commit.identity.topic_id and topic.identity.topic_id else None
    held = {
        log.partition.partition: assembler.partition(log.partition.partition)
        for log in topic.partitions
    }
    ranges = {}
    for log in topic.partitions:
        number = log.partition.partition
        done = known.partition(number) if known else None
        vouched = held[number].next_offset == (done.next_offset if done else None)
        reason = diverged(held[number], log)
        if span := to_compare(held[number], log, vouched=vouched):
            ranges[number] = span
        elif not (reason or vouched) and held[number].records_end:
            reason = f"the log begins at {log.log_start}, so nothing shows that the files are of it"
        if reason:
            raise OtherLog(f"{log.partition}: {reason}")
    stored = {number: stored_segments(assembler.folder, held[number].segments) for number in ranges}
    found = compared(run, topic, stored, ranges)
    for number, part in found.items():
        if others := other_records(held[number], part):
            raise OtherLog(
                f"{topic.name}-{number}: {others:,} of the records at {part.start}..{part.end - 1} "
                "are not those in the files: the topic was created again, cut or compacted since, "
                "or the files are damaged"
            )
        doubts = left_unproved(held[number].unproved, part)
        assembler.amend(replace(held[number], unproved=doubts))
    return {number: f"{start}..{end - 1}" for number, (start, end) in ranges.items()}


def to_compare(
    held: PartitionSummary, log: PartitionSource, *, vouched: bool
) -> tuple[int, int] | None:
    """The offsets of a backup to compare with the log; None if none has to be, or can be.

    They are *vouched* for if a commit that names the log of this topic has the last of them.
    """
    wanted = [(doubt.start, doubt.end) for doubt in held.unproved if doubt.why == UNVOUCHED]
    if not (vouched and continued(held, log)) and held.next_offset:
        wanted.append((max(0, held.records_end - TAIL), held.next_offset))
    low, high = log.log_start, log.stable_end
    there = [
        (max(start, low), min(end, high))
        for start, end in wanted
        if max(start, low) < min(end, high)
    ]
    return (min(there)[0], max(end for _, end in there)) if there else None


def other_records(held: PartitionSummary, found: PartitionVerified) -> int:
    """How many compared records show that the log is not that of the files.

    Where some are equal, those that the log lacks were aborted or compacted. Those that the files
    lack may be known to be lost there.
    """
    every = (gap for segment in held.segments for gap in segment.gaps)
    gaps = [gap for gap in every if gap.reason is GapReason.LOST]
    extra = found.counts.get("extra", 0)
    known = [
        at
        for at in found.offsets.get("extra", ())
        if any(gap.start <= at < gap.end for gap in gaps)
    ]
    if len(known) == min(extra, LISTED) and extra <= sum(gap.end - gap.start for gap in gaps):
        extra = 0
    missing = 0 if found.equal else found.counts.get("missing", 0)
    return found.counts.get("different", 0) + extra + missing


def left_unproved(doubts: Sequence[Unproved], found: PartitionVerified) -> tuple[Unproved, ...]:
    """The *doubts* without the offsets that are equal in the topic."""
    left: tuple[Unproved, ...] = ()
    for doubt in doubts:
        start, end = max(doubt.start, found.start), min(doubt.end, found.end)
        if doubt.why != UNVOUCHED or start >= end:
            left = doubt.after(left)
            continue
        missing = [(at, at + 1) for at in sorted(found.offsets.get("missing", ()))]
        if found.counts.get("missing", 0) > LISTED:
            missing = [(start, end)]
        if doubt.start < start:
            left = replace(doubt, end=start).after(left)
        for first, last in missing:
            if start <= first < end:
                left = Unproved(first, last, NOT_IN_TOPIC).after(left)
        if end < doubt.end:
            left = replace(doubt, start=end).after(left)
    return left


def known_damages(assembler: Assembler) -> Iterator[str]:
    """What is known to be damaged behind which the run goes on (B29)."""
    folder, commit = assembler.folder, assembler.committed
    last, names = read_verified(folder), folder.names()
    if last is not None and not last.whole:
        against = f" against {last.against}" if last.against else ""
        yield f"its last verification{against} found damage or differences: verify it again"
    if lacks_last(folder, commit):
        yield "its last manifest is gone: what is taken up from its files stays not proved"
    sizes = isinstance(folder, LocalFolder)
    for part in commit.partitions if commit else ():
        for one in missing_of(names, folder, part, sizes=sizes):
            yield str(one.what)


def _reported(
    assembler: Assembler, todo: CopyStretch, left: Unsaid, against: Mapping[int, str]
) -> PartitionReport:
    report = PartitionReport(todo.source.partition, todo.start, todo.start)
    report.compared = against.get(todo.number, "")
    report.held_back = todo.source.held_back
    before = assembler.committed.partition(todo.number) if assembler.committed else None
    known = before.unproved if before else ()
    report.unproved = [one for one in assembler.partition(todo.number).unproved if one not in known]
    report.unproved += left.unproved.get(todo.number, ())
    report.lost += left.lost.get(todo.number, ())
    return report


def back_up(run: BackupRun, wanted: WantedTopics) -> BackupReport:
    """Back up the *wanted* topics. A topic that fails does not stop the others.

    Raises:
        UsageError: a named topic does not exist, or the pattern fits none.
        Unreachable, NotAuthorized: the cluster does not answer, or an ACL is missing.
    """
    sources = read_sources(run.client, wanted, Deadline.after(patience.JOB), partial=True)
    if not sources:
        raise UsageError(f"No topic fits {wanted.pattern!r}, so nothing is backed up: check it.")
    standing = _groups(run, sources)
    away = _away(standing)
    report = BackupReport(unread_groups=(*away, *_hidden(standing)), away=bool(away))
    run.meter.total = sum(
        partition.stable_end - partition.log_start
        for topic in sources
        for partition in topic.partitions
    )
    report.topics = [_topic(run, source, standing) for source in sources]
    report.seconds = run.meter.seconds
    return report


def _topic(run: BackupRun, source: TopicSource, standing: GroupStanding) -> TopicReport:
    """Back up one topic; the report has the error if it fails."""
    report = begun(run, source)
    try:
        try:
            _copied(run, source, report, standing)
        except LostDeletions as lost:
            report = begun(run, source, str(lost), recopied=True)
            _copied(run, source, report, standing, name_before(report.place))
        except OtherLog as other:
            report = begun(run, source, f"{other}{_not_copied(None)}")
            _copied(run, source, report, standing)
    except BreakglassError as error:
        report.error = str(error)
    return report


def said(store: Store, report: BackupReport) -> None:
    """Remove the notes of what *report* says, once an operator has it.

    Raises StorageError: a note cannot be removed.
    """
    for topic in report.topics:
        news = any(part.lost or part.unproved for part in topic.partitions)
        if not topic.error and (news or topic.new_generation):
            forget(store.folder(topic.place.name), UNSAID)


def _copied(
    run: BackupRun,
    source: TopicSource,
    report: TopicReport,
    standing: GroupStanding,
    before: str | None = None,
) -> None:
    """Copy the topic into the folder that *report* names. Raises as `opened` and `TopicCopy`.

    *before* names the folder of the same log's last generation, which has offsets of groups.
    """
    with jvm_errors(f"backing up {source.name}"), opened(run, source, report) as topic:
        skipped = sum(stretch.start - stretch.source.log_start for stretch in topic.todo)
        run.meter.count(source.name, skipped, 0)
        for job in jobs(topic.todo, run.settings.offsets_a_job):
            topic.copy.copy(job)
        offsets: dict[int, Mapping[str, int]] = {
            partition.partition.partition: standing.offsets.get(partition.partition, {})
            for partition in source.partitions
        }
        if before is not None:
            older = run.settings.store.folder(before)
            group_history.copy(older, topic.assembler.folder, sorted(offsets))
        away, hidden = _away(standing), _hidden(standing)
        report.groups_not_read = group_history.update(
            topic.assembler.folder,
            offsets,
            read=standing.coordinators if away or hidden else None,
            unread=away,
            hidden=hidden,
        )


def jobs(todo: Sequence[CopyStretch], offsets: int) -> Iterator[list[CopyStretch]]:
    """Divide the stretches of one topic into jobs of at most *offsets* offsets of each partition.

    A topic with nothing to copy has one job too: the job commits the partitions as they are.
    """
    waiting = list(todo)
    while True:
        job = [
            replace(stretch, end=min(stretch.end, stretch.start + offsets)) for stretch in waiting
        ]
        yield job
        waiting = [
            replace(stretch, start=cut.end, lost=())
            for stretch, cut in zip(waiting, job, strict=True)
            if cut.end < stretch.end
        ]
        if not waiting:
            return


def _groups(run: BackupRun, sources: Sequence[TopicSource]) -> GroupStanding:
    deadline = Deadline.after(patience.JOB)
    live = run.client.describe(deadline).live
    wanted = {partition.partition for topic in sources for partition in topic.partitions}
    return read_standing(run.client, live, wanted, deadline)


def _away(standing: GroupStanding) -> tuple[str, ...]:
    """The coordinators that could not be asked, with the reason."""
    silent = (f"groups of b{broker}: {why}" for broker, why in sorted(standing.unread.items()))
    return (*silent, *(f"groups of {partition}: it is offline" for partition in standing.offline))


def _hidden(standing: GroupStanding) -> tuple[str, ...]:
    return tuple(f"not allowed: needs {acl}" for acl in standing.missing_acls)
