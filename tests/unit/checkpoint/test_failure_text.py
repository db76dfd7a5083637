"""Why a checkpoint has failed: said once, by the names of its partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.checkpoint.backup_info import backup_info
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import NumberedPartition
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.checkpoint.wording import (
    ANOTHER_FAILED,
    not_higher,
    overtaken,
    reasons,
    why_failed,
)
from tests.unit.checkpoint.store.stores import POSITION, copied, reserved, take

SUBJECTS = (
    *(NumberedPartition(number, "bank", number - 1) for number in (1, 2, 3, 4)),
    NumberedPartition(5, "orders", 0),
)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """Checkpoint 1, reserved, of four partitions of one topic and one of another."""
    store = BackupStore(str(tmp_path))
    assert store.reserve(take(1, subjects=SUBJECTS)) is None
    return store


def found_in(store: BackupStore) -> StoredCheckpoint:
    found = store.read(1)
    assert found is not None
    return found


def test_equal_reasons_are_said_once_with_the_partitions_by_name(store: BackupStore) -> None:
    for number in (1, 2, 4, 5):
        store.copies.fail(CopyId(1, number, 0), "disk full")
    store.copies.fail(CopyId(1, 3, 0), "a log was cut")
    assert list(reasons(found_in(store))) == [
        "bank-0..1, bank-3, orders-0 (4 partitions): disk full",
        "bank-2: a log was cut",
    ]


def test_of_many_runs_the_first_are_named(store: BackupStore) -> None:
    many = tuple(NumberedPartition(number, "bank", 2 * number) for number in range(1, 9))
    assert store.reserve(take(2, subjects=many)) is None
    for partition in many:
        store.copies.fail(CopyId(2, partition.number, 0), "disk full")
    found = store.read(2)
    assert found is not None
    assert list(reasons(found)) == [
        "bank-2, bank-4, bank-6, bank-8, bank-10, ... (8 partitions): disk full"
    ]


def test_the_reason_of_the_whole_comes_first(store: BackupStore) -> None:
    store.copies.fail(CopyId(1, 2, 0), "disk full")
    store.fail_checkpoint(1, "group bank lags")
    assert list(reasons(found_in(store))) == ["group bank lags", "bank-1: disk full"]


def test_i09_no_partition_of_a_failed_checkpoint_is_ongoing(store: BackupStore) -> None:
    copied(store, CopyId(1, 1, 0))
    for number in (2, 3, 4, 5):
        store.copies.begin(CopyId(1, number, 0), POSITION, "1.0")
    assert found_in(store).partitions[1].status is Status.ONGOING
    store.copies.fail(CopyId(1, 3, 0), "disk full")
    found = found_in(store)
    assert [partition.status for partition in found.partitions] == [
        Status.COMPLETED,
        *4 * [Status.FAILED],
    ]
    whys = [why_failed(partition, found) for partition in found.partitions]
    assert whys == [None, ANOTHER_FAILED, "disk full", ANOTHER_FAILED, ANOTHER_FAILED]


def test_http_says_of_each_partition_why_the_whole_has_failed(store: BackupStore) -> None:
    store.copies.begin_all({CopyId(1, subject.number, 0): None for subject in SUBJECTS})
    store.fail_checkpoint(1, "group bank lags")
    info = backup_info(found_in(store))
    assert info["failureReason"] == "group bank lags"
    assert isinstance(info["details"], list)
    seen = {(document["state"], document["failureReason"]) for document in info["details"]}
    assert seen == {("FAILED", "group bank lags")}


def test_an_id_is_refused_with_what_to_do_next(tmp_path: Path) -> None:
    store = BackupStore(str(tmp_path))
    reserved(store, 7)
    refused = store.reserve(take(3))
    assert isinstance(refused, NotHigher)
    words = not_higher(refused)
    assert "Leave --id out" in words
    assert "above 7" in words
    assert "Zeebe" not in words
    assert overtaken(refused) == (
        "checkpoint 7 was asked for in between, so 3 is not the next one any more: begin again"
    )
