"""Taking, going on with, failing and deleting checkpoints: a store on disk, logs in memory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.finishing import ABANDONED_MS, NEVER_ACKNOWLEDGED
from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.participant import Acknowledge
from breakglass.services.checkpoint.protocol.values import LARGEST_ASKED, LARGEST_ID, CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import GroupPolicy, NumberedPartition
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
from tests.unit.checkpoint.store.stores import SUBJECTS, copied, manifest, take
from tests.unit.checkpoint.topics import EPOCH, Logs


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return BackupStore(str(tmp_path))


@pytest.fixture
def logs() -> Logs:
    return Logs()


def coordinator(store: BackupStore, logs: Logs) -> Coordinator:
    """Whose time goes on by a second at each look."""
    seconds = itertools.count()
    return Coordinator(
        store,
        logs,
        node=7,
        tool_version="1.0",
        start_seconds=5,
        wait=lambda _: None,
        clock=lambda: float(next(seconds)),
    )


def status(store: BackupStore, id: int) -> Status:
    found = store.read(id)
    assert found is not None
    return found.status


def test_h04_a_take_is_acknowledged_when_markers_and_manifests_are_there(
    store: BackupStore, logs: Logs
) -> None:
    assert coordinator(store, logs).take() == 1
    found = store.read(1)
    assert found is not None
    assert found.status is Status.ONGOING
    assert found.started is not None
    assert found.started.positions == {1: 5, 2: 5, 3: 5}
    assert found.started.epochs == dict.fromkeys((1, 2, 3), EPOCH)
    assert found.take is not None
    assert (found.take.partitions, found.take.groups) == (
        SUBJECTS,
        {"payments": GroupPolicy.EXACTLY_ONCE},
    )
    assert [copy.id.node for partition in found.partitions for copy in partition.copies] == [7] * 3


def test_nothing_written_after_the_acknowledgement_is_in_the_checkpoint(
    store: BackupStore, logs: Logs
) -> None:
    coordinator(store, logs).take(1)
    found = store.read(1)
    assert found is not None
    assert found.started is not None
    ends = {number: len(log) for number, log in logs.records.items()}
    assert all(end > found.started.positions[number] for number, end in ends.items())


def test_every_copy_is_noted_before_any_partition_starts(store: BackupStore, logs: Logs) -> None:
    seen: list[Status] = []
    start = logs.start

    class Watched(Logs):
        def start(
            self, id: int, partitions: Sequence[NumberedPartition]
        ) -> Mapping[int, Acknowledge]:
            seen.append(status(store, id))
            return start(id, partitions)

    coordinator(store, Watched()).take(1)
    assert seen == [Status.ONGOING]


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
    with pytest.raises(TimedOut, match="1 of 3 partitions did not start within 5 s"):
        coordinator(store, logs).take(1, "mine")
    assert status(store, 1) is Status.FAILED
    with pytest.raises(Refused, match="checkpoint 1 has failed or was deleted"):
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


def test_the_greatest_id_that_can_be_named_has_one_after_it(store: BackupStore, logs: Logs) -> None:
    taking = coordinator(store, logs)
    with pytest.raises(UsageError, match="at most 1000000000000000000: name a smaller one"):
        taking.take(LARGEST_ASKED + 1)
    assert store.ids() == []
    assert taking.take(LARGEST_ASKED) == LARGEST_ASKED
    assert taking.take() == LARGEST_ASKED + 1


def test_an_id_that_no_header_could_hold_is_never_taken(store: BackupStore, logs: Logs) -> None:
    logs.records[1].append(LARGEST_ID)
    with pytest.raises(Refused, match="the greatest there is"):
        coordinator(store, logs).take()
    assert store.ids() == []


def test_i07_a_take_that_was_cut_off_is_gone_on_with_by_another_coordinator(
    store: BackupStore, logs: Logs
) -> None:
    class Unplugged(Logs):
        def start(
            self, id: int, partitions: Sequence[NumberedPartition]
        ) -> Mapping[int, Acknowledge]:
            logs.start(id, partitions[:1])
            raise StorageError("the machine is gone")

    with pytest.raises(StorageError):
        coordinator(store, Unplugged()).take(1, "mine")
    assert coordinator(store, logs).take(1, "mine") == 1
    assert coordinator(store, logs).take(1, "mine") == 1
    assert coordinator(store, logs).take(1, "another's") == NotHigher(1, 1)
    found = store.read(1)
    assert found is not None
    assert found.started is not None
    assert found.started.positions == {1: 5, 2: 5, 3: 5}


def test_h04_an_old_request_does_not_complete_behind_a_newer_id(
    store: BackupStore, logs: Logs
) -> None:
    class Unplugged(Logs):
        def start(
            self, id: int, partitions: Sequence[NumberedPartition]
        ) -> Mapping[int, Acknowledge]:
            raise StorageError("the machine is gone")

    with pytest.raises(StorageError):
        coordinator(store, Unplugged()).take(2, "mine")
    assert coordinator(store, logs).take(3) == 3
    assert coordinator(store, logs).take(2, "mine") == NotHigher(2, 3)
    assert [status(store, id) for id in (2, 3)] == [Status.FAILED, Status.ONGOING]


@pytest.mark.parametrize(
    "refusal",
    [
        NotAuthorized("WRITE on topic orders is missing", "WRITE on topic orders"),
        EvidenceChanged("partitions are gone since the checkpoint was asked for"),
    ],
    ids=["not authorized", "partitions gone"],
)
def test_i09_a_take_that_the_cluster_refuses_has_failed_with_the_reason(
    store: BackupStore, refusal: BreakglassError
) -> None:
    class Refusing(Logs):
        def start(
            self, id: int, partitions: Sequence[NumberedPartition]
        ) -> Mapping[int, Acknowledge]:
            raise refusal

    with pytest.raises(type(refusal)):
        coordinator(store, Refusing()).take(1)
    found = store.read(1)
    assert found is not None
    assert found.failed is not None
    assert (found.status, found.failed.reason) == (Status.FAILED, str(refusal))


def test_i09_takes_that_died_before_their_acknowledgement_fail_when_a_live_one_would_be_done(
    store: BackupStore, logs: Logs
) -> None:
    now = now_ms()
    for id, age in ((1, 2 * ABANDONED_MS), (2, 2 * ABANDONED_MS), (3, 2 * ABANDONED_MS), (5, 0)):
        assert store.reserve(replace(take(id), created_at_ms=now - age)) is None
    store.copies.begin(CopyId(2, 1, 7), None)
    store.copies.begin(CopyId(3, 1, 8), None)
    store.start(3, {})
    assert coordinator(store, logs).fail_abandoned() == (1, 2)
    assert coordinator(store, logs).fail_abandoned() == ()
    found = {id: store.read(id) for id in (1, 2, 3, 5)}
    reasons = {id: one.failed.reason if one and one.failed else None for id, one in found.items()}
    assert reasons == {1: NEVER_ACKNOWLEDGED, 2: NEVER_ACKNOWLEDGED, 3: None, 5: None}


def test_i09_a_take_that_another_node_has_begun_is_left_to_that(
    store: BackupStore, logs: Logs
) -> None:
    assert store.reserve(replace(take(1), created_at_ms=0)) is None
    store.copies.begin(CopyId(1, 1, 8), None)
    assert coordinator(store, logs).fail_abandoned() == ()


def test_h12_a_completed_checkpoint_of_another_incarnation_is_no_answer(
    store: BackupStore, logs: Logs
) -> None:
    assert coordinator(store, logs).take(1, "nightly") == 1
    for subject in SUBJECTS:
        store.copies.complete(CopyId(1, subject.number, 7), manifest())
    assert coordinator(store, logs).take(1, "nightly") == 1
    anew = Logs()
    anew.incarnation = "second"
    with pytest.raises(Refused, match="created again since, or are others: take one with a new id"):
        coordinator(store, anew).take(1, "nightly")
    assert anew.asked == []
    assert status(store, 1) is Status.COMPLETED


def test_h12_an_unfinished_checkpoint_of_another_incarnation_has_failed(
    store: BackupStore, logs: Logs
) -> None:
    coordinator(store, logs).take(1, "nightly")
    logs.incarnation = "second"
    with pytest.raises(Refused, match="created again"):
        coordinator(store, logs).take(1, "nightly")
    assert status(store, 1) is Status.FAILED


def test_i07_the_same_request_goes_on_without_naming_the_id(store: BackupStore, logs: Logs) -> None:
    class Unplugged(Logs):
        def start(
            self, id: int, partitions: Sequence[NumberedPartition]
        ) -> Mapping[int, Acknowledge]:
            raise StorageError("the machine is gone")

    assert coordinator(store, logs).take() == 1
    with pytest.raises(StorageError):
        coordinator(store, Unplugged()).take(request="early")
    assert store.ids() == [1, 2]
    for _ in range(2):
        assert coordinator(store, logs).take(request="early") == 2
    assert coordinator(store, logs).take(request="late") == 3
    assert coordinator(store, logs).take(request="early") == 2
    coordinator(store, logs).delete(2)
    with pytest.raises(Refused, match="checkpoint 2 has failed or was deleted"):
        coordinator(store, logs).take(request="early")
    assert coordinator(store, logs).take(request="early", anew=True) == 4


def test_a_partition_that_is_past_the_id_fails_the_checkpoint(
    store: BackupStore, logs: Logs
) -> None:
    start = logs.start

    class Overtaken(Logs):
        def start(
            self, id: int, partitions: Sequence[NumberedPartition]
        ) -> Mapping[int, Acknowledge]:
            logs.records[2].append(9)
            return start(id, partitions)

    assert coordinator(store, Overtaken()).take(1) == NotHigher(1, 9)
    assert status(store, 1) is Status.FAILED


def test_deleting_what_is_ongoing_ends_its_workers(store: BackupStore, logs: Logs) -> None:
    taking = coordinator(store, logs)
    taking.take(1)
    taking.delete(1)
    taking.delete(1)
    assert taking.status(1) is None
    with pytest.raises(Refused, match="checkpoint 1 was deleted"):
        store.copies.complete(CopyId(1, 2, 7), manifest())


def test_retention_is_planned_over_what_is_there(store: BackupStore, logs: Logs) -> None:
    taking = coordinator(store, logs)
    for id in (1, 2, 3):
        taking.take(id)
        for subject in SUBJECTS:
            copy = CopyId(id, subject.number, 7)
            store.copies.complete(copy, manifest())
    assert taking.expired(Retention()) == ()
    assert taking.expired(Retention(keep=2)) == (1,)
    copied(store, CopyId(3, 1, 8))
    assert [checkpoint.status for checkpoint in taking.all()] == [Status.COMPLETED] * 3


def test_two_that_ask_for_the_next_id_at_once_get_two(store: BackupStore, logs: Logs) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: coordinator(store, Logs()).take(), range(4)))
    assert len(set(found)) == 4


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
    found = store.read(1)
    assert found is not None
    assert found.started is not None
    assert found.status is Status.ONGOING
    assert found.started.positions == {1: 5, 2: 5, 3: 5}
