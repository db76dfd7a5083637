"""Proves by logs that were not elected how open transactions ended, and were decided. Pure.

A marker counts only if the log is the same as the leader's up to the transaction, and if all
batches before the marker were read: an unread batch may be an earlier marker, which ends the
transaction instead.

A coordinator writes its decision to `__transaction_state` before it writes any marker (R28). An
election that loses the decision sets the transaction back to Ongoing, and its coordinator aborts it
at its timeout. The id, the producer id and the moment at which it began tell a transaction from
others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.marker_client import EndMarker
from breakglass.services.model import TRANSACTION_STATE, EpochHistory, Unknown
from breakglass.services.recovery.internal_topics.records import (
    DECIDED,
    NotThatRecord,
    TransactionalState,
    change_of,
)
from breakglass.services.recovery.transactions.source import LoggedBatch
from breakglass.services.topic_backup.batch_log import BatchState


@dataclass(frozen=True, slots=True, order=True)
class TransactionBatch:
    """One batch of a transaction; two batches with the same offset and epoch are the same."""

    base_offset: int
    leader_epoch: int
    records: int


@dataclass(frozen=True, slots=True)
class FoundMarker:
    """The end of a transaction in a log that was not elected."""

    source: str
    offset: int
    marker: EndMarker
    batches: tuple[TransactionBatch, ...]
    """The transaction's batches before the marker in that log."""
    since: int
    """The offset from which that log was read."""
    since_epoch: int
    """The leader epoch of the log's batch at `since`."""


@dataclass(frozen=True, slots=True)
class ProvenEnd:
    """How a transaction ended, and how many of its records the partition has."""

    source: str
    """The log that proves it."""
    offset: int
    """The offset of the marker, or of the decision, in that log."""
    marker: EndMarker
    """The marker to write."""
    present: int
    """Records of the transaction on the partition."""
    missing: int | Unknown
    """Records of the transaction that only the log that was not elected has."""
    status: str = ""
    """The coordinator's decision that proves it; empty: the transaction's own marker does."""


def find_marker(
    source: str, states: Iterable[BatchState | UnreadableRange], pending: OpenTransaction
) -> FoundMarker | Unknown:
    """The first marker of the producer of *pending* among *states*, a log from its beginning on.

    Unknown with the reason if there is no marker, or if the marker proves nothing.
    """
    batches: list[TransactionBatch] = []
    first: BatchState | None = None
    reached: int | None = None
    for state in states:
        start = state.start if isinstance(state, UnreadableRange) else state.base_offset
        if reached is not None and start > reached:
            return _unread(source, reached, start)
        if isinstance(state, UnreadableRange):
            return _unread(source, state.start, state.end)
        if state.last_offset < pending.start_offset:
            continue
        first = first or state
        reached = state.last_offset + 1
        if state.producer_id != pending.producer_id:
            continue
        if state.marker is not None:
            return _marker(source, state, tuple(batches), first, pending)
        if state.transactional:
            batches.append(TransactionBatch(state.base_offset, state.leader_epoch, state.count))
    return Unknown(f"{source} has no marker of producer {pending.producer_id} either")


def _unread(source: str, start: int, end: int) -> Unknown:
    return Unknown(
        f"{source} does not give offsets {start:,} to {end - 1:,}, and the marker may have been "
        "there"
    )


def _marker(
    source: str,
    state: BatchState,
    batches: tuple[TransactionBatch, ...],
    first: BatchState,
    pending: OpenTransaction,
) -> FoundMarker | Unknown:
    if state.commit is None or state.coordinator_epoch is None:
        return Unknown(f"{source}: compaction emptied the marker at offset {state.base_offset:,}")
    if state.producer_epoch < pending.producer_epoch:
        return Unknown(
            f"{source}: the marker at offset {state.base_offset:,} is of an earlier epoch of the "
            "producer"
        )
    marker = EndMarker(
        pending.producer_id,
        state.producer_epoch,
        max(state.coordinator_epoch, pending.coordinator_epoch),
        state.commit,
    )
    return FoundMarker(
        source, state.base_offset, marker, batches, first.base_offset, first.leader_epoch
    )


def proven(
    found: FoundMarker,
    pending: OpenTransaction,
    here: Collection[TransactionBatch],
    epochs: EpochHistory,
) -> ProvenEnd | Unknown:
    """What *found* proves about *pending*, whose partition has the batches *here* before that.

    *epochs* are the leader's. Unknown with the reason if the logs are not known to be the same up
    to the transaction.
    """
    ours, theirs = set(here), set(found.batches)
    began = min(ours, default=None)
    if found.since <= pending.start_offset:
        if began is None or began not in theirs:
            return Unknown(f"{found.source} does not hold the beginning of this transaction")
    elif not parts_at(epochs, found):
        return Unknown(f"{found.source} begins elsewhere than where the leader's log parts from it")
    foreign = [our for our in ours - theirs if our.base_offset >= found.since]
    if foreign:
        return Unknown(
            f"the leader holds records of that producer from offset {min(foreign).base_offset:,} "
            f"on that {found.source} does not: it is another transaction"
        )
    present = sum(batch.records for batch in ours)
    missing = sum(batch.records for batch in theirs - ours)
    return ProvenEnd(found.source, found.offset, found.marker, present, missing)


def parts_at(epochs: EpochHistory, found: FoundMarker) -> bool:
    """Whether a log that is known from *found.since* on is the leader's up to there.

    A rescue begins where the highest epoch that both logs have ends in the leader's log. If both
    logs have an epoch beyond that point, they are the same there, too (log matching).
    """
    shared = [range_ for range_ in epochs.ranges if range_.epoch <= found.since_epoch]
    if not shared:
        return False
    last = shared[-1]
    return last.end == found.since or (last.epoch == found.since_epoch and last.end > found.since)


@dataclass(frozen=True, slots=True)
class CoordinatorDecision:
    """One record of a coordinator's log that decides a transaction."""

    source: str
    offset: int
    status: str
    """``PrepareCommit``, ``CompleteCommit``, ..."""
    producer_epoch: int
    """The producer epoch of its markers."""
    coordinator_epoch: int
    """The leader epoch in which the record was written, which is the coordinator's epoch."""
    decided_ms: int

    @property
    def commit(self) -> bool:
        return DECIDED[self.status]


Decisions = Mapping[tuple[str, int, int], Sequence[CoordinatorDecision]]
"""By transactional id, producer id and the moment at which the transaction began."""


def decisions_in(source: str, batches: Iterable[LoggedBatch | UnreadableRange]) -> Decisions:
    """The decisions in one log of `__transaction_state`; what cannot be read decides nothing."""
    found: dict[tuple[str, int, int], list[CoordinatorDecision]] = {}
    for batch in batches:
        if isinstance(batch, UnreadableRange):
            continue
        for record in batch.records:
            try:
                change = change_of(TRANSACTION_STATE, record)
            except NotThatRecord:
                continue
            value = None if change is None else change.value
            if isinstance(value, TransactionalState) and value.status in DECIDED:
                assert change is not None
                decision = CoordinatorDecision(
                    source,
                    record.offset,
                    value.status,
                    value.producer_epoch,
                    batch.leader_epoch,
                    value.updated_ms,
                )
                key = (change.key.name, value.producer_id, value.began_ms)
                found.setdefault(key, []).append(decision)
    return found


def decided(
    pending: OpenTransaction, decisions: Iterable[Decisions], newest_ms: int
) -> tuple[CoordinatorDecision, EndMarker] | Unknown | None:
    """How *pending* was decided, and its marker; None if no log has a decision.

    *newest_ms* is the newest timestamp of the producer's records on the partition: what it wrote
    after the decision belongs to another transaction, which its coordinator takes for this one.
    """
    if pending.began_ms is None:
        return None
    key = (pending.transactional_id, pending.producer_id, pending.began_ms)
    found = [decision for log in decisions for decision in log.get(key, ())]
    if not found:
        return None
    last = found[-1]
    if len({decision.commit for decision in found}) > 1:
        return Unknown(f"{last.source} has both a commit and an abort of it: find out which holds")
    if last.producer_epoch < pending.producer_epoch:
        return Unknown(f"{last.source}: its {last.status} is of an earlier epoch of the producer")
    if newest_ms > last.decided_ms:
        return Unknown(
            f"{last.source} has its {last.status}, and by their timestamps records of its producer "
            f"on {pending.partition} are newer, so they may be of another transaction: name the "
            f"lost log of {pending.partition} too"
        )
    marker = EndMarker(
        pending.producer_id,
        last.producer_epoch,
        max(last.coordinator_epoch, pending.coordinator_epoch),
        last.commit,
    )
    return last, marker
