"""Finds committed offsets that an election of `__consumer_offsets` lost, to set groups to them.

A dead broker's log folder, or a rescue, still has them. A group is set to no offset that its own
log does not have: where that log was cut as well, the group is set to where it was cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    find_coordinator,
    offline_offsets,
    read_offsets_of,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.acts.move_groups import GroupMoves, journalled_cuts, with_others
from breakglass.services.recovery.group_reset import MoveReason, OffsetMove
from breakglass.services.recovery.group_standing import (
    GroupStanding,
    JournalledCut,
    LeaderLog,
    end_without_epoch,
    left_text,
    read_leader_logs,
    written_after,
)
from breakglass.services.recovery.internal_topics.finding import InternalLoss, InternalSearch
from breakglass.services.recovery.internal_topics.records import GroupPosition, StateKind
from breakglass.services.recovery.transactions.source import SourceLog

Lost = Mapping[tuple[str, TopicPartition], GroupPosition]
"""The newest lost position of each group on each partition."""


def lost_offsets(
    client: ReadClient, sources: Collection[SourceLog], topics: tuple[str, ...] = ()
) -> GroupMoves:
    """The moves that set groups to what *sources* still know of them.

    Raises:
        Unreachable: no broker serves the cluster's metadata.
        WrongCluster: a source is of another cluster.
    """
    wanted = tuple(source for source in sources if source.partition.topic == OFFSETS_TOPIC)
    losses = list(InternalSearch(wanted).run(client)) if wanted else []
    losses = [loss for loss in losses if loss.partition.topic == OFFSETS_TOPIC]
    lost = newest_lost(losses, topics)
    doubts = list(_not_compared(losses, wanted))
    now, coordinators, unread = _committed_now(client, lost)
    doubts += unread
    remarks: list[str] = []
    snapshot = client.snapshot(Deadline.after(patience.REQUEST))
    places = {partition for _, partition in lost}
    states = [state for state in snapshot.partitions if state.partition in places]
    # Of a group without epochs, all epochs of its log are looked at.
    epochs = {
        partition: {
            group: max(0, position.leader_epoch)
            for (group, place), position in lost.items()
            if place == partition
        }
        for partition in places
    }
    logs = read_leader_logs(client, states, epochs, Deadline.after(patience.REQUEST))
    logs = with_others(client, snapshot, logs, sources)
    leaders = {state.partition: state.leader for state in states}
    elections = journalled_cuts(snapshot.cluster_id)
    moves = []
    for (group, partition), position in sorted(lost.items()):
        if group not in now:
            continue
        log = logs.get(partition, Unknown("the cluster has no such partition"))
        if isinstance(log, Unknown):
            doubts.append(f"group {group} on {partition} is left as it is: {log.reason}")
            continue
        cuts = [
            cut
            for cut in elections
            if cut.partition == partition and position.committed_at_ms <= cut.at_ms
        ]
        at_ms = position.committed_at_ms
        later = written_after(client, leaders[partition], partition, at_ms)
        if isinstance(later, Unknown):
            doubts.append(
                f"group {group} on {partition} is left as it is: what was written after its "
                f"commit cannot be read: {later.reason}"
            )
            continue
        move = move_to_lost(group, partition, now[group].get(partition), position, log, later, cuts)
        if move is None:
            continue
        moves.append(move)
        if move.fork_known:
            remarks += _remarks(move, position, log)
        else:
            doubts.append(left_text(move))
    offline = offline_offsets(client, Deadline.after(patience.REQUEST))
    standing = GroupStanding({}, coordinators, {}, offline=offline)
    known = tuple(move for move in moves if move.fork_known)
    left = tuple(move for move in moves if not move.fork_known)
    said = (*doubts, *remarks)
    return GroupMoves(snapshot, standing, known, said, partly=bool(doubts), left=left)


def _remarks(move: OffsetMove, lost: GroupPosition, log: LeaderLog) -> Iterator[str]:
    """What has to be known before *move* is agreed to."""
    group, partition, to = move.group, move.partition, move.to or 0
    if to < (reach := min(lost.offset, log.end)):
        yield (
            f"group {group} on {partition} had committed {lost.offset:,} and is set to {to:,}: "
            f"the log was cut there, or its topic was created again, and {reach - to:,} offsets "
            f"below {reach:,} have other records, which it has not read"
        )
    elif lost.leader_epoch < 0:
        yield (
            f"group {group} on {partition} committed no leader epoch: that the log was not cut "
            f"below {to:,} since is known from this account's journals and the timestamps of "
            "records alone; if producers' clocks were wrong, the group may skip records"
        )


def newest_lost(losses: Iterable[InternalLoss], topics: Collection[str] = ()) -> Lost:
    """The positions that sources have and leaders lack; of several sources, the newest commit."""
    found: dict[tuple[str, TopicPartition], GroupPosition] = {}
    for loss in losses:
        for tail in loss.tails:
            for state in tail.states:
                position = state.lost
                if state.key.kind is not StateKind.OFFSET or not isinstance(
                    position, GroupPosition
                ):
                    continue
                topic, _, number = state.key.place.rpartition("-")
                partition = TopicPartition(topic, int(number))
                if topics and partition.topic not in topics:
                    continue
                key = state.key.name, partition
                held = found.get(key)
                if held is None or held.committed_at_ms < position.committed_at_ms:
                    found[key] = position
    return found


def move_to_lost(
    group: str,
    partition: TopicPartition,
    committed: int | None,
    lost: GroupPosition,
    log: LeaderLog,
    later: int | None = None,
    cuts: Collection[JournalledCut] = (),
) -> OffsetMove | None:
    """The move to the *lost* position; None where the group has committed as far since.

    *later* and *cuts* as `end_without_epoch` has them.
    """
    if lost.leader_epoch >= 0:
        # A topic that was created again begins with the same epoch: its records are later than the
        # commit from its first one on.
        fork = log.fork(lost.offset, lost.leader_epoch)
        to = min(fork.at, end_without_epoch(log, lost.offset, later, ()))
    else:
        to = end_without_epoch(log, lost.offset, later, cuts)
        here = [cut for cut in cuts if cut.topic_id == log.topic_id and cut.log_end < lost.offset]
        fork = log.fork_without_epoch(lost.offset, to, here)
        to = fork.at
    if committed is not None and committed >= to:
        return None
    known = fork.known or to <= log.start
    return OffsetMove(group, partition, committed, to, MoveReason.SET_BACK, known)


def _not_compared(losses: Iterable[InternalLoss], sources: Collection[SourceLog]) -> Iterator[str]:
    """What of the sources could not be compared, or read."""
    if not sources:
        yield f"the sources have no partition of {OFFSETS_TOPIC}"
    of_sources = {source.partition for source in sources}
    names = {source.name for source in sources}
    seen = set()
    for loss in losses:
        seen.add(loss.partition)
        if loss.partition not in of_sources:
            continue
        if loss.leader is None:
            yield f"groups of {loss.partition} cannot be set while it is offline"
            continue
        for name, reason in sorted(loss.unread.items()):
            if name in names:
                yield f"{loss.partition}: {name} was not compared: {reason}"
        for tail in loss.tails:
            for damage in tail.unreadable:
                yield (
                    f"{loss.partition}: {tail.source}: offsets {damage.start:,} to "
                    f"{damage.end - 1:,} cannot be read: {damage.reason}"
                )
            if tail.not_understood:
                yield (
                    f"{loss.partition}: {tail.source}: {tail.not_understood:,} records are of a "
                    "version that is not known"
                )
    for partition in sorted(of_sources - seen):
        yield f"{partition} is in a source, and the cluster shows no such partition"


def _committed_now(
    client: ReadClient, lost: Lost
) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, int], list[str]]:
    """What each group of *lost* has committed now, its coordinator, and who could not be asked."""
    now: dict[str, dict[TopicPartition, int]] = {}
    coordinators: dict[str, int] = {}
    unread: list[str] = []
    whole = Deadline.after(patience.COMMAND)
    for group in sorted({group for group, _ in lost}):
        places = {partition for named, partition in lost if named == group}
        deadline = whole.half().sooner(patience.GROUPS)
        try:
            coordinator = find_coordinator(client.sender, group, deadline)
            found = read_offsets_of(client.sender, coordinator, [group], places, deadline)
        except BreakglassError as error:
            unread.append(f"group {group} is left as it is: {error}")
            continue
        coordinators[group] = coordinator
        now[group] = {
            partition: groups[group] for partition, groups in found.items() if group in groups
        }
    return now, coordinators, unread
