"""Reads the topics to copy before the copy starts, and decides where a backup resumes.

The ids, settings and log ends of a topic, and the leader epochs in its backup, show whether the
log still continues the backup.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.errors import UsageError
from breakglass.services.kafka.cluster.settings import read_topic_values
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    OffsetError,
    Unanswered,
    ask_brokers,
    by_leader,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import EpochHistory, TopicPartition, Unknown
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest
from breakglass.services.topic_backup.summary import (
    EpochStart,
    Gap,
    GapReason,
    LogLook,
    PartitionSummary,
    Unproved,
)

EPOCHS = 64
"""The number of leader epochs of a partition that are read, from the newest back."""
INTERNAL = "__"
"""The prefix of topics that a pattern does not choose."""


@dataclass(frozen=True, slots=True)
class WantedTopics:
    """The topics to copy: given by name, or all topics whose whole name matches a pattern."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def choose(self, existing: Iterable[str]) -> list[str]:
        """The topics, in order.

        Raises UsageError: a name does not exist, or the pattern is invalid.
        """
        there = set(existing)
        absent = sorted(set(self.names) - there)
        if absent:
            raise UsageError(f"There is no topic {', '.join(absent)}: check the spelling.")
        return sorted({*self.names, *self._fitting(there)})

    def _fitting(self, there: Iterable[str]) -> list[str]:
        if self.pattern is None:
            return []
        try:
            pattern = re.compile(self.pattern)
        except re.error as error:
            raise UsageError(f"--topics-regex {self.pattern!r}: {error}.") from None
        return [name for name in there if pattern.fullmatch(name) and not name.startswith(INTERNAL)]


@dataclass(frozen=True, slots=True)
class PartitionSource:
    """One partition as its leader reports it."""

    partition: TopicPartition
    leader: int
    log_start: int
    stable_end: int
    """The last stable offset: no transaction before it is open (B3)."""
    high_watermark: int
    epochs: EpochHistory | Unknown
    newest_ms: int | None | Unknown
    """The latest timestamp of its records."""
    leader_epoch: int | None = None
    """The current leader epoch; None if the broker does not report it."""

    @property
    def held_back(self) -> int:
        """Offsets that open transactions hide from a committed read."""
        return self.high_watermark - self.stable_end


@dataclass(frozen=True, slots=True)
class TopicSource:
    """One topic at the time of the query."""

    identity: TopicIdentity
    partitions: tuple[PartitionSource, ...]
    unread: Mapping[int, str]
    """Why partitions cannot be copied now, by number."""
    read_at_ms: int = 0
    """When it was read: before any of its logs' ends."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """All its settings, with defaults; empty if they are hidden."""

    @property
    def name(self) -> str:
        return self.identity.topic

    @property
    def compacted(self) -> bool:
        """Whether compaction may have removed offsets."""
        own = self.identity.config.get("cleanup.policy", "")
        return "compact" in self.settings.get("cleanup.policy", own)

    @property
    def look(self) -> LogLook | None:
        """What this reading says of deletions in a compacted topic; None for any other topic."""
        if not self.compacted:
            return None
        # A hidden setting may have any value.
        return LogLook(self.read_at_ms, int(self.settings.get("delete.retention.ms", 0)))


def read_sources(
    client: ReadClient,
    wanted: WantedTopics,
    deadline: Deadline,
    numbers: Container[int] | None = None,
    *,
    partial: bool = False,
) -> tuple[TopicSource, ...]:
    """Read the *wanted* topics; only the partitions *numbers*, by default all.

    With *partial*, the partitions of a leader that does not answer are `TopicSource.unread`.

    Raises:
        UsageError: as `WantedTopics.choose`.
        Unreachable, NotAuthorized: no broker returns the metadata, a leader does not answer, or
            an ACL is missing.
    """
    read_at_ms = now_ms()
    cluster_id = client.describe(deadline).cluster_id
    # A pattern needs the names of all topics; a few names do not.
    states = client.newest_partitions(() if wanted.pattern else wanted.names, deadline)
    topics = wanted.choose({state.partition.topic for state in states})
    held = [state for state in states if state.partition.topic in set(topics)]
    asked = [state for state in held if numbers is None or state.partition.partition in numbers]
    configs = read_topic_values(client.sender, topics, deadline) if topics else {}
    ids = {state.partition: state.topic_id for state in asked}
    answers = ask_brokers(
        by_leader(asked),
        lambda leader, some: _ask(client, leader, {one: ids[one] for one in some}, deadline),
    )
    if not partial:
        for answer in answers.values():
            if isinstance(answer, Unanswered):
                raise answer.error
    found = []
    for topic in topics:
        own = [state for state in held if state.partition.topic == topic]
        config, partitions, unread = configs[topic], [], {}
        for state in sorted(own, key=lambda state: state.partition):
            if state.partition not in ids:
                continue
            read = OFFLINE if state.leader is None else answers[state.partition]
            if isinstance(read, Unknown):
                unread[state.partition.partition] = read.reason
            else:
                partitions.append(read)
        own_config, settings = (
            ({}, {}) if isinstance(config, Unknown) else (config.own, config.valid)
        )
        identity = TopicIdentity(
            topic=topic,
            cluster_id=cluster_id,
            topic_id=own[0].topic_id,
            partition_count=len(own),
            config=own_config,
        )
        found.append(TopicSource(identity, tuple(partitions), unread, read_at_ms, settings))
    return tuple(found)


OFFLINE = Unknown("offline: no leader serves it")


def _ask(
    client: ReadClient, leader: int, partitions: Mapping[TopicPartition, UUID], deadline: Deadline
) -> dict[TopicPartition, PartitionSource | Unknown]:
    """The *partitions* as their *leader* reports them, from a few requests."""

    def ends(timestamp: int, isolation: int = 0) -> dict[TopicPartition, _Answer]:
        return list_offsets(
            client.sender,
            leader,
            partitions,
            timestamp,
            deadline,
            replica_id=LEADER_ONLY,
            isolation_level=isolation,
        )

    # The stable end first: the high watermark, read later, is never before it.
    starts, stable, high = ends(EARLIEST), ends(LATEST, READ_COMMITTED), ends(LATEST)
    replicas = client.replicas_on(leader)
    logs = replicas.read(partitions, deadline)
    replicas.deepen(partitions, EPOCHS, deadline)
    answers: dict[TopicPartition, PartitionSource | Unknown] = {}
    for partition in partitions:
        start, end, mark = starts[partition], stable[partition], high[partition]
        if isinstance(start, OffsetError):
            answers[partition] = start
        elif isinstance(end, OffsetError):
            answers[partition] = end
        elif isinstance(mark, OffsetError):
            answers[partition] = mark
        else:
            answers[partition] = PartitionSource(
                partition=partition,
                leader=leader,
                log_start=start.offset,
                stable_end=end.offset,
                high_watermark=mark.offset,
                epochs=replicas.history(partition),
                newest_ms=logs[partition].newest_ms,
                leader_epoch=end.leader_epoch if end.leader_epoch >= 0 else None,
            )
    return answers


_Answer = ListedOffset | OffsetError


@dataclass(frozen=True, slots=True)
class CopyStretch:
    """Offsets of one partition to copy."""

    source: PartitionSource
    start: int
    end: int
    lost: tuple[Gap, ...] = ()
    """Offsets before *start* that were deleted before they were copied."""

    @property
    def number(self) -> int:
        return self.source.partition.partition

    @property
    def offsets(self) -> int:
        return max(0, self.end - self.start)


def other_log(backed_up: TopicManifest | None, now: TopicSource) -> str:
    """Why the topic's log is not the log in the backup; empty if it is, or without a backup."""
    if backed_up is None:
        return ""
    was, is_now = backed_up.identity.topic_id, now.identity.topic_id
    if was is not None and is_now is not None and was != is_now:
        return f"the topic was deleted and recreated: its id was {was} and is {is_now}"
    for source in now.partitions:
        summary = backed_up.partition(source.partition.partition)
        reason = diverged(summary, source) if summary else ""
        if reason:
            return f"{source.partition}: {reason}"
    return ""


def diverged(backed_up: PartitionSummary, now: PartitionSource) -> str:
    """Why one partition's log no longer continues its backup; empty if nothing shows that."""
    return cut_since(backed_up.next_offset, epochs_of(backed_up), now)


def epochs_of(backed_up: PartitionSummary) -> Iterator[EpochStart]:
    """Offsets of a backup with the leader epochs that wrote them: enough to detect any cut.

    A cut removes all offsets up to the end, and a later epoch writes them again. So the last record
    of a segment stands for all before it, and the end of a partition for gaps after its records.
    """
    for segment in backed_up.segments:
        yield from segment.epochs
        if segment.epochs and segment.last_offset is not None:
            yield EpochStart(segment.epochs[-1].epoch, segment.last_offset)
    if backed_up.end_epoch is not None and backed_up.next_offset:
        yield EpochStart(backed_up.end_epoch, backed_up.next_offset - 1)


def end_epoch(epochs: EpochHistory | Unknown, end: int) -> int | None:
    """The leader epoch that wrote the offset before *end*; None if unknown."""
    return epochs.epoch_at(end - 1) if isinstance(epochs, EpochHistory) and end > 0 else None


def cut_since(end: int | None, epochs: Iterable[EpochStart], now: PartitionSource) -> str:
    """Why a log that was read up to *end* was cut since; *epochs* has offsets and their epochs."""
    if end is not None and end > now.high_watermark:
        return (
            f"the log ends at {now.high_watermark} and offsets up to {end} were read: an unclean "
            "election cut it"
        )
    if not isinstance(now.epochs, EpochHistory):
        return ""
    for begun in epochs:
        found = now.epochs.epoch_at(begun.offset)
        if found is None:
            # Epochs rise along a log: a lower one behind the offset is of another log.
            behind = (one.epoch for one in now.epochs.ranges if one.start > begun.offset)
            found = next((epoch for epoch in behind if epoch < begun.epoch), None)
        if found is not None and found != begun.epoch:
            return (
                f"offset {begun.offset} had leader epoch {begun.epoch} and now has {found}: "
                "an unclean election replaced its record"
            )
    return ""


def stretch(
    backed_up: PartitionSummary | None, now: PartitionSource, older: PartitionSummary | None = None
) -> CopyStretch:
    """The committed offsets of one partition that are not backed up yet.

    *older* is the partition in the generation before, of the same log: what it lost stays lost.
    """
    done = backed_up.next_offset if backed_up else None
    lost: tuple[Gap, ...] = ()
    if done is None and older is not None:
        gaps = (gap for segment in older.segments for gap in segment.gaps)
        lost = tuple(gap for gap in gaps if gap.reason is GapReason.LOST)
    before = done if done is not None or older is None else older.next_offset
    start = now.log_start if done is None else max(done, now.log_start)
    if before is not None and before < start:
        lost = (*lost, Gap(before, start, GapReason.LOST))
    lost = tuple(replace(gap, end=min(gap.end, start)) for gap in lost if gap.start < start)
    return CopyStretch(now, start, max(start, now.stable_end), lost)


def continued(backed_up: PartitionSummary, now: PartitionSource) -> bool:
    """Whether a leader epoch proves that the log continues its backup (B33).

    A leader only appends in its epoch, so the epoch of the log's start, or of its leader, proves it
    too if that is the epoch of the backup's end.
    """
    at = max((backed_up.next_offset or 0) - 1, now.log_start)
    found = now.epochs.epoch_at(at) if isinstance(now.epochs, EpochHistory) else None
    return backed_up.end_epoch is not None and backed_up.end_epoch in (found, now.leader_epoch)


def unseen_cut(backed_up: PartitionSummary, now: PartitionSource) -> Unproved | None:
    """The doubt about a backup of which the log has no record left, and that nothing continues.

    The log may have been cut below the end of the backup and written again: with the records, the
    epochs that show it are removed. None if the backup has that doubt already (B33).
    """
    end = backed_up.records_end
    if end > now.log_start or continued(backed_up, now):
        return None
    first = end if backed_up.first_offset is None else backed_up.first_offset
    doubt = Unproved(first, end, UNSEEN_CUT)
    within = (
        known.why == UNSEEN_CUT and known.start <= doubt.start and doubt.end <= known.end
        for known in backed_up.unproved
    )
    return None if doubt.start == end or any(within) else doubt


UNSEEN_CUT = (
    "the log had none of them any more when a run went on behind them, and no leader epoch shows "
    "that it continued them: an unclean election may have replaced some. To keep that proof, leave "
    "the last record that is backed up in the log"
)
TO_BE_COPIED = (
    "compaction or retention may have removed deletions of keys, and not every partition of the "
    "topic could be read to copy it again"
)
"""The doubt that a run leaves which cannot copy a whole topic: a later run does."""
UNSAID = {GapReason.COMPACTION, GapReason.UNKNOWN}
"""What a log that was compacted leaves out; without a batch around it, the reason is unknown."""
CLOCKS_MS = 60_000
"""How far the clocks of two machines that back up, or of a broker, may be apart."""


def lost_deletions(
    backed_up: PartitionSummary, now: TopicSource, missing: Collection[str], at_ms: int
) -> LogLook | None:
    """The look at the log since which deletions of keys may have been removed unseen (B16).

    None if they cannot have been. *missing* are the reasons for offsets that a copy which ends at
    *at_ms* does not have: a removed tombstone is one of these offsets. Compaction keeps it for
    delete.retention.ms, so that a copy which began in that time has it; retention does not.

    A topic that is not compacted may have been so since the backup: nothing else leaves offsets
    between batches out.
    """
    if any(doubt.why == TO_BE_COPIED for doubt in backed_up.unproved) and not now.unread:
        return backed_up.look or LogLook(0, 0)
    if now.look is None:
        holes = backed_up.next_offset is not None and {*missing} & UNSAID
        return (backed_up.look or LogLook(0, 0)) if holes else None
    if not {*missing} - {GapReason.CONTROL, GapReason.ABORTED}:
        return None
    if backed_up.next_offset is None:
        since = now.look
    else:
        since = backed_up.look or LogLook(0, 0)
        if GapReason.LOST in missing:
            return since
    kept = min(since.tombstones_ms, now.look.tombstones_ms)
    slack = 0 if since.at_ms == now.read_at_ms else CLOCKS_MS
    return since if at_ms - since.at_ms + slack >= kept else None
