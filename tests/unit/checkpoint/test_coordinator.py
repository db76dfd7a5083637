"""Taking, going on with, failing and deleting checkpoints: a store on disk, logs in memory."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.finishing import ABANDONED_MS, NEVER_ACKNOWLEDGED
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import LARGEST_ASKED, LARGEST_ID, CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import GroupPolicy
from breakglass.services.checkpoint.store.retention import Retention
from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    BreakglassError,
    EvidenceChanged,
    NotAuthorized,
    Refused,
    StorageError,
    TimedOut,
    UsageError,
)
from breakglass.services.topic_backup.store.local_blobs import LocalBlobs
from tests.kit.clock import Clock
from tests.unit.checkpoint.store.stores import (
    SUBJECTS,
    copied,
    failure,
    manifest,
    started,
    stored,
    take,
)
from tests.unit.checkpoint.topics import EPOCH, Logs

GONE = StorageError("the machine is gone")


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return BackupStore(str(tmp_path))


@pytest.fixture
def logs() -> Logs:
    return Logs()


def coordinator(store: BackupStore, logs: Logs) -> Coordinator:
    clock = Clock()
    return Coordinator(
        store, logs, node=7, tool_version="1.0", start_seconds=5, wait=clock.sleep, clock=clock
    )


def cut_off(store: BackupStore, logs: Logs, id: int | None, request: str) -> None:
    """A take that dies before its acknowledgement."""
    logs.refusal = GONE
    with pytest.raises(StorageError):
        coordinator(store, logs).take(id, request)
    logs.refusal = None


def test_h04_a_take_is_acknowledged_when_markers_and_manifests_are_there(
    store: BackupStore, logs: Logs
) -> None:
    before: list[Status] = []
    logs.before_start = lambda id: before.append(stored(store, id).status)
    assert coordinator(store, logs).take() == 1
    found = stored(store)
    assert before == [found.status] == [Status.ONGOING]
    assert started(store).positions == {1: 5, 2: 5, 3: 5}
    assert started(store).epochs == dict.fromkeys((1, 2, 3), EPOCH)
    assert found.take is not None
    assert found.take.partitions == SUBJECTS
    assert found.take.groups == {"payments": GroupPolicy.EXACTLY_ONCE}
    assert [copy.id.node for partition in found.partitions for copy in partition.copies] == [7] * 3
    assert all(len(log) > started(store).positions[one] for one, log in logs.records.items())


def test_those_that_did_not_answer_are_asked_again(store: BackupStore, logs: Logs) -> None:
    logs.silent = {2}
    taking = coordinator(store, logs)
    taking._wait = lambda _: logs.silent.clear()
    assert taking.take(1) == 1
    assert logs.asked == [[1, 2, 3], [2]]


def test_a_partition_that_never_answers_fails_the_checkpoint(
    store: BackupStore, logs: Logs
) -> None:
    logs.silent = {2}
    with pytest.raises(TimedOut):
        coordinator(store, logs).take(1, "mine")
    assert "1 of 3 partitions" in failure(store)
    with pytest.raises(Refused):
        coordinator(store, logs).take(1, "mine")


def test_the_next_id_is_above_all_in_the_store_and_in_the_logs(
    store: BackupStore, logs: Logs
) -> None:
    taking = coordinator(store, logs)
    assert taking.take() == 1
    taking.delete(1)
    assert taking.take() == 2
    logs.records[3].append(40)
    assert taking.take(40) == NotHigher(40, 40)
    assert taking.take() == 41


def test_the_greatest_id_that_can_be_named_has_one_after_it_and_no_greater_is_taken(
    store: BackupStore, logs: Logs
) -> None:
    taking = coordinator(store, logs)
    with pytest.raises(UsageError):
        taking.take(LARGEST_ASKED + 1)
    assert [taking.take(LARGEST_ASKED), taking.take()] == [LARGEST_ASKED, LARGEST_ASKED + 1]
    logs.records[1].append(LARGEST_ID)
    with pytest.raises(Refused):
        taking.take()
    assert store.ids() == [LARGEST_ASKED, LARGEST_ASKED + 1]


def test_i07_a_take_that_was_cut_off_is_gone_on_with_by_another_coordinator(
    store: BackupStore, logs: Logs
) -> None:
    logs.reached = 1
    cut_off(store, logs, 1, "mine")
    for _ in range(2):
        assert coordinator(store, logs).take(1, "mine") == 1
    assert coordinator(store, logs).take(1, "another's") == NotHigher(1, 1)
    assert started(store).positions == {1: 5, 2: 5, 3: 5}


def test_h04_an_old_request_does_not_complete_behind_a_newer_id(
    store: BackupStore, logs: Logs
) -> None:
    cut_off(store, logs, 2, "mine")
    assert coordinator(store, logs).take(3) == 3
    assert coordinator(store, logs).take(2, "mine") == NotHigher(2, 3)
    assert [stored(store, id).status for id in (2, 3)] == [Status.FAILED, Status.ONGOING]


@pytest.mark.parametrize("refusal", [NotAuthorized("a", "WRITE"), EvidenceChanged("b")], ids=str)
def test_i09_a_take_that_the_cluster_refuses_has_failed_with_the_reason(
    store: BackupStore, logs: Logs, refusal: BreakglassError
) -> None:
    logs.refusal = refusal
    with pytest.raises(type(refusal)):
        coordinator(store, logs).take(1)
    assert failure(store) == str(refusal)


def test_i09_takes_that_died_before_their_acknowledgement_fail_when_a_live_one_would_be_done(
    store: BackupStore, logs: Logs
) -> None:
    """Those of another node, or that were acknowledged, are left alone."""
    now = now_ms()
    for id, age in ((1, 2 * ABANDONED_MS), (2, 2 * ABANDONED_MS), (3, 2 * ABANDONED_MS), (5, 0)):
        assert store.reserve(replace(take(id), created_at_ms=now - age)) is None
    store.copies.begin(CopyId(2, 1, 7), None)
    store.copies.begin(CopyId(3, 1, 8), None)
    assert coordinator(store, logs).fail_abandoned() == (1, 2)
    assert coordinator(store, logs).fail_abandoned() == ()
    assert failure(store, 1) == failure(store, 2) == NEVER_ACKNOWLEDGED
    assert stored(store, 3).failed is stored(store, 5).failed is None


@pytest.mark.parametrize("is_completed", [True, False])
def test_h12_a_completed_checkpoint_of_another_incarnation_is_no_answer(
    store: BackupStore, logs: Logs, is_completed: bool
) -> None:
    """A completed one stays, as a backup of the old topics; another has failed."""
    assert coordinator(store, logs).take(1, "nightly") == 1
    if is_completed:
        for subject in SUBJECTS:
            store.copies.complete(CopyId(1, subject.number, 7), manifest())
        assert coordinator(store, logs).take(1, "nightly") == 1
    anew = Logs()
    anew.incarnation = "second"
    with pytest.raises(Refused):
        coordinator(store, anew).take(1, "nightly")
    assert anew.asked == []
    assert stored(store).status is (Status.COMPLETED if is_completed else Status.FAILED)


def test_i07_the_same_request_goes_on_without_naming_the_id(store: BackupStore, logs: Logs) -> None:
    assert coordinator(store, logs).take() == 1
    cut_off(store, logs, None, "early")
    assert store.ids() == [1, 2]
    for request, id in (("early", 2), ("early", 2), ("late", 3), ("early", 2)):
        assert coordinator(store, logs).take(request=request) == id
    coordinator(store, logs).delete(2)
    with pytest.raises(Refused):
        coordinator(store, logs).take(request="early")
    assert coordinator(store, logs).take(request="early", is_new=True) == 4


def test_a_partition_that_is_past_the_id_fails_the_checkpoint(
    store: BackupStore, logs: Logs
) -> None:
    logs.before_start = lambda _: logs.records[2].append(9)
    assert coordinator(store, logs).take(1) == NotHigher(1, 9)
    assert stored(store).status is Status.FAILED


def test_retention_is_planned_over_what_is_there(store: BackupStore, logs: Logs) -> None:
    taking = coordinator(store, logs)
    for id in (1, 2, 3):
        taking.take(id)
        for subject in SUBJECTS:
            store.copies.complete(CopyId(id, subject.number, 7), manifest())
    assert taking.expired(Retention()) == ()
    assert taking.expired(Retention(keep=2)) == (1,)
    copied(store, CopyId(3, 1, 8))
    assert [checkpoint.status for checkpoint in taking.all()] == [Status.COMPLETED] * 3


class Killed(Exception):
    """The process is gone."""


@pytest.mark.parametrize("writes", range(7))
def test_i07_a_coordinator_that_is_killed_after_any_write_is_taken_over(
    store: BackupStore, logs: Logs, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = itertools.count(writes, -1)
    create = LocalBlobs.create

    def mortal(self: LocalBlobs, name: str, content: bytes) -> bool:
        if next(left) <= 0:
            raise Killed
        return create(self, name, content)

    # take.json, three of ongoing.json, started.json
    outcome = pytest.raises(Killed) if writes < 5 else nullcontext()
    with monkeypatch.context() as patch, outcome:
        patch.setattr(LocalBlobs, "create", mortal)
        coordinator(store, logs).take(1, "mine")
    assert coordinator(store, logs).take(1, "mine") == 1
    assert stored(store).status is Status.ONGOING
    assert started(store).positions == {1: 5, 2: 5, 3: 5}
