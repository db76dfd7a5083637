"""What a log that was passed over proves of an open transaction, and what it does not (R18)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.transaction_end_client import EndMarker
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.recovery.transactions.evidence import (
    FoundMarker,
    ProvenEnd,
    TransactionBatch,
    find_marker,
    proven,
)
from breakglass.services.topic_backup.batch_log import BatchState

BILLING = TopicPartition("billing", 0)
PENDING = OpenTransaction(BILLING, 7, 2, 10, 0, "CompleteCommit")
LEADER = EpochHistory((EpochRange(0, 0, 10), EpochRange(1, 10, 20), EpochRange(4, 20, 30)), 0)
"""It wrote epoch 1 to 20, and was elected in epoch 4."""
Item = BatchState | UnreadableRange


def data(start: int, end: int, *, producer: int = 7, epoch: int = 1) -> BatchState:
    return BatchState(start, end - 1, epoch, end - start, 0, 0, producer, 2, 0, True, None, None)


def marker(
    offset: int, word: str = "commit", *, producer: int = 7, epoch: int = 2, coordinator: int = 3
) -> BatchState:
    return BatchState(offset, offset, 1, 1, 0, 0, producer, epoch, -1, True, word, coordinator)


def found(*items: Item, pending: OpenTransaction = PENDING) -> FoundMarker | Unknown:
    return find_marker("log:x", items, pending)


def proof(*items: Item, here: tuple[TransactionBatch, ...]) -> ProvenEnd | Unknown:
    told = found(*items)
    assert isinstance(told, FoundMarker)
    return proven(told, PENDING, here, LEADER)


def test_r18_the_first_marker_of_that_producer_ends_it_as_its_coordinator_wrote_it() -> None:
    told = found(
        data(10, 15), marker(15, "abort", producer=8), data(16, 18), marker(18), marker(19, "abort")
    )
    assert isinstance(told, FoundMarker)
    assert (told.offset, told.marker) == (18, EndMarker(7, 2, 3, commit=True))
    assert [batch.base_offset for batch in told.batches] == [10, 16]


@pytest.mark.parametrize(
    ("ends", "pending", "epochs"),
    [
        pytest.param({"epoch": 3}, PENDING, (3, 3), id="KIP-890: it has the next epoch"),
        pytest.param({}, replace(PENDING, coordinator_epoch=9), (2, 9), id="not undercut"),
    ],
)
def test_r18_a_marker_is_written_with_its_epoch_by_no_older_a_coordinator(
    ends: dict[str, int], pending: OpenTransaction, epochs: tuple[int, int]
) -> None:
    told = found(data(10, 15), marker(15, **ends), pending=pending)  # type: ignore[arg-type]
    assert isinstance(told, FoundMarker)
    assert (told.marker.producer_epoch, told.marker.coordinator_epoch) == epochs


EMPTIED = replace(marker(15), marker="unknown", coordinator_epoch=None)


@pytest.mark.parametrize(
    "items",
    [
        pytest.param((marker(15, producer=8),), id="there is none"),
        pytest.param((marker(15, epoch=1),), id="it is of an earlier epoch"),
        pytest.param((EMPTIED,), id="compaction emptied it"),
    ],
)
def test_r18_without_a_marker_of_the_transaction_nothing_is_known(items: tuple[Item, ...]) -> None:
    assert isinstance(found(data(10, 15), *items), Unknown)


@pytest.mark.parametrize(
    "between", [(UnreadableRange(15, 17, "torn"),), ()], ids=["damaged", "missing"]
)
def test_r18_where_a_batch_is_unread_a_later_marker_proves_nothing(
    between: tuple[Item, ...],
) -> None:
    assert isinstance(found(data(10, 15), *between, marker(17)), Unknown)


def test_r18_what_is_missing_of_a_committed_transaction_is_counted() -> None:
    here = (TransactionBatch(10, 1, 5),)
    whole = proof(data(10, 15), marker(15), here=here)
    cut = proof(data(10, 15), data(15, 18), marker(18), here=here)
    assert isinstance(whole, ProvenEnd)
    assert isinstance(cut, ProvenEnd)
    assert (whole.present, whole.missing) == (5, 0)
    assert (cut.present, cut.missing) == (5, 3)


def test_r18_a_log_with_another_batch_where_it_begins_is_another_transaction() -> None:
    here = (TransactionBatch(10, 1, 5),)
    assert isinstance(proof(data(10, 15, epoch=2), marker(15), here=here), Unknown)


def test_r18_records_of_the_producer_that_only_the_leader_has_are_another_transaction() -> None:
    here = (TransactionBatch(10, 1, 5), TransactionBatch(15, 4, 2))
    told = proof(data(10, 15), data(15, 17, producer=8), marker(17), here=here)
    assert isinstance(told, Unknown)


@pytest.mark.parametrize(
    ("start", "epoch", "joins"), [(20, 1, True), (20, 2, True), (21, 2, False)]
)
def test_r18_a_rescue_counts_where_it_begins_at_the_leaders_parting(
    start: int, epoch: int, joins: bool
) -> None:
    rescued = data(start, start + 2, epoch=epoch)
    told = proof(rescued, marker(start + 2), here=(TransactionBatch(10, 1, 10),))
    assert isinstance(told, ProvenEnd) is joins
    if isinstance(told, ProvenEnd):
        assert (told.present, told.missing) == (10, 2)
