"""Finds in a coordinator's log that was not elected how it had decided transactions (R28). Pure.

A coordinator writes its decision to `__transaction_state` before it writes any marker. An election
that loses the decision sets the transaction back to Ongoing, and its coordinator aborts it at its
timeout. The id, the producer id and the moment at which it began tell a transaction from others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.transaction_end_client import EndMarker
from breakglass.services.model import TRANSACTION_STATE, Unknown
from breakglass.services.recovery.internal_topics.records import (
    DECIDED,
    TransactionalState,
    change_of,
)
from breakglass.services.recovery.internal_topics.wire import NotThatRecord
from breakglass.services.recovery.transactions.source import LoggedBatch


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
