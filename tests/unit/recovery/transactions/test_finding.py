"""A marker ends all that its producer has open: all of it has to be of that transaction (R28)."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.marker_client import EndMarker
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.recovery.acts.end_transactions import unchanged
from breakglass.services.recovery.transactions.evidence import (
    CoordinatorDecision,
    FoundMarker,
    ProvenEnd,
    TransactionBatch,
)
from breakglass.services.recovery.transactions.finding import (
    by_log,
    proof_by_marker,
    proofs_by_decision,
)
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
        client = cast(ReadClient, Leader(sender, log))
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
