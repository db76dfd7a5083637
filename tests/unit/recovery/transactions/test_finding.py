"""A marker ends all that its producer has open: all of it has to be of that transaction (R28).

What a log that was passed over proves of an open transaction, and what it does not (R18).
"""

import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from breakglass.services.divergence.source import UnreadableRange
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.marker_client import EndMarker
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.recovery.acts.end_transactions import unchanged
from breakglass.services.recovery.transactions.finding import (
    CoordinatorDecision,
    Decisions,
    FoundMarker,
    ProvenEnd,
    TransactionBatch,
    by_log,
    decided,
    decisions_in,
    find_marker,
    proof_by_marker,
    proofs_by_decision,
    proven,
)
from breakglass.services.recovery.transactions.source import LoggedBatch
from breakglass.services.topic_backup.batch_log import BatchState
from tests.kit.deadlines import be_patient
from tests.kit.fake_cluster import FakeCluster
from tests.unit.kafka.replicas.held_log import HeldLog
from tests.unit.recovery.execution.targets import state
from tests.unit.topic_backup.batch_bytes import TRANSACTIONAL, batch
from tests.unit.topic_backup.shapes import run

BILLING = TopicPartition("billing", 0)
BEGAN, DECIDED_AT = 1_000, 5_000
PENDING = OpenTransaction(
    BILLING, 7, 2, 0, 0, "Ongoing", began_ms=BEGAN, aborts_at_ms=60_000, transactional_id="w"
)
FOUND = FoundMarker("log:x", 10, EndMarker(7, 2, 3, True), (TransactionBatch(0, 1, 10),), 0, 1)
"""The lost log has ten records of the transaction, and its marker at offset 10."""
DECISIONS = {
    ("w", 7, BEGAN): [CoordinatorDecision("log:t", 40, "CompleteCommit", 2, 3, DECIDED_AT)]
}
LED = state(BILLING, leader=1)


@dataclass(frozen=True)
class Leader:
    """What proofs ask of a client: broker 1, whose log has epochs 1 and 4."""

    sender: Sender
    log: HeldLog

    def replicas_on(self, _broker: int) -> Any:
        epochs = EpochHistory((EpochRange(1, 0, 10), EpochRange(4, 10, self.log.end)), 0)
        return SimpleNamespace(
            read=lambda wanted, _: {one: SimpleNamespace(log_end=self.log.end) for one in wanted},
            deepen=lambda *_: None,
            history=lambda _: epochs,
        )


def written(start: int, *, producer: int = 7, epoch: int = 1, at_ms: int = BEGAN) -> bytes:
    return batch(
        run(start, start + 10),
        epoch=epoch,
        flags=TRANSACTIONAL,
        producer=(producer, 2, start),
        max_timestamp=at_ms,
    )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    be_patient(monkeypatch)
    with FakeCluster(1) as cluster:
        yield cluster


def proofs(cluster: FakeCluster, *batches: bytes) -> list[ProvenEnd | Unknown]:
    """By the marker, and by the decision, where the leader has *batches*."""
    log = HeldLog(BILLING, batches)
    log.serve(cluster.brokers[1])
    with closing(cluster.sender()) as sender:
        client = cast("ReadClient", Leader(sender, log))
        by_marker = proof_by_marker(client, LED, PENDING, FOUND)
        return [by_marker, *proofs_by_decision(client, LED, PENDING, [DECISIONS])]


def test_r28_what_another_producer_wrote_since_changes_no_proof(cluster: FakeCluster) -> None:
    found = proofs(cluster, written(0), written(10, producer=8, epoch=4, at_ms=9_000))
    assert [proof.present for proof in found if isinstance(proof, ProvenEnd)] == [10, 10]
    by_marker, by_decision = found
    assert isinstance(by_marker, ProvenEnd)
    assert isinstance(by_decision, ProvenEnd)
    assert (by_marker.missing, isinstance(by_decision.missing, Unknown)) == (0, True)
    for proof, whole in (
        (by_marker, True),
        (replace(by_marker, missing=3), False),
        (by_decision, False),
    ):
        assert ("all of its" in by_log(proof)) is whole


def test_r28_what_its_producer_wrote_since_is_of_another_transaction_and_nothing_is_proved(
    cluster: FakeCluster,
) -> None:
    """Its coordinator was set back, so it takes both for one; the marker would end both."""
    found = proofs(cluster, written(0), written(10, epoch=4, at_ms=9_000))
    assert [type(proof) for proof in found] == [Unknown, Unknown]


@pytest.mark.parametrize(
    "since", [{"last_sequence": 9}, {"producer_epoch": 3}, {"last_timestamp_ms": 9_000}]
)
def test_r18_a_transaction_that_its_producer_wrote_to_since_is_not_open_as_it_was_agreed_to(
    since: dict[str, Any],
) -> None:
    assert unchanged(PENDING, PENDING)
    assert not unchanged(replace(PENDING, **since), PENDING)
    assert not unchanged(None, PENDING)


UNENDED = OpenTransaction(BILLING, 7, 2, 10, 0, "CompleteCommit")
LEADER = EpochHistory((EpochRange(0, 0, 10), EpochRange(1, 10, 20), EpochRange(4, 20, 30)), 0)
"""It wrote epoch 1 to 20, and was elected in epoch 4."""
Item = BatchState | UnreadableRange


def data(start: int, end: int, *, producer: int = 7, epoch: int = 1) -> BatchState:
    return BatchState(start, end - 1, epoch, end - start, 0, 0, producer, 2, 0, True, None, None)


def marker(
    offset: int, word: str = "commit", *, producer: int = 7, epoch: int = 2, coordinator: int = 3
) -> BatchState:
    return BatchState(offset, offset, 1, 1, 0, 0, producer, epoch, -1, True, word, coordinator)


def found(*items: Item, pending: OpenTransaction = UNENDED) -> FoundMarker | Unknown:
    return find_marker("log:x", items, pending)


def proof(*items: Item, here: tuple[TransactionBatch, ...]) -> ProvenEnd | Unknown:
    told = found(*items)
    assert isinstance(told, FoundMarker)
    return proven(told, UNENDED, here, LEADER)


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
        pytest.param({"epoch": 3}, UNENDED, (3, 3), id="KIP-890: it has the next epoch"),
        pytest.param({}, replace(UNENDED, coordinator_epoch=9), (2, 9), id="not undercut"),
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


def logged(
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
    assert end(logged(ONGOING), logged(status)) == EndMarker(7, 2, 5, commit=True)


def test_r28_the_marker_of_kip_890_has_the_epoch_of_the_decision() -> None:
    assert end(logged(PREPARE_COMMIT, epoch=3)) == EndMarker(7, 3, 5, commit=True)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(logged(ONGOING), id="not decided"),
        pytest.param(logged(PREPARE_COMMIT, began=BEGAN + 1), id="another transaction"),
        pytest.param(logged(PREPARE_COMMIT, transactional_id="v"), id="another id"),
    ],
)
def test_r28_the_decision_of_another_transaction_proves_nothing(batch: LoggedBatch) -> None:
    assert end(batch) is None


@pytest.mark.parametrize(
    ("batches", "newest"),
    [
        pytest.param((logged(PREPARE_COMMIT), logged(PREPARE_ABORT)), BEGAN, id="they contradict"),
        pytest.param((logged(PREPARE_COMMIT, epoch=1),), BEGAN, id="an earlier epoch"),
        pytest.param((logged(PREPARE_COMMIT),), NOW, id="its producer has written since"),
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
        logged(PREPARE_COMMIT),
    )
    assert isinstance(decided(UNDECIDED, [log(*batches)], BEGAN), tuple)
