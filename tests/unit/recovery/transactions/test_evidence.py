"""What a log that was passed over proves of an open transaction, and what it does not (R18)."""

import struct
from dataclasses import replace

import pytest

from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.marker_client import EndMarker
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.record_batches import Record, TimestampType
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
from breakglass.services.recovery.transactions.source import LoggedBatch
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


BEGAN, DECIDED_AT, NOW = 1_000, 2_000, 60_000
UNDECIDED = OpenTransaction(
    TopicPartition("billing", 0), 7, 2, 10, 0, "Ongoing", 3, began_ms=BEGAN, transactional_id="w"
)
ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT = 1, 2, 3, 4


def state(
    status: int, *, transactional_id: str = "w", epoch: int = 2, began: int = BEGAN
) -> LoggedBatch:
    """A batch of leader epoch 5 with one state of the id."""
    name = transactional_id.encode()
    key = struct.pack(">hh", 0, len(name)) + name
    value = struct.pack(">hqhib", 0, 7, epoch, 60_000, status) + struct.pack(">i", -1)
    times = struct.pack(">qq", DECIDED_AT, began)
    record = Record(40, TimestampType.CREATE, DECIDED_AT, key, value + times)
    return LoggedBatch(-1, False, None, (record,), 5)


def log(*batches: LoggedBatch | UnreadableRange) -> Decisions:
    return decisions_in("log:x", batches)


def end(*batches: LoggedBatch, newest: int = BEGAN) -> EndMarker | Unknown | None:
    found = decided(UNDECIDED, [log(*batches)], newest)
    return found[1] if isinstance(found, tuple) else found


@pytest.mark.parametrize("status", [PREPARE_COMMIT, COMPLETE_COMMIT])
def test_r28_a_decision_of_that_very_transaction_commits_it_by_its_coordinators_epoch(
    status: int,
) -> None:
    assert end(state(ONGOING), state(status)) == EndMarker(7, 2, 5, commit=True)


def test_r28_the_marker_of_kip_890_has_the_epoch_of_the_decision() -> None:
    assert end(state(PREPARE_COMMIT, epoch=3)) == EndMarker(7, 3, 5, commit=True)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(state(ONGOING), id="not decided"),
        pytest.param(state(PREPARE_COMMIT, began=BEGAN + 1), id="another transaction"),
        pytest.param(state(PREPARE_COMMIT, transactional_id="v"), id="another id"),
    ],
)
def test_r28_the_decision_of_another_transaction_proves_nothing(batch: LoggedBatch) -> None:
    assert end(batch) is None


@pytest.mark.parametrize(
    ("batches", "newest"),
    [
        pytest.param((state(PREPARE_COMMIT), state(PREPARE_ABORT)), BEGAN, id="they contradict"),
        pytest.param((state(PREPARE_COMMIT, epoch=1),), BEGAN, id="an earlier epoch"),
        pytest.param((state(PREPARE_COMMIT),), NOW, id="its producer has written since"),
    ],
)
def test_r28_a_decision_that_may_be_of_another_transaction_is_unknown(
    batches: tuple[LoggedBatch, ...], newest: int
) -> None:
    assert isinstance(end(*batches, newest=newest), Unknown)


def test_r28_what_is_damaged_or_of_another_version_decides_nothing() -> None:
    strange = Record(41, TimestampType.CREATE, 0, struct.pack(">h", 9), b"")
    batches = (
        UnreadableRange(0, 40, "torn"),
        LoggedBatch(-1, False, None, (strange,)),
        state(PREPARE_COMMIT),
    )
    assert isinstance(decided(UNDECIDED, [log(*batches)], BEGAN), tuple)
