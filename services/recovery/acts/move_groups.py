"""The act of moving consumer groups' committed offsets: to where a cut log ends, or back (R19)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
from breakglass.services.guard.journal import list_journals
from breakglass.services.guard.journal_view import JournalView
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import EpochHistory, TopicPartition, Unknown
from breakglass.services.recovery.group_reset import (
    MovedOffset,
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
from breakglass.services.recovery.internal_topics.finding import newest_positions
from breakglass.services.recovery.internal_topics.records import GroupPosition
from breakglass.services.recovery.ledger.holdings import Holdings, read_holdings
from breakglass.services.recovery.remembered.heard import key_of
from breakglass.services.recovery.remembered.store import ReplicaMemory
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.recovery.transactions.source import SourceLog
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
            front.tell(_outcome(moved))
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


def _outcome(moved: MovedOffset) -> TargetOutcome:
    move = moved.move
    to = "none" if move.to is None else f"{move.to:,}"
    text = f"{moved.result} to {to}" + (f": {moved.reason}" if moved.reason else "")
    result = RESULTS.get(moved.result, TargetResult.FAILED)
    return TargetOutcome(f"{move.group} on {move.partition}", result, text)
