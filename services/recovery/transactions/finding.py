"""Finds open transactions, and decides how each is to be ended and what proves it (R18).

Reads from leaders what proves how an open transaction was to end (R18, R28).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, NotAuthorized, UsageError, WrongCluster
from breakglass.services.kafka.cluster.open_transactions import (
    UNLISTED,
    OpenTransaction,
    ended_beside,
    read_open_transactions,
)
from breakglass.services.kafka.marker_client import EndMarker
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    DEBUGGING_REPLICA,
    LATEST,
    READ_COMMITTED,
    OffsetError,
    by_leader,
    list_offsets,
    read_leader_ends,
)
from breakglass.services.kafka.replicas.replica_records import ReplicaRecords
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TRANSACTION_STATE, PartitionState, TopicPartition, Unknown
from breakglass.services.record_batches import BatchHeader
from breakglass.services.recovery.transactions.evidence import (
    Decisions,
    FoundMarker,
    ProvenEnd,
    TransactionBatch,
    decided,
    decisions_in,
    find_marker,
    proven,
)
from breakglass.services.recovery.transactions.source import SourceLog
from breakglass.services.snapshot import ClusterSnapshot

EPOCHS = 64
"""Number of leader epochs asked for, to join a rescue to the leader's log."""


def proof_by_marker(
    client: ReadClient, state: PartitionState, pending: OpenTransaction, found: FoundMarker
) -> ProvenEnd | Unknown:
    """What *found* proves about *pending*, by all that its producer has on the leader.

    What the producer wrote since belongs to its next transaction, which a marker would end as well:
    a coordinator that was set back takes both for one (R28).
    """
    assert state.leader is not None
    reader, deadline = client.replicas_on(state.leader), Deadline.after(patience.COMMAND)
    end = reader.read({state.partition: state.topic_id}, deadline)[state.partition].log_end
    reader.deepen([state.partition], EPOCHS, deadline)
    epochs = reader.history(state.partition)
    if isinstance(end, Unknown):
        return end
    if isinstance(epochs, Unknown):
        return epochs
    batches = frozenset(
        TransactionBatch(header.base_offset, header.leader_epoch, header.count)
        for header in _headers(client, state.leader, pending, end)
    )
    return proven(found, pending, batches, epochs)


def _headers(
    client: ReadClient, leader: int, pending: OpenTransaction, end: int
) -> Iterator[BatchHeader]:
    log = ReplicaRecords(client.sender, leader, pending.partition)
    for chunk in log.chunks(pending.start_offset, end):
        for header in chunk.headers:
            if header.producer_id == pending.producer_id and not header.control:
                yield header


def proofs_by_decision(
    client: ReadClient,
    state: PartitionState,
    pending: OpenTransaction,
    decisions: Sequence[Decisions],
) -> Iterator[ProvenEnd | Unknown]:
    """What the coordinators' logs prove about *pending*."""
    if not decisions:
        return
    assert state.leader is not None
    end = _log_end(client, state.leader, pending.partition)
    if isinstance(end, Unknown):
        yield end
        return
    headers = list(_headers(client, state.leader, pending, end))
    found = decided(pending, decisions, max((h.max_timestamp for h in headers), default=-1))
    if isinstance(found, Unknown):
        yield found
    elif found is not None:
        decision, marker = found
        present = sum(header.count for header in headers)
        missing = Unknown(f"no lost log of {pending.partition} was named that has its marker")
        yield ProvenEnd(decision.source, decision.offset, marker, present, missing, decision.status)


def records_here(client: ReadClient, leader: int, pending: OpenTransaction) -> int | Unknown:
    """How many records an abort hides."""
    end = _log_end(client, leader, pending.partition)
    if isinstance(end, Unknown):
        return end
    return sum(header.count for header in _headers(client, leader, pending, end))


def _log_end(client: ReadClient, leader: int, partition: TopicPartition) -> int | Unknown:
    told = list_offsets(
        client.sender,
        leader,
        [partition],
        LATEST,
        Deadline.after(patience.COMMAND),
        replica_id=DEBUGGING_REPLICA,
    )[partition]
    return told if isinstance(told, OffsetError) else told.offset


NAMED = 3
"""More partitions than these are counted."""
HIDDEN = (
    "transactions on topics that this user may not describe are not known, and such topics are not "
    "shown: grant READ on topics to see them"
)


@dataclass(frozen=True, slots=True)
class TransactionEnding:
    """One open transaction, and how it is to be ended."""

    pending: OpenTransaction
    leader: int
    last_stable: int | Unknown
    """The last stable offset, at which read_committed consumers stop."""
    marker: EndMarker | None
    """The marker to write; None: the transaction is left alone."""
    why: str
    """Why the transaction is ended this way, or left alone."""
    proven: ProvenEnd | None = None
    """The proof by a log that was not elected; None: there is none."""
    records: int | Unknown = 0
    """Number of the transaction's records on the partition."""

    @property
    def partition(self) -> TopicPartition:
        return self.pending.partition

    @property
    def hanging(self) -> bool | Unknown:
        """Whether its coordinator will not end it as it was decided (R18, R28)."""
        overruled = self.proven is not None and self.pending.aborts_at_ms is not None
        return True if overruled else self.pending.hanging

    @property
    def missing(self) -> int | Unknown:
        """The transaction's records that the marker's log has and the partition lacks."""
        return 0 if self.proven is None else self.proven.missing


@dataclass(frozen=True, slots=True)
class TransactionsFound:
    """The open transactions on the partitions that have leaders."""

    cluster_id: str
    endings: tuple[TransactionEnding, ...]
    """The endings, sorted by partition and first offset."""
    unread: Mapping[int, str]
    """Leaders whose transactions could not be read, with the reason."""
    leaderless: tuple[TopicPartition, ...] = ()
    """Partitions without a leader, whose transactions nobody can tell."""
    hidden: str = ""
    """Why there may be topics that this user is not shown; empty if there are none."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Where transactions may be open that were not found: a sentence for each reason."""
        said = [
            f"transactions on b{broker} are not known: {reason}"
            for broker, reason in sorted(self.unread.items())
        ]
        if self.leaderless:
            more = f" and {len(self.leaderless) - NAMED:,} more" if self.leaderless[NAMED:] else ""
            named = ", ".join(map(str, self.leaderless[:NAMED]))
            said.append(
                f"transactions on {named}{more} are not known: no leader; elect one first "
                "(breakglass triage)"
            )
        if self.hidden:
            said.append(self.hidden)
        return tuple(said)

    @property
    def to_end(self) -> tuple[TransactionEnding, ...]:
        return tuple(ending for ending in self.endings if ending.marker is not None)


@dataclass(frozen=True, slots=True)
class TransactionSearch:
    """What is searched, and how a transaction without a marker is ended."""

    topics: tuple[str, ...] = ()
    """Topics to search; empty: all topics."""
    sources: tuple[SourceLog, ...] = ()
    abort: bool = False
    """Abort transactions whose marker is not found."""

    def run(self, client: ReadClient) -> TransactionsFound:
        """Read the cluster now.

        Raises:
            Unreachable: no broker serves its metadata.
            UsageError: the cluster does not have a topic that was named.
            WrongCluster: a source is of another cluster.
            BreakglassError: a source cannot be read.
        """
        snapshot = client.snapshot(
            Deadline.after(patience.COMMAND), self.topics, with_settings=False
        )
        for source in self.sources:
            if source.cluster_id not in (None, snapshot.cluster_id):
                raise WrongCluster(
                    f"{source.name} is of cluster {source.cluster_id}, and these addresses lead to "
                    f"{snapshot.cluster_id}: leave that source out, or connect to its cluster"
                )
        self._require_topics(snapshot)
        states = {
            partition.partition: partition
            for partition in snapshot.partitions
            if partition.leader is not None
        }
        live = snapshot.live
        found: list[OpenTransaction] = []
        unread: dict[int, str] = {}
        deadline = Deadline.after(patience.COMMAND)
        for leader, led in sorted(by_leader(states.values()).items()):
            told = read_open_transactions(
                client.sender, dict.fromkeys(led, leader), live, deadline.half()
            )
            if isinstance(told, Unknown):
                unread[leader] = told.reason
            else:
                found += told
        found = with_ends_beside(client, found)
        decisions = self._decisions(client)
        waiting = [
            states[name] for name in sorted({transaction.partition for transaction in found})
        ]
        stable = read_leader_ends(
            client.sender, waiting, Deadline.after(patience.COMMAND), isolation_level=READ_COMMITTED
        )
        found.sort(key=lambda transaction: (transaction.partition, transaction.start_offset))
        endings = tuple(
            self._ending(
                client,
                states[transaction.partition],
                transaction,
                stable[transaction.partition],
                decisions,
            )
            for transaction in found
        )
        leaderless = sorted(
            partition.partition for partition in snapshot.partitions if partition.leader is None
        )
        hidden = "" if self.topics else _hidden(client)
        return TransactionsFound(snapshot.cluster_id, endings, unread, tuple(leaderless), hidden)

    def _require_topics(self, snapshot: ClusterSnapshot) -> None:
        """See that the cluster has the topics that were named. Raises UsageError."""
        known = {partition.partition.topic for partition in snapshot.partitions}
        absent = [topic for topic in self.topics if topic not in known]
        if absent:
            raise UsageError(
                f"Cluster {snapshot.cluster_id} has no topic {', '.join(absent)}: correct the "
                "name, or leave --topics out for all."
            )

    def _decisions(self, client: ReadClient) -> list[Decisions]:
        """What coordinators had decided, by the sources."""
        logs = [source for source in self.sources if source.partition.topic == TRANSACTION_STATE]
        if not logs:
            return []
        states = client.partitions([TRANSACTION_STATE], Deadline.after(patience.COMMAND))
        ids = {state.topic_id for state in states}
        return [decisions_in(log.name, log.batches(0)) for log in logs if log.topic_id in ids]

    def _ending(
        self,
        client: ReadClient,
        state: PartitionState,
        pending: OpenTransaction,
        stable: int | Unknown,
        decisions: Sequence[Decisions],
    ) -> TransactionEnding:
        assert state.leader is not None
        leader = state.leader
        why = left_alone(pending)
        if why and pending.aborts_at_ms is None:
            return TransactionEnding(pending, leader, stable, None, why, records=Unknown(why))
        proofs = [
            *self._proofs(client, state, pending),
            *proofs_by_decision(client, state, pending, decisions),
        ]
        ends = [proof for proof in proofs if isinstance(proof, ProvenEnd)]
        if len({end.marker.commit for end in ends}) > 1:
            said = ", ".join(f"{end.source} {end.marker.word}" for end in ends)
            why = f"its markers contradict each other ({said}): find out which log is right"
            return TransactionEnding(pending, leader, stable, None, why, records=Unknown(why))
        if why and not any(end.marker.commit for end in ends):
            # An abort that its coordinator will write is nothing to be saved from.
            whys = (why, *(proof.reason for proof in proofs if isinstance(proof, Unknown)))
            why = "; ".join(whys)
            return TransactionEnding(pending, leader, stable, None, why, records=Unknown(why))
        if ends:
            best = min(ends, key=_missing)
            told = by_log(best)
            if why:
                told = f"was committed; its coordinator {pending.left_to}: {told}"
            return TransactionEnding(pending, leader, stable, best.marker, told, best, best.present)
        why = "; ".join(proof.reason for proof in proofs if isinstance(proof, Unknown))
        why = why or "no log was named that may hold its marker"
        if not self.abort:
            return TransactionEnding(pending, leader, stable, None, why, records=Unknown(why))
        marker = EndMarker(
            pending.producer_id,
            pending.producer_epoch,
            max(pending.coordinator_epoch, 0),
            commit=False,
        )
        records = records_here(client, leader, pending)
        return TransactionEnding(pending, leader, stable, marker, why, records=records)

    def _proofs(
        self, client: ReadClient, state: PartitionState, pending: OpenTransaction
    ) -> Iterator[ProvenEnd | Unknown]:
        """What each source proves about *pending*."""
        for source in self.sources:
            if source.partition != state.partition:
                continue
            if source.topic_id != state.topic_id:
                yield Unknown(f"{source.name} is not known to be of this topic, by its topic id")
                continue
            found = find_marker(source.name, source.states(pending.start_offset), pending)
            yield (
                found
                if isinstance(found, Unknown)
                else proof_by_marker(client, state, pending, found)
            )


def with_ends_beside(client: ReadClient, found: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """*found*, each with the partitions on which its transaction has ended already (R28).

    Raises:
        Unreachable: no broker serves the cluster's metadata.
    """
    beside = {partition for one in found for partition in one.beside}
    if not beside:
        return list(found)
    deadline = Deadline.after(patience.COMMAND)
    topics = sorted({partition.topic for partition in beside})
    leaders = {
        state.partition: state.leader
        for state in client.partitions(topics, deadline, beside)
        if state.leader is not None
    }
    ended = ended_beside(client.sender, found, leaders, deadline)
    return [replace(one, ended_on=ended.get(one.producer_id, ())) for one in found]


def left_alone(pending: OpenTransaction) -> str:
    """Why only its coordinator may end *pending*; empty if an operator may end it."""
    hanging = pending.hanging
    if hanging is False:
        return f"its coordinator says {pending.coordinator_state}, and {pending.left_to}"
    if isinstance(hanging, Unknown) and hanging != UNLISTED:
        return f"whether it lives is not known: {hanging.reason}"
    return ""


def still_open(
    client: ReadClient, ending: TransactionEnding, deadline: Deadline
) -> OpenTransaction | None:
    """The transaction of *ending* on its leader now; None if it has ended.

    Raises:
        BreakglassError: the leader does not answer.
    """
    leaders = {ending.partition: ending.leader}
    told = read_open_transactions(client.sender, leaders, (), deadline)
    if isinstance(told, Unknown):
        raise BreakglassError(told.reason)
    was = ending.pending
    return next(
        (
            transaction
            for transaction in told
            if (transaction.producer_id, transaction.start_offset)
            == (was.producer_id, was.start_offset)
        ),
        None,
    )


def _missing(end: ProvenEnd) -> tuple[bool, int]:
    """Sort key: the proof that leaves the least open comes first."""
    known = isinstance(end.missing, int)
    return not known, end.missing if isinstance(end.missing, int) else 0


def by_log(end: ProvenEnd) -> str:
    """Which log says how it ended, and how much of it is here."""
    what = end.status or "marker"
    said = (
        f"{end.source} has its {what} at offset {end.offset:,}: {end.marker.word}, "
        f"coordinator epoch {end.marker.coordinator_epoch}"
    )
    if isinstance(end.missing, Unknown):
        return f"{said}; {end.present:,} of its records are here, of how many is not known"
    if end.missing:
        return (
            f"{said}; {end.present:,} of its {end.present + end.missing:,} records are here, the "
            "others in that log alone"
        )
    return f"{said}; all of its {end.present:,} records are here"


def _hidden(client: ReadClient) -> str:
    """Why some topics may not be shown to this user; empty if it may describe every topic.

    Brokers leave out of a list what a user may not describe. Of a name that no topic has they say
    that there is no such topic, or that this user may not know (KafkaApis, Kafka 4.3.1).
    """
    try:
        client.partitions([f"no-such-topic-{uuid4()}"], Deadline.after(patience.REQUEST))
    except NotAuthorized:
        return HIDDEN
    except BreakglassError as error:
        return f"it is not known whether topics are hidden from this user: {error}"
    return ""


def described(endings: Sequence[TransactionEnding]) -> list[dict[str, object]]:
    """*endings* as JSON has them."""
    return [
        {
            "topic": ending.partition.topic,
            "partition": ending.partition.partition,
            "leader": ending.leader,
            "producer_id": ending.pending.producer_id,
            "producer_epoch": ending.pending.producer_epoch,
            "start_offset": ending.pending.start_offset,
            "last_stable_offset": ending.last_stable,
            "last_timestamp_ms": ending.pending.last_timestamp_ms,
            "coordinator_state": ending.pending.coordinator_state,
            "hanging": ending.hanging,
            "aborts_at_ms": ending.pending.aborts_at_ms,
            "end": ending.marker and ending.marker.word,
            "coordinator_epoch": ending.marker and ending.marker.coordinator_epoch,
            "marker_found_in": ending.proven and ending.proven.source,
            "records": ending.records,
            "missing": ending.missing,
            "why": ending.why,
        }
        for ending in endings
    ]
