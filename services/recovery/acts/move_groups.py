"""The act of moving consumer groups' committed offsets: to where a cut log ends, or back (R19).

Finds committed offsets that an election of `__consumer_offsets` lost, to set groups to them.
A dead broker's log folder, or a rescue, still has them. A group is set to no offset that its own
log does not have: where that log was cut as well, the group is set to where it was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, WrongCluster
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    Ending,
    Front,
    Frozen,
    Means,
    TargetOutcome,
    TargetResult,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import JournalView, list_journals
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    find_coordinator,
    offline_offsets,
    read_offsets_of,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import EpochHistory, TopicPartition, Unknown
from breakglass.services.recovery.group_reset import (
    MoveReason,
    MoveResult,
    OffsetMove,
    carry_out,
    moves_of,
)
from breakglass.services.recovery.group_standing import (
    DEPTHS,
    GroupStanding,
    JournalledCut,
    LeaderLog,
    cuts_in,
    doubts,
    end_without_epoch,
    left_text,
    moves_past_end,
    read_leader_logs,
    read_standing,
    without_epochs,
    written_after,
)
from breakglass.services.recovery.internal_topics.finding import (
    InternalLoss,
    InternalSearch,
    newest_positions,
)
from breakglass.services.recovery.internal_topics.records import GroupPosition, StateKind
from breakglass.services.recovery.ledger.entries import Holdings, read_holdings
from breakglass.services.recovery.remembered.store import ReplicaMemory, key_of
from breakglass.services.recovery.transactions.source import SourceLog
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.snapshot import ClusterSnapshot

RESULTS = {MoveResult.MOVED: TargetResult.DONE, MoveResult.UNKNOWN: TargetResult.UNKNOWN}


@dataclass(frozen=True, slots=True)
class GroupMoves:
    """The groups and logs that were read, and the moves that follow."""

    snapshot: ClusterSnapshot
    standing: GroupStanding
    moves: tuple[OffsetMove, ...]
    doubts: tuple[str, ...] = ()
    """What is not known of groups, each in a sentence."""
    partly: bool = False
    """Something that was asked for could not be looked at: the act is not done by the moves."""
    left: tuple[OffsetMove, ...] = ()
    """Groups that are left as they are, for their fork is not known."""


def past_end_now(
    client: ReadClient, topics: tuple[str, ...] = (), sources: Collection[SourceLog] = ()
) -> GroupMoves:
    """The committed offsets that their log does not have, or has other records below.

    Raises:
        WrongCluster: a source is of another cluster.
    """
    snapshot = client.snapshot(Deadline.after(patience.REQUEST), topics)
    wanted = frozenset(state.partition for state in snapshot.partitions)
    standing = read_standing(client, snapshot.live, wanted, Deadline.after(patience.REQUEST))
    states = [state for state in snapshot.partitions if state.partition in standing.offsets]
    logs = read_leader_logs(client, states, standing.epochs, Deadline.after(patience.REQUEST))
    cuts = journalled_cuts(snapshot.cluster_id)
    unread = standing.unread or standing.offline
    unread_logs = any(isinstance(log, Unknown) for log in logs.values())
    unsure = {
        move.partition for move in moves_past_end(standing, logs, cuts) if not move.fork_known
    }
    lacking = {
        partition
        for partition, epochs in standing.epochs.items()
        if isinstance(log := logs.get(partition), LeaderLog)
        and any(map(log.lacks, epochs.values()))
    }
    logs |= with_others(client, snapshot, {name: logs[name] for name in unsure | lacking}, sources)
    moves, unread_commits = _held_back(
        client, snapshot, standing, moves_past_end(standing, logs, cuts), logs
    )
    left = tuple(move for move in moves if not move.fork_known)
    told = (*unread_commits, *map(left_text, left))
    return GroupMoves(
        snapshot,
        standing,
        tuple(move for move in moves if move.fork_known),
        (*doubts(standing, logs, cuts), *told, *without_epochs(standing)),
        partly=bool(unread) or unread_logs or bool(told),
        left=left,
    )


def with_others(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    logs: Mapping[TopicPartition, LeaderLog | Unknown],
    sources: Collection[SourceLog] = (),
) -> dict[TopicPartition, LeaderLog | Unknown]:
    """*logs*, with what else is known of their partitions' histories.

    That is what *sources* and live replicas have, and what was heard of replicas before, as this
    account's memory and journals have it.
    """
    for source in sources:
        if source.cluster_id not in (None, snapshot.cluster_id):
            raise WrongCluster(
                f"{source.name} is of cluster {source.cluster_id}, and these addresses lead to "
                f"{snapshot.cluster_id}: leave that source out"
            )
    states = {state.partition: state for state in snapshot.partitions if state.partition in logs}
    beside = dict(logs)
    if not states:
        return beside
    found: dict[TopicPartition, list[EpochHistory | Unknown]] = {name: [] for name in states}
    memory = ReplicaMemory(snapshot.cluster_id)
    for name, state in states.items():
        found[name] += [heard.log.epochs for heard in memory.heard(key_of(state)).values()]
    for view in list_journals(snapshot.cluster_id):
        planned = view.plan.items if isinstance(view, JournalView) and view.plan else {}
        for name in states.keys() & planned.keys():
            told = read_holdings(planned[name])
            same = planned[name].get("topic_id") == str(states[name].topic_id)
            if same and isinstance(told, Holdings):
                found[name] += [log.epochs for log in told.replicas]
    for source in sources:
        name = source.partition
        if name in states and source.topic_id == states[name].topic_id:
            try:
                found[name].append(source.epochs())
            except BreakglassError as error:
                found[name].append(Unknown(str(error)))
    for broker in snapshot.live:
        ids = {name: state.topic_id for name, state in states.items() if broker in state.assignment}
        reader, deadline = client.replicas_on(broker), Deadline.after(patience.REQUEST)
        try:
            if ids:
                reader.read(ids, deadline)
                reader.deepen(list(ids), DEPTHS[0], deadline)
        except BreakglassError:
            continue
        for name in ids:
            log, history = beside[name], reader.history(name)
            if broker != states[name].leader:
                found[name].append(history)
            elif isinstance(log, LeaderLog) and isinstance(history, EpochHistory):
                beside[name] = replace(log, epochs=history)
    for name, histories in found.items():
        log, others = beside[name], [one for one in histories if isinstance(one, EpochHistory)]
        if isinstance(log, LeaderLog):
            beside[name] = replace(log, others=tuple(others))
    return beside


def _held_back(
    client: ReadClient,
    snapshot: ClusterSnapshot,
    standing: GroupStanding,
    moves: Sequence[OffsetMove],
    logs: Mapping[TopicPartition, LeaderLog | Unknown],
) -> tuple[tuple[OffsetMove, ...], list[str]]:
    """*moves* of groups without leader epochs, no further than where the log was cut since (R43).

    A log that was cut below a committed offset may have been filled again from a lower offset on.
    A sentence says which groups are left as they are because that cannot be read.
    """
    untold = {
        (move.group, move.partition)
        for move in moves
        if move.group not in standing.epochs.get(move.partition, {})
    }
    if not untold:
        return tuple(moves), []
    positions = newest_positions(client, untold)
    leaders = {state.partition: state.leader for state in snapshot.partitions}
    kept: list[OffsetMove] = []
    left: list[str] = []
    for move in moves:
        log = logs.get(move.partition)
        position = positions.get((move.group, move.partition))
        if position is None or not isinstance(log, LeaderLog) or move.to is None:
            kept.append(move)
            continue
        later: int | None | Unknown = position if isinstance(position, Unknown) else None
        if isinstance(position, GroupPosition):
            leader, at_ms = leaders[move.partition], position.committed_at_ms
            later = written_after(client, leader, move.partition, at_ms)
        if isinstance(later, Unknown):
            left.append(
                f"group {move.group} on {move.partition} committed {move.committed:,} without a "
                "leader epoch, its log was cut below that, and it is left as it is: where the log "
                f"was cut is not known, for its commit cannot be read: {later.reason}"
            )
            continue
        end = end_without_epoch(log, move.committed or 0, later, ())
        to = min(move.to, end)
        kept.append(replace(move, to=to, fork_known=move.fork_known or to <= log.start))
    return tuple(kept), left


def journalled_cuts(cluster_id: str) -> tuple[JournalledCut, ...]:
    """The elections that this account's journals tell of; those that cannot be read are left out.

    The commands that elect, and the console, name such a journal.
    """
    views = [view for view in list_journals(cluster_id) if isinstance(view, JournalView)]
    return tuple(cut for view in views for cut in cuts_in(view))


def moved_back(client: ReadClient, view: JournalView) -> GroupMoves:
    """The moves that undo those of a journal, for groups whose offset has not changed since.

    Raises:
        WrongCluster: the journal is of another cluster.
    """
    found = past_end_now(client)
    if view.cluster_id != found.snapshot.cluster_id:
        raise WrongCluster(
            f"journal {view.path} is of cluster {view.cluster_id}, and this is "
            f"{found.snapshot.cluster_id}: connect to that cluster"
        )
    # A group of the journal that cannot be read is refused by its move.
    moves = tuple(move.back for move in moves_of(view))
    return replace(found, moves=moves, left=(), partly=False)


@dataclass(frozen=True, slots=True)
class MoveGroups(Act[GroupMoves]):
    """Commit the offsets that *find* suggests."""

    doing: ClassVar[str] = "moving groups' offsets"
    find: Callable[[ReadClient], GroupMoves] = past_end_now

    def freeze(self, front: Front) -> Frozen[GroupMoves]:
        with front.reading() as client:
            found = self.find(client)
        moves = [(f"{move.group} on {move.partition}", place_text(move.to)) for move in found.moves]
        return Frozen(
            found.snapshot.cluster_id,
            (ConsentPhrase(phrase_for(found.moves)),) if found.moves else (),
            tuple(moves),
            tuple(sorted({str(move.partition) for move in found.moves})),
            remarks=found.doubts,
            plan=found,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[GroupMoves]) -> Ending:
        """Commit them, group by group; the ending's value is the list of `MovedOffset`."""
        found = frozen.plan
        with front.reading() as client, means.cluster.groups(frozen.cluster_id) as groups:
            client.describe(Deadline.after(patience.REQUEST))
            coordinators = found.standing.coordinators
            done = carry_out(
                groups, client, means.journal, found.moves, coordinators, patience.REQUEST
            )
        for moved in done:
            move = moved.move
            to = "none" if move.to is None else f"{move.to:,}"
            text = f"{moved.result} to {to}" + (f": {moved.reason}" if moved.reason else "")
            result = RESULTS.get(moved.result, TargetResult.FAILED)
            front.tell(TargetOutcome(f"{move.group} on {move.partition}", result, text))
        whole = all(moved.result is MoveResult.MOVED for moved in done)
        return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=done)


def phrase_for(moves: Sequence[OffsetMove]) -> str:
    """The phrase to type: ``billing on orders-3 to 100``; in bulk their number."""
    if len(moves) == 1:
        move = moves[0]
        return f"{inert(move.group)} on {move.partition} to {place_text(move.to)}"
    return f"{len(moves):,} group offsets move"


def place_text(offset: int | None) -> str:
    """An offset in words."""
    return "no offset" if offset is None else str(offset)


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
