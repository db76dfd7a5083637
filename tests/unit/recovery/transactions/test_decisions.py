"""What a coordinator's lost log proves of a transaction that is Ongoing again (R28)."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.transaction_end_client import EndMarker
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.recovery.transactions.decisions import Decisions, decided, decisions_in
from breakglass.services.recovery.transactions.source import LoggedBatch

BEGAN, DECIDED_AT, NOW = 1_000, 2_000, 60_000
PENDING = OpenTransaction(
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
    found = decided(PENDING, [log(*batches)], newest)
    return found[1] if isinstance(found, tuple) else found


@pytest.mark.parametrize("status", [PREPARE_COMMIT, COMPLETE_COMMIT])
def test_r28_a_decision_of_that_very_transaction_commits_it_by_its_coordinators_epoch(
    status: int,
) -> None:
    assert end(state(ONGOING), state(status)) == EndMarker(7, 2, 5, commit=True)


def test_r28_the_marker_of_kip_890_has_the_epoch_of_the_decision() -> None:
    assert end(state(PREPARE_COMMIT, epoch=3)) == EndMarker(7, 3, 5, commit=True)


def test_r28_a_marker_never_undercuts_the_coordinator_that_wrote_last() -> None:
    later = replace(PENDING, coordinator_epoch=9)
    found = decided(later, [log(state(PREPARE_COMMIT))], BEGAN)
    assert isinstance(found, tuple)
    assert found[1].coordinator_epoch == 9


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
    assert isinstance(decided(PENDING, [log(*batches)], BEGAN), tuple)
