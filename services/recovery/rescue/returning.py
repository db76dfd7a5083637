"""Finds the records that a dead broker would lose by starting under the current leaders.

A follower truncates each log where it diverges from the leader's, and drops records before the
leader's log start. Where a partition has no leader and the broker leads it as soon as it starts,
the other replicas are truncated to its log instead (R26). The broker is safe to start if every
dropped record, and every dropped marker of a transaction, is in a rescue: byte for byte where this
log is truncated, by offset and leader epoch where the others are. A log whose loss is unknown is
never safe. Folders and rescues are only read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from breakglass.services.divergence.log_source import LogSource, open_log
from breakglass.services.divergence.source import Reading, UnreadableRange
from breakglass.services.errors import BreakglassError
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    Unknown,
)
from breakglass.services.record_batches import Record
from breakglass.services.recovery.judgement.succession import inheritors
from breakglass.services.recovery.rescue.broker_folder import (
    ReplicaFolder,
    RescuedPartitionFolder,
    Rescues,
)
from breakglass.services.recovery.rescue.past_leader import (
    LeaderReach,
    epochs_of_batches,
    written_epochs,
)
from breakglass.services.recovery.rescue.spans import (
    Share,
    Span,
    at_risk_of_return,
    shares_of,
    unread_beside,
)
from breakglass.services.topic_backup.batch_log import BatchState


class ReturnFate(StrEnum):
    """What happens to one replica's log when its broker starts."""

    KEPT = "kept"
    """No record and no transaction marker is dropped."""
    RESCUED = "rescued"
    """Every dropped record and marker is in a rescue."""
    LOST = "lost"
    """Records or markers would be lost."""
    UNKNOWN = "unknown"
    """The result cannot be determined."""

    @property
    def safe(self) -> bool:
        """Whether this log allows its broker to start."""
        return self in (ReturnFate.KEPT, ReturnFate.RESCUED)


@dataclass(frozen=True, slots=True)
class ReturningReplica:
    """One replica of the broker."""

    partition: TopicPartition
    fate: ReturnFate
    why: str
    log: Path | None = None
    """The log's folder; None: the log is in none of the folders."""
    leader: int | None = None
    start: int = 0
    end: int = 0
    """The offsets of the log are ``[start, end)``."""
    dropped: tuple[Span, ...] = ()
    """The offsets that are truncated: of this log, or of the other replicas' where it *leads*."""
    records: int = 0
    """Number of readable records among the dropped offsets, without transaction markers; where it
    *leads*, the number of those offsets."""
    rescued: int = 0
    """Number of these records that are in a rescue."""
    markers: int = 0
    """Number of transaction markers among the dropped offsets."""
    lost_markers: int = 0
    """Number of these markers that are in no rescue: only they say how their transactions end."""
    unreadable: tuple[UnreadableRange, ...] = ()
    """Stretches of the dropped offsets that cannot be read."""
    first_lost: int | None = None
    """The lowest offset that would be lost."""
    leads: bool = False
    """The partition has no leader, and the broker leads it as soon as it starts: the other replicas
    are truncated to its log."""
    unread: tuple[int, ...] = ()
    """Brokers whose replicas would be truncated to this log, and could not be read."""
    reached: int = 0
    """The highest offset that the files beside its segments name."""
    torn: bool = False
    """A torn batch follows, which nobody can read: the broker truncates it when it starts."""

    @property
    def lost(self) -> int:
        """Records that would be lost."""
        return self.records - self.rescued


def returning(
    broker: int,
    replica: ReplicaFolder,
    state: PartitionState | None,
    reach: LeaderReach | None,
    rescues: Rescues,
    go_on: Callable[[], None] = lambda: None,
    hidden: str = "",
    evidence: PartitionEvidence | None = None,
    gone: Collection[int] = (),
) -> ReturningReplica:
    """What happens to *replica* when *broker* starts; *reach* is how far the leader has its log.

    *hidden* is why the cluster does not show the topic, though it may exist. *evidence* has the
    other replicas of a partition that the broker leads as soon as it starts; the disks of brokers
    of *gone* are lost. *go_on* is called now and then; an exception that it raises ends the
    reading. An error of a folder or a rescue makes the fate UNKNOWN.
    """
    partition = replica.partition
    fallback = ReturningReplica(partition, ReturnFate.UNKNOWN, "", replica.path)
    try:
        log = open_log(str(partition), replica.path)
        torn = log.torn_at()
        end = log.extent.end if torn is None else min(torn, log.extent.end)
        start = min(end, max(log.extent.start, replica.log_start))
        described = replace(
            fallback, start=start, end=end, torn=torn is not None, reached=replica.reached
        )
        if hidden:
            return replace(described, why=hidden)
        if state is None or broker not in state.assignment or replica.topic_id != state.topic_id:
            return _set_aside(broker, described, replica, state)
        described = replace(described, leader=state.leader)
        if state.leader is None:
            leads = broker in inheritors(state)
            damage = _damage(log, replica, start, end, go_on) if leads else None
            return _leaderless(broker, described, state, evidence, rescues, damage, gone)
        if state.leader == broker:
            return replace(described, why=f"the cluster says that b{broker} leads it now")
        if reach is not None and reach.parts is not None and reach.begins is not None:
            return _follower(log, described, reach.parts, reach.begins, rescues, go_on)
        # Whatever the start drops of it: a log that is rescued from end to end loses nothing.
        worst = _follower(log, described, start, start, rescues, go_on)
        if worst.fate.safe:
            return worst
        why = f"b{state.leader} does not tell what it holds" if reach is None else reach.why
        return replace(worst, fate=ReturnFate.UNKNOWN, why=f"{why}; {worst.why}")
    except BreakglassError as error:
        return replace(fallback, why=str(error))


def absent(broker: int, state: PartitionState, *, never_made: bool = False) -> ReturningReplica:
    """A replica that is assigned to *broker* and is in none of the broker's folders.

    *never_made*: the folders are all that the broker has, and nothing was heard of such a log.
    """
    if never_made and state.leader not in (None, broker):
        why = f"b{broker} has no log of it, and copies that of b{state.leader}"
        return ReturningReplica(state.partition, ReturnFate.KEPT, why, leader=state.leader)
    role = state.role(broker)
    why = "it is in none of these folders: name each of the broker's log.dirs"
    if state.leader is None and role is not Role.STALE:
        why = f"{why}; were it not there, b{broker} would be elected EMPTY"
    elif state.leader is not None:
        why = f"{why}, or add --all-log-dirs if these are all"
    return ReturningReplica(state.partition, ReturnFate.UNKNOWN, why, leader=state.leader)


def _set_aside(
    broker: int, described: ReturningReplica, replica: ReplicaFolder, state: PartitionState | None
) -> ReturningReplica:
    """A replica that its broker does not own.

    A broker renames a stray replica and deletes nothing (LogManager.isStrayKraftReplica). It also
    treats a folder without a topic id as stray.
    """
    if state is None:
        why = "the cluster has no such partition"
    elif replica.topic_id != state.topic_id:
        why = "the cluster's topic of that name is another one"
    else:
        why = f"it is no longer assigned to b{broker}"
    return replace(
        described, fate=ReturnFate.KEPT, why=f"{why}: set aside as `-stray`, not deleted"
    )


def _leaderless(
    broker: int,
    described: ReturningReplica,
    state: PartitionState,
    evidence: PartitionEvidence | None,
    rescues: Rescues,
    damage: UnreadableRange | None,
    gone: Collection[int],
) -> ReturningReplica:
    """A replica without leader: it stays as it is, or leads and the others are truncated to it."""
    if broker not in inheritors(state):
        unclean = evidence is not None and evidence.settings.unclean_election
        if unclean is not False:
            value = f"unknown ({unclean.reason})" if isinstance(unclean, Unknown) else "true"
            why = (
                f"unclean.leader.election.enable is {value}: b{broker} may be elected as soon as "
                f"it starts, with its log to {described.end:,}, and the others are truncated to it"
            )
            return replace(described, why=why, leads=True)
        why = "no broker leads it, so a start truncates nothing"
        return replace(described, fate=ReturnFate.KEPT, why=why)
    leads = f"b{broker} leads it again with its log to {described.end:,}"
    described = replace(described, leads=True)
    if damage is not None:
        why = (
            f"it would lead, and offsets {damage.start:,} to {damage.end - 1:,} of its log cannot "
            f"be read ({damage.reason}): its broker, and then the others, may be truncated there"
        )
        return replace(described, unreadable=(damage,), why=why)
    others = [
        replica for replica in (evidence.replicas if evidence else ()) if replica.broker != broker
    ]
    alone = state.assignment == (broker,)
    if described.end <= described.start and not alone and not _never_written(others, gone):
        silent = [one.broker for one in others if isinstance(one.log_end, Unknown)]
        way = ""
        if _never_written(others, silent):
            names = " and ".join(f"b{one}" for one in silent)
            disks = " ".join(f"--gone {one}" for one in silent)
            way = (
                f", unless {names} never had a record there: read that disk, too (--beside "
                f"log:DIR), or say that it is lost ({disks})"
            )
        why = f"its log is EMPTY here, and b{broker} would be elected with it: do not start it{way}"
        return replace(described, why=why)
    if alone:
        why = f"{leads}, and has no other replica"
        return replace(described, fate=ReturnFate.KEPT, why=why)
    if evidence is None:
        return replace(described, why=f"{leads}, and the other replicas could not be read")
    assert described.log is not None
    beside = with_disk(evidence, broker, described.log, described.start, described.end)
    described = replace(described, unread=unread_beside(beside, broker))
    at_risk = at_risk_of_return(beside, broker)
    shares = () if at_risk is None else shares_of(at_risk)
    if isinstance(shares, Unknown):
        return replace(described, why=f"{leads}; what that truncates is unknown: {shares.reason}")
    if not shares:
        names = " and ".join(f"b{one}" for one in described.unread)
        if names and described.reached > described.end:
            why = (
                f"{leads}, and reached {described.reached:,} before it lost its tail: {names}, "
                "unread, may have that"
            )
            return replace(described, why=why)
        why = f"{leads}; no replica that was read holds more{names and f', {names} unread'}"
        return replace(described, fate=ReturnFate.KEPT, why=why)
    spans = tuple(sorted({span for share in shares for span in share.spans}))
    cut = sum(share.offsets for share in shares)
    missing = [
        span
        for share in shares
        for span in _in_no_rescue(share, rescues.get(described.partition, ()))
    ]
    lost = sum(span.offsets for span in missing)
    held = replace(described, dropped=spans, records=cut, rescued=cut - lost)
    holders = " and ".join(f"b{share.replica.broker}" for share in shares)
    if not missing:
        why = f"{leads}; all that it truncates of {holders} is rescued: {lost_text(cut, 0)}"
        return replace(held, fate=ReturnFate.RESCUED, why=why)
    why = (
        f"{leads}, which truncates {lost_text(cut, 0)} of {holders}; {lost:,} are in no rescue, "
        f"the first at offset {min(missing).start:,}"
    )
    return replace(held, fate=ReturnFate.LOST, first_lost=min(missing).start, why=why)


def _damage(
    log: LogSource, replica: ReplicaFolder, start: int, end: int, go_on: Callable[[], None]
) -> UnreadableRange | None:
    """The first damage of ``[start, end)``: a broker that recovers its log truncates it there.

    Of a hole in its middle a broker notices nothing, and leads without those records.
    """
    reached = start
    for item in log.whole_batches(log.extent.start, Reading()):
        go_on()
        if isinstance(item, UnreadableRange):
            if item.start < end:
                return item
            break
        if hole := replica.hole(reached, min(item.header.base_offset, end)):
            return hole
        reached = max(reached, item.header.next_offset)
    return replica.hole(reached, end)


def _never_written(others: Sequence[ReplicaLog], but: Collection[int] = ()) -> bool:
    """Whether each, *but* some unread, was read and never had a record (R31, R47)."""
    return bool(others) and all(
        one.broker in but if isinstance(one.log_end, Unknown) else one.empty and one.log_end == 0
        for one in others
    )


def with_disk(
    evidence: PartitionEvidence, broker: int, folder: Path, start: int, end: int
) -> PartitionEvidence:
    """*evidence* with the log of *broker* as its *folder* has it, from *start* to *end*."""
    epochs = written_epochs(folder, end)
    if isinstance(epochs, Unknown):
        epochs = epochs_of_batches(open_log(folder.name, folder), start, end)
    return replace(
        evidence,
        replicas=tuple(
            replace(replica, log_start=start, log_end=end, epochs=epochs)
            if replica.broker == broker
            else replica
            for replica in evidence.replicas
        ),
    )


def _in_no_rescue(share: Share, rescues: Sequence[RescuedPartitionFolder]) -> Iterator[Span]:
    """The offsets of *share* that no rescue has with the leader epoch of its replica.

    Two batches with the same offset and leader epoch are the same batch. A compacted log has gaps
    between its batches: a rescue that has those on both sides has all.
    """
    history = share.replica.epochs
    epochs = () if isinstance(history, Unknown) else history.ranges
    gaps = share.evidence.settings.compacted is not False
    for span in share.spans:
        parts: list[Span] = []
        for rescue in rescues:
            deque(rescue.records(span.start, span.end), maxlen=0)  # Raises where one is damaged.
            states = [
                state
                for state in rescue.states(span.start)
                if state.base_offset < span.end
                and any(
                    one.start <= state.base_offset < one.end and one.epoch == state.leader_epoch
                    for one in epochs
                )
            ]
            parts += (Span(state.base_offset, state.last_offset + 1) for state in states)
            if gaps and states:
                parts.append(Span(states[0].base_offset, states[-1].last_offset + 1))
        reached = span.start
        for part in sorted(parts):
            if part.start > reached:
                yield Span(reached, min(part.start, span.end))
            reached = max(reached, part.end)
        if reached < span.end:
            yield Span(reached, span.end)


def _follower(
    log: LogSource,
    described: ReturningReplica,
    parts: int,
    begins: int,
    rescues: Rescues,
    go_on: Callable[[], None],
) -> ReturningReplica:
    """A follower: it truncates its log at *parts*, and drops records before *begins*."""
    spans = tuple(
        span
        for span in (
            Span(described.start, min(begins, described.end)),
            Span(max(parts, described.start, begins), described.end),
        )
        if span.start < span.end
    )
    if not spans:
        empty = described.start >= described.end
        why = "it holds no records" if empty else f"b{described.leader} holds all of it"
        return replace(described, fate=ReturnFate.KEPT, why=why)
    tally = _Tally(go_on)
    for span in spans:
        tally.count(log, span, rescues.get(described.partition, ()))
    held = replace(
        described,
        dropped=spans,
        records=tally.records,
        rescued=tally.rescued,
        markers=tally.markers,
        lost_markers=tally.lost_markers,
        unreadable=tuple(tally.unreadable),
        first_lost=tally.first_lost,
    )
    if held.lost or held.lost_markers:
        lost = lost_text(held.lost, held.lost_markers)
        why = f"in no rescue: {lost}, the first at offset {held.first_lost:,}"
        return replace(held, fate=ReturnFate.LOST, why=why)
    if held.unreadable:
        first = held.unreadable[0]
        why = f"offsets {first.start:,} to {first.end - 1:,} cannot be read: {first.reason}"
        return replace(held, why=why)
    if not held.records and not held.markers:
        why = "what it drops holds no records and no transaction markers"
        return replace(held, fate=ReturnFate.KEPT, why=why)
    for rescue in rescues.get(described.partition, ()):
        # What the rescue says of its batches is committed with it: a changed line is damage.
        deque(rescue.states(0), maxlen=0)
    why = f"all that it drops is rescued: {lost_text(held.records, held.markers)}"
    return replace(held, fate=ReturnFate.RESCUED, why=why)


def lost_text(records: int, markers: int) -> str:
    """``35 records``, ``35 records and 1 transaction marker``, ``1 transaction marker``."""
    told = [f"{records:,} record{'' if records == 1 else 's'}"] if records or not markers else []
    if markers:
        told.append(f"{markers:,} transaction marker{'' if markers == 1 else 's'}")
    return " and ".join(told)


@dataclass(slots=True)
class _Tally:
    """Counts the records and markers of a log that rescues have, each compared as a whole."""

    go_on: Callable[[], None]
    records: int = 0
    rescued: int = 0
    markers: int = 0
    lost_markers: int = 0
    first_lost: int | None = None
    unreadable: list[UnreadableRange] = field(default_factory=list)

    def count(self, log: LogSource, span: Span, rescues: Sequence[RescuedPartitionFolder]) -> None:
        """Count the records of *span*. Raises BreakglassError if a rescue cannot be read."""
        held = [_Cursor(rescue.records(span.start, span.end)) for rescue in rescues]
        saved: frozenset[BatchState] | None = None
        for item in log.whole_batches(span.start, Reading()):
            self.go_on()
            if isinstance(item, UnreadableRange):
                if item.start < span.end:
                    self.unreadable.append(item)
                continue
            if item.header.base_offset >= span.end:
                return
            if item.header.control:
                marker = BatchState.of(item)
                if marker.commit is not None and marker.base_offset >= span.start:
                    saved = (
                        frozenset(
                            state
                            for rescue in rescues
                            for state in rescue.markers(span.start, span.end)
                        )
                        if saved is None
                        else saved
                    )
                    self._take_marker(marker, saved)
                continue
            for record in item.records:
                if span.start <= record.offset < span.end:
                    self.records += 1
                    if any(cursor.holds(record) for cursor in held):
                        self.rescued += 1
                    elif self.first_lost is None:
                        self.first_lost = record.offset

    def _take_marker(self, marker: BatchState, saved: frozenset[BatchState]) -> None:
        self.markers += 1
        if marker in saved:
            return
        self.lost_markers += 1
        if self.first_lost is None:
            self.first_lost = marker.base_offset


class _Cursor:
    """A forward reader of a rescue, in step with the log that it is compared with."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._next = next(records, None)

    def holds(self, record: Record) -> bool:
        """Whether the rescue has *record*, byte for byte; call in the order of offsets."""
        while self._next is not None and self._next.offset < record.offset:
            self._next = next(self._records, None)
        return self._next == record
