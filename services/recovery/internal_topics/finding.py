"""Finds the states of internal partitions that an election loses, and says what that means.

For each partition one log is kept: the leader's, or that of the replica to elect. Every other log,
of a live replica or on a dead disk, is read from where its leader epochs diverge from the kept
log's, as brokers truncate. The sentences say what Kafka's coordinators do with a state that is
older than their clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from breakglass.services import patience
from breakglass.services.divergence.replica_source import parting
from breakglass.services.divergence.source import UnreadableRange
from breakglass.services.errors import BreakglassError, TimedOut, Unreachable, WrongCluster
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.replica_records import ReplicaRecords
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    INTERNAL_TOPICS,
    EpochHistory,
    PartitionState,
    TopicPartition,
    Unknown,
    log_of,
)
from breakglass.services.record_batches import decode_batch
from breakglass.services.recovery.internal_topics.records import (
    COPIED,
    DECIDED,
    DELETED,
    GroupMembership,
    GroupPosition,
    SegmentState,
    SharePosition,
    StateFold,
    StateKey,
    StateKind,
    StateValue,
    TransactionalState,
    differences,
    finished_beyond,
)
from breakglass.services.recovery.judgement.assessment import recovery_order
from breakglass.services.recovery.rescue.past_leader import written_epochs
from breakglass.services.recovery.transactions.source import LoggedBatch, SourceLog

LIST_OPEN = "see `breakglass after transactions list`"
COMMIT_FIRST = (
    "`breakglass after transactions finish`, with this log as --source, commits it before"
)
ENDED = ("CompleteCommit", "CompleteAbort", "Empty", "Dead")
SEGMENT_STATES = {0: "copy started", 1: "copied", 2: "deletion started", 3: "deleted"}


@dataclass(frozen=True, slots=True)
class LostState:
    """One key whose state an election loses or sets back."""

    key: StateKey
    lost: StateValue | None
    """The state in the lost log; None: the lost log removed the key."""
    left: StateValue | None
    """The state in the kept log; None: no state."""

    @property
    def back(self) -> int | None:
        """By how many records a group or share group moves back; None for other keys."""
        if isinstance(self.lost, GroupPosition) and isinstance(self.left, GroupPosition):
            return self.lost.offset - self.left.offset
        if isinstance(self.lost, SharePosition) and isinstance(self.left, SharePosition):
            return _done(self.lost) - _done(self.left)
        return None

    @property
    def harmless(self) -> bool:
        """Whether clients notice nothing: the group rebuilds the state, or `left` is newer."""
        if self.key.kind is StateKind.GROUP:
            return True
        return self.back is not None and self.back <= 0

    @property
    def meaning(self) -> str:
        """What the loss leads to."""
        return _MEANINGS[self.key.kind](self)


def value_text(value: StateValue | None) -> str:
    """A state as a table's cell; ``none`` without a state."""
    if value is None:
        return "none"
    if isinstance(value, GroupPosition):
        return f"{value.offset:,}"
    if isinstance(value, GroupMembership):
        return "members"
    if isinstance(value, TransactionalState):
        return f"{value.status}, producer {value.producer_id} epoch {value.producer_epoch}"
    if isinstance(value, SharePosition):
        beyond = finished_beyond(value)
        return f"{value.start_offset:,}" + (f" and {beyond:,} beyond" if beyond else "")
    return SEGMENT_STATES.get(value.state, f"state {value.state}")


def _offset(one: LostState) -> str:
    if one.lost is None:
        return "its offset had been removed and is back: the group goes on from there"
    if one.left is None:
        return "nothing is left: its consumers begin where auto.offset.reset says"
    back = one.back or 0
    if back <= 0:
        return "what is left is not older: the group has committed since"
    return f"it goes back by {back:,} offsets, and reads these records again"


def _group(one: LostState) -> str:
    if one.lost is None:
        return "the group had been deleted and is back, until its offsets expire"
    return "members join again, and agree on generation and assignment; nothing is read twice by it"


def _transactional_id(one: LostState) -> str:
    lost, left = one.lost, one.left
    assert isinstance(lost, TransactionalState | None)
    assert isinstance(left, TransactionalState | None)
    if lost is None:
        return "the id had expired and is back: its next producer is given the next epoch"
    if left is None:
        return (
            f"the coordinator forgets the id: a producer that runs is refused until it is started "
            f"again, and then gets a new producer id; an older producer {_id(lost)} is not fenced"
            + _hanging(lost)
        )
    if lost.producer_id == left.producer_id and lost.producer_epoch > left.producer_epoch:
        return _older_epoch(lost, left)
    if lost.producer_id != left.producer_id:
        return (
            f"the producer that runs ({_id(lost)}) is refused until it is started again; the one "
            f"before it ({_id(left)}) counts as the living one until then" + _hanging(lost)
        )
    return "the same producer" + _decision(lost, left)


def _older_epoch(lost: TransactionalState, left: TransactionalState) -> str:
    """What an older producer epoch leads to, as tried on 3.9.2 and 4.3.1.

    Partitions remember the newest epoch and its sequence numbers.
    """
    seen = lost.producer_epoch
    if left.status.startswith("Prepare"):
        return (
            f"its coordinator cannot end the transaction that is {left.status} again, for "
            f"partitions have seen epoch {seen}: initTransactions may answer "
            "CONCURRENT_TRANSACTIONS for ever; give the producer another transactional id"
        )
    starts = seen - left.producer_epoch + 1
    return (
        f"the producer that runs (epoch {seen}) is refused; each start raises the epoch from "
        f"{left.producer_epoch} by one: below {seen} partitions refuse its records, AT {seen} they "
        "acknowledge them and DROP them as duplicates; call initTransactions "
        f"{starts:,} times before anything is written, or give it another transactional id"
        + _decision(lost, left)
    )


def _decision(lost: TransactionalState, left: TransactionalState) -> str:
    """What happens to a transaction whose decision was lost."""
    if DECIDED.get(lost.status) and left.status == "Ongoing":
        return (
            "; a transaction that was committed is Ongoing again, and is ABORTED at its timeout "
            f"on every partition that has no commit marker yet: {COMMIT_FIRST}"
        )
    if lost.status in ENDED and left.status.startswith("Prepare"):
        return "; its coordinator writes the markers again, which changes nothing"
    return _hanging(lost)


def _hanging(lost: TransactionalState) -> str:
    if lost.status in ENDED:
        return ""
    named = ", ".join(map(str, lost.partitions[:3])) or "its partitions"
    return f"; its transaction ({lost.status}) may stay open on {named}: {LIST_OPEN}"


def _share_group(one: LostState) -> str:
    if one.lost is None:
        return "its state had been deleted and is back"
    if one.left is None:
        return "nothing is left: the share group begins where share.auto.offset.reset says"
    back = one.back or 0
    if back <= 0:
        return "what is left is not older"
    return f"{back:,} records that were acknowledged are delivered again"


def _segment(one: LostState) -> str:
    lost, left = one.lost, one.left
    assert isinstance(lost, SegmentState | None)
    assert isinstance(left, SegmentState | None)
    offsets = ""
    for held in (lost, left):
        if held is not None and held.offsets is not None:
            offsets = f"offsets {held.offsets[0]:,} to {held.offsets[1]:,} "
            break
    if lost is not None and lost.state == COPIED:
        return (
            f"{offsets}cannot be fetched from remote storage; the objects stay there, and are "
            "never deleted: copy them before local retention removes the rest"
        )
    if lost is not None and lost.state == DELETED and left is not None:
        return f"{offsets}were deleted and are announced again: fetching them fails"
    return f"{offsets}the copy or deletion is begun again"


def _id(state: TransactionalState) -> str:
    return f"{state.producer_id} epoch {state.producer_epoch}"


def _done(position: SharePosition) -> int:
    return position.start_offset + finished_beyond(position)


_MEANINGS: dict[StateKind, Callable[[LostState], str]] = {
    StateKind.OFFSET: _offset,
    StateKind.GROUP: _group,
    StateKind.TRANSACTION: _transactional_id,
    StateKind.SHARE: _share_group,
    StateKind.SEGMENT: _segment,
}


EPOCHS = 64
DOWN = "it is down: name its log folder by --source"

Batches = Iterator[LoggedBatch | UnreadableRange]


@dataclass(frozen=True, slots=True)
class LostTail:
    """The part of one log that the kept log of its partition lacks."""

    partition: TopicPartition
    kept: int
    """The broker whose log is kept."""
    source: str
    """The other log: ``b2``, or the address of a folder."""
    start: int
    """The offset at which the two logs diverge."""
    end: int
    states: tuple[LostState, ...]
    """The states that differ, sorted by key."""
    unreadable: tuple[UnreadableRange, ...] = ()
    not_understood: int = 0
    """Number of records of an unknown version."""


@dataclass(frozen=True, slots=True)
class InternalLoss:
    """What one internal partition loses."""

    partition: TopicPartition
    leader: int | None
    kept: int | Unknown
    """The broker whose log is kept; Unknown with the reason, if no replica is to be elected."""
    tails: tuple[LostTail, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    """Logs that could not be compared, with the reason."""
    compared: tuple[str, ...] = ()
    """Logs that were compared: those of brokers first, then the sources."""


def nothing_lost(found: Collection[InternalLoss]) -> str:
    """That no log has more than the kept ones, or that none was compared; empty if one may have."""
    if any(loss.tails or loss.unread or isinstance(loss.kept, Unknown) for loss in found):
        return ""
    if any(loss.compared for loss in found):
        return "No log that was compared has anything that the kept ones have not."
    return (
        "Nothing was compared: followers have cut their logs to their leaders' already. Name a "
        "dead broker's log folder, or a rescue, by --source."
    )


@dataclass(frozen=True, slots=True)
class InternalSearch:
    """Which partitions and sources are searched."""

    sources: tuple[SourceLog, ...] = ()
    designees: Callable[[PartitionState], int | Unknown] = lambda _: Unknown(
        "it has no leader, and none is proposed"
    )
    """The broker whose log is kept, for partitions without a leader."""
    go_on: Callable[[], None] = lambda: None
    """Called now and then; an exception that it raises ends the reading."""
    seconds: float = patience.WHOLE_CLUSTER
    """For all logs of all brokers together."""
    clock: Callable[[], float] = time.monotonic

    def run(self, client: ReadClient) -> Iterator[InternalLoss]:
        """Each internal partition, in the order of their recovery (R17).

        Raises:
            Unreachable: no broker serves the cluster's metadata.
            WrongCluster: a source is of another cluster.
        """
        snapshot = client.snapshot(Deadline.after(patience.COMMAND), with_settings=False)
        for source in self.sources:
            if source.cluster_id not in (None, snapshot.cluster_id):
                raise WrongCluster(
                    f"{source.name} is of cluster {source.cluster_id}, and these addresses lead to "
                    f"{snapshot.cluster_id}: leave that source out"
                )
        live, asked = set(snapshot.live), _Asked(client, self.seconds, self.clock)
        states = [
            partition
            for partition in snapshot.partitions
            if partition.partition.topic in INTERNAL_TOPICS
        ]
        for state in sorted(states, key=lambda state: recovery_order(state.partition)):
            yield self._of_partition(asked, state, live)

    def _of_partition(self, asked: _Asked, state: PartitionState, live: set[int]) -> InternalLoss:
        kept = self.designees(state) if state.leader is None else state.leader
        found = InternalLoss(state.partition, state.leader, kept)
        if isinstance(kept, Unknown):
            return found
        unread: dict[str, str] = {}
        try:
            comparison = _Comparison(asked, state, kept, self.go_on)
        except BreakglassError as error:
            return InternalLoss(
                state.partition, state.leader, kept, unread={f"b{kept}": str(error)}
            )
        tails: list[LostTail] = []
        compared: list[str] = []
        # Followers have already truncated to their leader's log.
        others = sorted(live.intersection(state.assignment) - {kept}) if state.offline else []
        held = [source for source in self.sources if source.partition == state.partition]
        disks = {source.broker for source in held if not source.rescued}
        unread |= {
            f"b{broker}": DOWN
            for broker in sorted({*state.assignment} - live - {kept} - disks)
            if state.offline or broker not in state.isr
        }
        for name, compare in (
            *((f"b{broker}", partial(comparison.with_broker, broker)) for broker in others),
            *((source.name, partial(comparison.with_source, source)) for source in held),
        ):
            try:
                tail = compare()
            except BreakglassError as error:
                unread[name] = str(error)
                continue
            if isinstance(tail, Unknown):
                unread[name] = tail.reason
                continue
            compared.append(name)
            if tail is not None:
                tails.append(tail)
        return InternalLoss(
            state.partition, state.leader, kept, tuple(tails), unread, tuple(compared)
        )


def newest_positions(
    client: ReadClient, wanted: Collection[tuple[str, TopicPartition]]
) -> dict[tuple[str, TopicPartition], GroupPosition | Unknown]:
    """What each group of *wanted* committed last on its partition, with the time of the commit.

    A coordinator answers with the offset alone; the record that it answers from has the time.
    """
    try:
        states = client.partitions((OFFSETS_TOPIC,), Deadline.after(patience.REQUEST))
    except BreakglassError as error:
        return dict.fromkeys(wanted, Unknown(str(error)))
    leading = {state.partition: state for state in states}
    asked = _Asked(client, patience.WHOLE_CLUSTER)
    logs: dict[TopicPartition, StateFold | Unknown] = {}
    found: dict[tuple[str, TopicPartition], GroupPosition | Unknown] = {}
    for group, partition in wanted:
        place = log_of(group, OFFSETS_TOPIC, max(1, len(states)))
        if place not in logs:
            logs[place] = _positions(asked, leading.get(place))
        log, key = logs[place], StateKey(StateKind.OFFSET, group, str(partition))
        position = log if isinstance(log, Unknown) else log.state.get(key)
        if not isinstance(position, GroupPosition | Unknown):
            position = Unknown(f"{OFFSETS_TOPIC} has no such commit")
        found[group, partition] = position
    return found


def _positions(asked: _Asked, state: PartitionState | None) -> StateFold | Unknown:
    if state is None or state.leader is None:
        return Unknown(f"its partition of {OFFSETS_TOPIC} has no leader")
    fold = StateFold(OFFSETS_TOPIC)
    try:
        log = asked.replica(state, state.leader)
        batches = asked.batches(state.leader, state.partition, log.start, log.end, lambda: None)
        for _, batch in batches:
            fold.add(batch)
    except BreakglassError as error:
        return Unknown(str(error))
    return fold


class _Comparison:
    """Compares other logs with the log that is kept."""

    def __init__(
        self, asked: _Asked, state: PartitionState, kept: int, go_on: Callable[[], None]
    ) -> None:
        self._asked, self._state, self._kept, self._go_on = asked, state, kept, go_on
        self._log = asked.replica(state, kept)

    def with_broker(self, broker: int) -> LostTail | Unknown | None:
        """What only the replica on *broker* has; None if nothing."""
        other = self._asked.replica(self._state, broker)
        start = self._parting(other.history, other.start)
        if start is None and other.end > other.start:
            return Unknown(f"b{broker} and b{self._kept} have no epoch in common")
        if start is None or start >= other.end:
            return None
        batches = self._asked.batches(broker, self._state.partition, start, other.end, self._go_on)
        return self._tail(f"b{broker}", start, other.end, (batch for _, batch in batches))

    def with_source(self, source: SourceLog) -> LostTail | Unknown | None:
        """What only a log folder or a rescue has; None if nothing."""
        if source.topic_id != self._state.topic_id:
            return Unknown("it is not known to be of this topic, by its topic id")
        first, end = source.start(), source.end()
        if first is None or end is None or first >= end:
            return None
        start: int | None = first
        if not source.rescued:
            ours = written_epochs(source.path, end)
            if isinstance(ours, Unknown):
                return ours
            start = self._parting(ours, first)
        if start is None:
            return Unknown(f"it has no epoch in common with b{self._kept}")
        if start >= end:
            return None
        return self._tail(source.name, start, end, source.batches(start))

    def _parting(self, other: EpochHistory, first: int) -> int | None:
        """Where a log that begins at *first* parts from the kept one; None where nothing says.

        At *first* where the kept log has all that was ever written to it, and no epoch of *other*.
        """
        log = self._log
        start = parting(other, log.history)
        return first if start is None and log.start == log.history.complete_from == 0 else start

    def _tail(self, name: str, start: int, end: int, batches: Batches) -> LostTail:
        topic = self._state.partition.topic
        left = StateFold(topic)
        lost: StateFold | None = None
        log = self._log
        kept = self._asked.batches(
            self._kept, self._state.partition, log.start, log.end, self._go_on
        )
        for at, batch in kept:
            if lost is None and at >= start:
                lost = left.copy()
            left.add(batch)
        lost = left.copy() if lost is None else lost
        unreadable: list[UnreadableRange] = []
        for item in batches:
            self._go_on()
            if isinstance(item, UnreadableRange):
                unreadable.append(item)
            else:
                lost.add(item)
        states = tuple(
            LostState(key, had, has) for key, (had, has) in differences(lost, left.state).items()
        )
        return LostTail(
            self._state.partition,
            self._kept,
            name,
            start,
            end,
            states,
            tuple(unreadable),
            lost.not_understood,
        )


@dataclass(frozen=True, slots=True)
class _Replica:
    start: int
    end: int
    history: EpochHistory


class _Asked:
    """The brokers, with one deadline for all that is read of them.

    No answer is waited for longer than half of what is left, and who was silent is not asked again:
    one that hangs takes no time from the others (S50).
    """

    def __init__(
        self, client: ReadClient, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._deadline = client, Deadline.after(seconds, clock)
        self._silent: dict[int, Unreachable] = {}

    @contextmanager
    def _of(self, broker: int) -> Iterator[None]:
        silent = self._silent.get(broker)
        if silent is None and self._deadline.passed:
            silent = TimedOut("the time for brokers to answer was over: give it more", "no time")
        if silent is not None:
            raise type(silent)(str(silent), silent.reason)
        try:
            yield
        except Unreachable as error:
            self._silent[broker] = error.with_traceback(None)
            raise

    def replica(self, state: PartitionState, broker: int) -> _Replica:
        """Read *broker*'s replica. Raises BreakglassError."""
        with self._of(broker):
            reader, deadline = self._client.replicas_on(broker), self._deadline.half()
            told = reader.read({state.partition: state.topic_id}, deadline)[state.partition]
            reader.deepen([state.partition], EPOCHS, deadline)
            history = reader.history(state.partition)
        for value in (told.log_start, told.log_end, history):
            if isinstance(value, Unknown):
                raise BreakglassError(value.reason)
        assert isinstance(told.log_start, int)
        assert isinstance(told.log_end, int)
        assert isinstance(history, EpochHistory)
        return _Replica(told.log_start, told.log_end, history)

    def batches(
        self,
        broker: int,
        partition: TopicPartition,
        start: int,
        end: int,
        go_on: Callable[[], None],
    ) -> Iterator[tuple[int, LoggedBatch]]:
        """The batches of a replica's log, each with its offset. Raises as `ReplicaRecords`."""
        log = ReplicaRecords(
            self._client.sender, broker, partition, go_on=go_on, deadline=self._deadline
        )
        with self._of(broker):
            for chunk in log.chunks(start, end):
                for header in chunk.headers:
                    data = decode_batch(chunk.data, header, log.where)
                    yield header.base_offset, LoggedBatch.of(data)
