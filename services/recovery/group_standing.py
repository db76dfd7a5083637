"""Where consumer groups stand beside the logs that they read: past the end, or past a cut.

A group past the end meets OFFSET_OUT_OF_RANGE (R19). A log that an election cut below a committed
offset, and that was refilled since, gives no error: the group would skip the new records below
that offset (R37). A consumer commits the leader epoch of the record that it read last; where the
leader's log ends that epoch at a lower offset, the log was cut there. A log that lacks that epoch
parted from the group's at or below the end of the epoch before; only another log that has it shows
where. Of clients that commit no epoch, the journal of the election lists those that had committed
past the new end.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from breakglass.services import patience
from breakglass.services.divergence.replica_source import parting
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.journal import JournalView
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    GroupOffsets,
    describing,
    offline_offsets,
    read_committed,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import ask_brokers, by_leader, list_offsets
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    EpochHistory,
    PartitionEvidence,
    PartitionState,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.group_reset import MoveReason, OffsetMove
from breakglass.services.recovery.ledger.entries import Holdings, read_holdings
from breakglass.services.recovery.timeline.ending import endings_of

PAST_END, ALL_GROUPS = "groups_past_end", "all_groups"
"""Fields of a partition in a journal's plan: groups with what they had committed, and whether all
groups were known. Journals of earlier releases lack them."""
NAMED = 3
"""How many groups a sentence names."""
LOSSLESS = ("0", "~0")
"""A price of nothing, as journals write it; those of earlier releases have ~ for compacted topics.
"""
DEPTHS = (64, 512, 4096)
"""How far epochs are read back for logs whose known ones begin after a committed one."""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """Committed offsets of groups, and the coordinator of each."""

    offsets: GroupOffsets
    coordinators: Mapping[str, int]
    unread: Mapping[int, str]
    """Brokers whose groups could not be read, with the reason."""
    missing_acls: tuple[str, ...] = ()
    """``DESCRIBE on group billing``: groups that this user may not describe are not among these."""
    offline: tuple[TopicPartition, ...] = ()
    """Partitions of `__consumer_offsets` without leader: nobody can read the groups there."""
    epochs: GroupOffsets = field(default_factory=dict)
    """The leader epoch of the record before each offset, where the consumer gave one."""


class Fork(NamedTuple):
    """Where a log stops to be the one that a group has read."""

    at: int
    known: bool = True
    """False: it lies there or below."""


@dataclass(frozen=True, slots=True)
class LeaderLog:
    """The log of a partition's leader."""

    topic_id: str
    start: int
    end: int
    epochs: EpochHistory | Unknown
    leader_epoch: int = -1
    others: tuple[EpochHistory, ...] = ()
    """Other logs of the partition, as they are or were once."""

    def shared_end(self, epoch: int) -> int | None:
        """Up to where at most this log is that of a reader whose last record was of *epoch*.

        None where the known epochs do not say.
        """
        if isinstance(self.epochs, Unknown) or not self.epochs.ranges:
            return None
        older = [range_ for range_ in self.epochs.ranges if range_.epoch <= epoch]
        if older:
            return older[-1].end
        whole = self.epochs.complete_from <= self.start
        return self.epochs.ranges[0].start if whole else None

    def lacks(self, epoch: int) -> bool:
        """Whether this log has lower epochs than *epoch*, and no record of it."""
        return self.shared_end(epoch) is not None and epoch not in written_in(self.epochs)

    def parting(self, other: EpochHistory, epoch: int | None = None) -> int | None:
        """Where this log parts from *other*, of which nothing after *epoch* counts."""
        if isinstance(self.epochs, Unknown):
            return None
        ranges = tuple(held for held in other.ranges if epoch is None or held.epoch <= epoch)
        parted = parting(EpochHistory(ranges, other.complete_from), self.epochs)
        if parted is None and max(other.complete_from, self.epochs.complete_from) <= self.start:
            return self.start
        return parted

    def fork(self, offset: int, epoch: int) -> Fork:
        """Where this log parts from that of a reader at *offset*; its last record is of *epoch*.

        A reader that began at the end under a leader that wrote nothing stands where the epoch
        before ends: nothing is missing there.
        """
        shared, end = self.shared_end(epoch), min(offset, self.end)
        if shared is None:
            return Fork(end, end == offset or end <= self.start)
        at = min(end, shared)
        if not self.lacks(epoch) or at <= self.start:
            return Fork(at)
        having = (other for other in self.others if epoch in written_in(other))
        found = [self.parting(other, epoch) for other in having]
        parted = [one for one in found if one is not None]
        return Fork(min([at, *parted]), bool(parted) or offset == shared)

    def fork_without_epoch(
        self, offset: int, at_most: int, cuts: Collection[JournalledCut] = ()
    ) -> Fork:
        """Where this log, cut at *at_most* or below, parts from that of a reader at *offset*.

        The reader's epoch is one of this log's if none is missing, now or at each election of
        *cuts*. Otherwise it may be that of any other log that reaches *offset*.
        """
        reaching = [
            other for other in self.others if other.ranges and other.ranges[-1].end >= offset
        ]
        parted = [one for other in reaching if (one := self.parting(other)) is not None]
        parted = [one for one in parted if one < offset]
        at, here = min([at_most, *parted]), written_in(self.epochs)
        oldest = min(here, default=0)
        told = _unbroken(self.epochs, self.start, self.leader_epoch) or (
            bool(cuts)
            and all(
                cut.unbroken and {one for one in cut.unbroken if one >= oldest} <= here
                for cut in cuts
            )
        )
        return Fork(at, bool(told or parted) or at == offset or at <= self.start)


def written_in(history: EpochHistory | Unknown) -> frozenset[int]:
    """The epochs of *history* that have records."""
    if isinstance(history, Unknown):
        return frozenset()
    return frozenset(held.epoch for held in history.ranges)


def _unbroken(history: EpochHistory | Unknown, start: int | Unknown, leader_epoch: object) -> bool:
    """Whether no epoch is missing in a log from *start* on, up to *leader_epoch*.

    A missing one may have written records that are in another log alone; that of the leader may
    have none.
    """
    if isinstance(history, Unknown) or isinstance(start, Unknown) or history.complete_from > start:
        return False
    if not history.ranges or not isinstance(leader_epoch, int):
        return False
    epochs = [*(held.epoch for held in history.ranges), leader_epoch]
    return all(after - before <= 1 for before, after in pairwise(epochs))


@dataclass(frozen=True, slots=True)
class JournalledCut:
    """An election of one partition, as its journal has it."""

    partition: TopicPartition
    topic_id: str
    log_end: int
    """Where the log of the new leader ended."""
    lossless: bool
    """It was agreed that no record is lost, and that no unread replica is given up."""
    past_end: Mapping[str, int]
    """What groups had committed past *log_end*."""
    all_groups: bool
    """No other group had: all were known."""
    journal: str
    at_ms: int = 0
    """When the journal ended: whatever a group committed until then, it read before the cut."""
    unbroken: frozenset[int] = frozenset()
    """The new leader's epochs, if none before the election is missing: groups had read no other."""


def planned_groups(evidence: PartitionEvidence, log_end: int | None) -> dict[str, object]:
    """The groups past the end of the log to elect, as a field of a journal's plan."""
    groups = evidence.group_offsets
    if log_end is None or isinstance(groups, Unknown):
        return {PAST_END: {}, ALL_GROUPS: False}
    past_end = {group: offset for group, offset in groups.items() if offset > log_end}
    return {PAST_END: past_end, ALL_GROUPS: not evidence.groups_unread}


def cuts_in(view: JournalView) -> Iterator[JournalledCut]:
    """The elections of *view* that gave a partition a leader, or may have."""
    planned = view.plan.items if view.plan is not None else {}
    for ending in endings_of(view):
        item = planned.get(ending.partition, {})
        log_end, listed = item.get("log_end"), item.get(PAST_END)
        as_agreed = ending.leader in (None, item.get("designee"))
        if not ending.may_be_led or not as_agreed or not isinstance(log_end, int):
            continue
        given = listed.items() if isinstance(listed, dict) else ()
        past_end = {name: at for name, at in given if isinstance(at, int)}
        told = read_holdings(item)
        log = told.replica(item.get("designee", -1)) if isinstance(told, Holdings) else None
        unbroken: frozenset[int] = frozenset()
        if log is not None and _unbroken(log.epochs, log.log_start, item.get("leader_epoch")):
            unbroken = written_in(log.epochs)
        yield JournalledCut(
            ending.partition,
            str(item.get("topic_id", "")),
            log_end,
            ending.price in LOSSLESS and not ending.abandons,
            past_end,
            item.get(ALL_GROUPS) is True,
            view.path.stem,
            view.entries[-1].at_ms,
            unbroken,
        )


def read_standing(
    client: ReadClient,
    brokers: Iterable[int],
    wanted: Container[TopicPartition],
    deadline: Deadline,
) -> GroupStanding:
    """The offsets that every group committed on *wanted* partitions."""
    offsets: GroupOffsets = {}
    epochs: GroupOffsets = {}
    coordinators: dict[str, int] = {}
    unread: dict[int, str] = {}
    hidden: list[str] = []
    for broker in brokers:
        committed = read_committed(client.sender, broker, wanted, deadline)
        hidden += committed.hidden
        if committed.unready:
            unread[broker] = committed.unready
        offsets_read = committed.offsets
        if isinstance(offsets_read, Unknown):
            unread[broker] = offsets_read.reason
            continue
        for partition, groups in offsets_read.items():
            offsets.setdefault(partition, {}).update(groups)
            epochs.setdefault(partition, {}).update(committed.epochs.get(partition, {}))
            coordinators.update(dict.fromkeys(groups, broker))
    acls = tuple(map(describing, sorted(hidden)))
    offline = offline_offsets(client, deadline)
    return GroupStanding(offsets, coordinators, unread, acls, offline, epochs)


def read_leader_logs(
    client: ReadClient, states: Collection[PartitionState], epochs: GroupOffsets, deadline: Deadline
) -> dict[TopicPartition, LeaderLog | Unknown]:
    """The logs of the leaders of *states*, each read back to the committed *epochs* of its groups.

    A log ends at its log end offset: a leader serves fetches from there, however far behind its
    high watermark is. The log of a partition that is offline is Unknown.
    """
    ids = {state.partition: state.topic_id for state in states}
    led = {state.partition: state.leader_epoch for state in states}

    def read(
        leader: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, LeaderLog | Unknown]:
        reader = client.replicas_on(leader)
        readings = reader.read({name: ids[name] for name in partitions}, deadline)
        logs: dict[TopicPartition, LeaderLog | Unknown] = {}
        for name, told in readings.items():
            start, end = told.log_start, told.log_end
            if isinstance(end, Unknown):
                logs[name] = end
            else:
                start = end if isinstance(start, Unknown) else start
                logs[name] = LeaderLog(str(ids[name]), start, end, told.epochs, led[name])
        for depth in DEPTHS:
            short = [name for name, log in logs.items() if _too_short(log, epochs.get(name, {}))]
            if not short:
                break
            reader.deepen(short, depth, deadline)
            for name in short:
                log = logs[name]
                assert isinstance(log, LeaderLog)
                logs[name] = replace(log, epochs=reader.history(name))
        return logs

    offline = Unknown("it is offline")
    found: dict[TopicPartition, LeaderLog | Unknown] = dict.fromkeys(ids, offline)
    found.update(ask_brokers(by_leader(states), read))
    return found


def _too_short(log: LeaderLog | Unknown, epochs: Mapping[str, int]) -> bool:
    """Whether the known epochs of *log* begin after one that a group committed."""
    if isinstance(log, Unknown) or isinstance(log.epochs, Unknown) or not log.epochs.ranges:
        return False
    return any(log.shared_end(epoch) is None for epoch in epochs.values())


def moves_past_end(
    standing: GroupStanding,
    logs: Mapping[TopicPartition, LeaderLog | Unknown],
    cuts: Iterable[JournalledCut] = (),
) -> tuple[OffsetMove, ...]:
    """A move for each offset that its log does not have, or has other records below.

    The move is to where the log ends, or stops to be the log that the group has read; where that
    is not known, it says so. Sorted by group.
    """
    known = _by_partition(cuts)
    return tuple(
        sorted(
            (
                move
                for partition, groups in standing.offsets.items()
                if isinstance(log := logs.get(partition), LeaderLog)
                for group, committed in groups.items()
                if (
                    move := _move(
                        group,
                        partition,
                        committed,
                        standing.epochs.get(partition, {}).get(group),
                        log,
                        known.get(partition, ()),
                    )
                )
                is not None
            ),
            key=lambda move: (move.group, move.partition),
        )
    )


def _move(
    group: str,
    partition: TopicPartition,
    committed: int,
    epoch: int | None,
    log: LeaderLog,
    cuts: Collection[JournalledCut],
) -> OffsetMove | None:
    if epoch is not None:
        fork = log.fork(committed, epoch)
    else:
        noted = [
            cut
            for cut in cuts
            if cut.topic_id == log.topic_id and cut.past_end.get(group) == committed
        ]
        at_most = min([committed, log.end, *(cut.log_end for cut in noted)])
        if at_most >= committed:
            return None
        fork = log.fork_without_epoch(committed, at_most, noted)
    if fork.at >= committed and fork.known:
        return None
    reason = MoveReason.PAST_END if committed > log.end else MoveReason.REFILLED
    return OffsetMove(group, partition, committed, fork.at, reason, fork.known)


def left_text(move: OffsetMove) -> str:
    """Why a group whose fork is not known is left as it is, and what would show it."""
    return (
        f"group {move.group} on {move.partition} is left as it is: the log parts from what it has "
        f"read at or below {move.to or 0:,}, and where is not known: the log folder "
        "of the leader that it read from, or a rescue that begins earlier, shows it by --source; "
        "if both are gone, set an offset that you choose by kafka-consumer-groups.sh "
        "--reset-offsets"
    )


def end_without_epoch(
    log: LeaderLog, offset: int, later: int | None, cuts: Iterable[JournalledCut]
) -> int:
    """*offset*, or the lower one at which the log was cut after a commit that has no leader epoch.

    *later* is the first offset of a record that was written after the commit; None: there is none.
    A reader cannot have read it, so an epoch that begins between it and *offset* cut the log. Of
    *cuts*, those of this log until which the offset was committed count.
    """
    ends = [offset, log.end, *(cut.log_end for cut in cuts if cut.topic_id == log.topic_id)]
    if later is not None and later < offset:
        epochs = log.epochs
        if isinstance(epochs, Unknown) or epochs.complete_from > max(later, log.start):
            ends.append(later)
        else:
            ends += [held.start for held in epochs.ranges if later <= held.start]
    return min(ends)


def written_after(
    client: ReadClient, leader: int | None, partition: TopicPartition, at_ms: int
) -> int | None | Unknown:
    """The first offset of a record with a timestamp after *at_ms*; None without any."""
    if leader is None:
        return Unknown("it has no leader")
    try:
        deadline = Deadline.after(patience.REQUEST)
        answers = list_offsets(client.sender, leader, [partition], at_ms + 1, deadline)
    except BreakglassError as error:
        return Unknown(str(error))
    found = answers[partition]
    if isinstance(found, Unknown):
        return found
    return found.offset if found.offset >= 0 else None


def doubts(
    standing: GroupStanding,
    logs: Mapping[TopicPartition, LeaderLog | Unknown],
    cuts: Iterable[JournalledCut],
) -> Iterator[str]:
    """What is not known of groups: each in a sentence."""
    known = _by_partition(cuts)
    for partition, groups in sorted(standing.offsets.items()):
        log = logs.get(partition)
        if isinstance(log, Unknown):
            yield (
                f"{groups_text(len(groups))} on {partition}: not compared with its log: "
                f"{log.reason}"
            )
            continue
        epochs = standing.epochs.get(partition, {})
        if log is not None and isinstance(log.epochs, Unknown) and epochs:
            yield (
                f"{groups_text(len(epochs))} on {partition}: whether its log was cut below what "
                f"they had committed is not known: {log.epochs.reason}"
            )
        for cut in known.get(partition, ()):
            if log is None or cut.all_groups or cut.topic_id != log.topic_id:
                continue
            for group, committed in sorted(groups.items()):
                told = group in epochs or group in cut.past_end
                if not told and cut.log_end < committed <= log.end:
                    yield (
                        f"group {group} committed {committed:,} on {partition}, without a leader "
                        f"epoch: whether it has read the records from {cut.log_end:,} on, where an "
                        f"election cut the log (journal {cut.journal}), is not known"
                    )
    for partition, some in sorted(known.items()):
        lossy = next((cut for cut in some if not cut.lossless), None)
        if partition.topic == OFFSETS_TOPIC and lossy is not None:
            yield (
                f"groups of {partition} may have lost what they had committed, by the election of "
                f"journal {lossy.journal}: `breakglass after internal-topics --source log:DIR` "
                "compares it with a dead broker's log folder"
            )


def groups_text(number: int) -> str:
    """``1 group``, ``12 groups``."""
    return f"{number:,} group{'' if number == 1 else 's'}"


def without_epochs(standing: GroupStanding) -> Iterator[str]:
    """The groups of whose logs a cut is known from journals alone, in a sentence."""
    groups = {
        group
        for partition, groups in standing.offsets.items()
        for group in groups.keys() - standing.epochs.get(partition, {}).keys()
    }
    if len(groups) == 1:
        yield (
            f"group {groups.pop()} commits no leader epochs: a cut of its log below its offset is "
            "known from this account's journals alone"
        )
    elif groups:
        named = ", ".join([*sorted(groups)[:NAMED], *(["..."] if len(groups) > NAMED else [])])
        yield (
            f"{len(groups):,} groups ({named}) "
            "commit no leader epochs: a cut of their logs below their offsets is known from this "
            "account's journals alone"
        )


def _by_partition(cuts: Iterable[JournalledCut]) -> dict[TopicPartition, list[JournalledCut]]:
    found: dict[TopicPartition, list[JournalledCut]] = {}
    for cut in cuts:
        found.setdefault(cut.partition, []).append(cut)
    return found
