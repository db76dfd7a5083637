"""S8 and its neighbours on a real store: sources that fail, nodes that die, full disks."""

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from breakglass.services.checkpoint.coordinator import (
    ABANDONED_MS,
    NEVER_ACKNOWLEDGED,
    Coordinator,
    CopyPartition,
    Finisher,
    take_copy,
    unfinished,
)
from breakglass.services.checkpoint.parts import alone
from breakglass.services.checkpoint.protocol.values import (
    LARGEST_ASKED,
    LARGEST_ID,
    CopyId,
    NotHigher,
    Status,
)
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupPolicy,
    ManifestDocument,
    StartedDocument,
    StoredFile,
    TakeDocument,
)
from breakglass.services.clock import now_ms
from breakglass.services.errors import (
    AlreadyRunning,
    BreakglassError,
    ClusterError,
    EvidenceChanged,
    NotAuthorized,
    PipelineError,
    Refused,
    StorageError,
    UsageError,
)
from breakglass.services.topic_backup.store.blobs import LocalBlobs
from tests.kit.clock import Clock
from tests.unit.checkpoint.store.stores import (
    POSITION,
    SUBJECTS,
    failure,
    manifest,
    reserved,
    started,
    stored,
    take,
)
from tests.unit.checkpoint.topics import EPOCH, Logs

ID = CopyId(1, 2, 0)
CONTENT = b"records up to the checkpoint"


class Failing:
    """A source that raises *errors*, one at each try, and then copies."""

    def __init__(self, *errors: BreakglassError) -> None:
        self.errors: Iterator[BreakglassError] = iter(errors)
        self.tries = 0

    def copy(self, where: str) -> ManifestDocument:
        self.tries += 1
        folder = Path(where)
        assert not folder.is_dir() or not list(folder.iterdir())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "records").write_bytes(CONTENT)
        for error in self.errors:
            raise error
        return manifest(StoredFile("records", len(CONTENT), hashlib.sha256(CONTENT).hexdigest()))


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return reserved(BackupStore(str(tmp_path / "store")), 1)


def taken(store: BackupStore, source: Failing, waited: list[float] | None = None) -> Status:
    wait = ([] if waited is None else waited).append
    return take_copy(store.copies, ID, POSITION, source.copy, wait)


def test_s8_copying_is_tried_again_three_times(store: BackupStore) -> None:
    errors = (StorageError("full"), PipelineError("no worker"), StorageError("full"))
    source, waited = Failing(*errors), list[float]()
    assert taken(store, source, waited) is Status.COMPLETED
    assert (source.tries, waited) == (4, [1, 2, 4])
    assert store.copies.damaged(ID) is None


def test_s8_after_that_it_has_failed_with_the_last_reason(store: BackupStore) -> None:
    source = Failing(*(StorageError(f"full, try {number}") for number in range(1, 9)))
    assert taken(store, source) is Status.FAILED
    assert source.tries == 4
    assert store.copies.partition(1, 2).failure == "full, try 4"
    assert taken(store, Failing()) is Status.FAILED


@pytest.mark.parametrize(
    "errors",
    [(), (StorageError("its folder is gone"),), (ClusterError("retention was faster"),)],
    ids=["copied", "tried again", "failed"],
)
def test_what_a_copy_writes_after_its_checkpoint_was_deleted_does_not_stay(
    store: BackupStore, errors: tuple[BreakglassError, ...]
) -> None:
    class Overtaken(Failing):
        def copy(self, where: str) -> ManifestDocument:
            store.delete(1)
            return super().copy(where)

    if isinstance(next(iter(errors), None), ClusterError):
        assert taken(store, Overtaken(*errors)) is Status.FAILED
    else:
        with pytest.raises(Refused):
            taken(store, Overtaken(*errors))
    root = Path(store.address)
    left = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    assert [name for name in left if name.endswith("json")] == [
        f"checkpoints/1/{name}.json" for name in ("deleted", "take")
    ]
    assert "contents/1" not in left


def test_s2_a_copy_that_was_cut_off_is_taken_anew(store: BackupStore) -> None:
    store.copies.begin(ID, POSITION)
    store.copies.put(ID, "half", b"half")
    assert taken(store, Failing()) is Status.COMPLETED
    assert store.copies.contents(ID).names() == ["records"]


@dataclass
class World:
    """What decides and what is copied."""

    refusal: Exception | None = None
    failures: Mapping[int, list[Exception]] = field(default_factory=dict)
    decisions: int = 0
    kept: Sequence[Exception | None] = ()
    """What each look says of whether everything is there still; then always yes."""
    looks: int = 0

    def require_kept(self, take: TakeDocument) -> None:
        look, self.looks = self.looks, self.looks + 1
        if look < len(self.kept) and (refusal := self.kept[look]) is not None:
            raise refusal

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        self.decisions += 1
        if self.refusal is not None:
            raise self.refusal
        return CutDocument(1, {one: at - 1 for one, at in started.positions.items()})

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, CopyPartition]:
        return {one: partial(self.copy, one, at) for one, at in cut.positions.items()}

    def copy(self, number: int, position: int, where: str) -> ManifestDocument:
        """Write nothing, and fail as often as it is told."""
        del where
        if failures := self.failures.get(number):
            raise failures.pop()
        return manifest(position=position)


@pytest.fixture
def acknowledged(tmp_path: Path) -> BackupStore:
    """With checkpoint 1, acknowledged."""
    store = BackupStore(str(tmp_path))
    assert Coordinator(store, Logs()).take(1) == 1
    return store


def finisher(acknowledged: BackupStore, world: World, node: int = 0) -> Finisher:
    return Finisher(acknowledged, world, world, node, "1.0", wait=lambda _: None)


def test_every_partition_is_copied_as_far_as_the_cut(acknowledged: BackupStore) -> None:
    told: dict[int, Status] = {}
    found = finisher(acknowledged, World()).finish(1, told.__setitem__)
    assert found.status is Status.COMPLETED
    assert told == dict.fromkeys((1, 2, 3), Status.COMPLETED)
    assert found.cut is not None
    assert found.cut.positions == {1: 4, 2: 4, 3: 4}
    assert {
        partition.counting.position for partition in found.partitions if partition.counting
    } == {4}


def test_another_machine_with_the_same_number_decides_nothing_and_fails_nothing(
    acknowledged: BackupStore,
) -> None:
    other = BackupStore(acknowledged.address, machine=lambda: "b" * 32 + "@elsewhere")
    world = World(ClusterError("not drained in time: group bank lags"))
    with pytest.raises(AlreadyRunning):
        finisher(other, world).finish(1)
    assert world.decisions == 0
    assert finisher(acknowledged, World()).finish(1).status is Status.COMPLETED


def test_a_second_worker_of_the_same_node_is_refused_and_changes_nothing(
    acknowledged: BackupStore, tmp_path: Path
) -> None:
    def worker(world: World) -> Finisher:
        return replace(
            finisher(acknowledged, world), alone=partial(alone, acknowledged.address, 0, tmp_path)
        )

    class Watched(World):
        """While it decides, a second worker begins."""

        def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
            with pytest.raises(AlreadyRunning):
                worker(second).finish(1)
            return super().decide(take, started)

    second = World()
    assert worker(Watched()).finish(1).status is Status.COMPLETED
    assert second.decisions == 0
    assert worker(second).finish(1).status is Status.COMPLETED


def test_what_was_decided_first_stands(acknowledged: BackupStore) -> None:
    world = World(failures={2: [StorageError("disk full")] * 4})
    found = finisher(acknowledged, world).finish(1)
    failures = [partition.failure for partition in found.partitions]
    assert (found.status, failures) == (Status.FAILED, [None, "disk full", None])
    other = World()
    with pytest.raises(Refused):
        finisher(acknowledged, other).finish(1)
    assert (world.decisions, other.decisions) == (1, 0)


def test_h10_a_copy_during_which_something_may_have_been_compacted_away_does_not_count(
    acknowledged: BackupStore,
) -> None:
    refusal = Refused("unverifiable: topic orders is compacted")
    found = finisher(acknowledged, World(kept=[None, refusal])).finish(1)
    assert found.status is Status.FAILED
    assert sorted(str(partition.failure) for partition in found.partitions) == [
        "None",
        "None",
        str(refusal),
    ]


def test_i09_copies_that_a_node_left_are_gone_on_with_when_it_is_back(
    acknowledged: BackupStore,
) -> None:
    world = World()
    taken = stored(acknowledged).take
    assert taken is not None
    acknowledged.decide(1, world.decide(taken, started(acknowledged)))
    acknowledged.copies.begin_anew(CopyId(1, 2, 0))
    acknowledged.copies.begin(CopyId(1, 2, 0), 4)
    assert unfinished(acknowledged, 0) == (1,)
    assert unfinished(acknowledged, 1) == ()
    assert finisher(acknowledged, World()).finish(1).status is Status.COMPLETED
    assert unfinished(acknowledged, 0) == ()


def test_i09_what_was_never_acknowledged_has_failed_when_somebody_would_finish_it(
    tmp_path: Path,
) -> None:
    logs = Logs()
    logs.refusal = StorageError("the machine is gone")
    acknowledged = BackupStore(str(tmp_path))
    with pytest.raises(StorageError):
        Coordinator(acknowledged, logs).take(1)
    with pytest.raises(Refused):
        finisher(acknowledged, World()).finish(1)
    assert failure(acknowledged) == NEVER_ACKNOWLEDGED
    with pytest.raises(Refused):
        finisher(acknowledged, World()).finish(2)


GONE = StorageError("the machine is gone")


@pytest.fixture
def empty(tmp_path: Path) -> BackupStore:
    return BackupStore(str(tmp_path))


@pytest.fixture
def logs() -> Logs:
    return Logs()


def coordinator(empty: BackupStore, logs: Logs) -> Coordinator:
    clock = Clock()
    return Coordinator(
        empty, logs, node=7, tool_version="1.0", start_seconds=5, wait=clock.sleep, clock=clock
    )


def cut_off(empty: BackupStore, logs: Logs, id: int | None, request: str) -> None:
    """A take that dies before its acknowledgement."""
    logs.refusal = GONE
    with pytest.raises(StorageError):
        coordinator(empty, logs).take(id, request)
    logs.refusal = None


def test_h04_a_take_is_acknowledged_when_markers_and_manifests_are_there(
    empty: BackupStore, logs: Logs
) -> None:
    before: list[Status] = []
    logs.before_start = lambda id: before.append(stored(empty, id).status)
    assert coordinator(empty, logs).take() == 1
    found = stored(empty)
    assert before == [found.status] == [Status.ONGOING]
    assert started(empty).positions == {1: 5, 2: 5, 3: 5}
    assert started(empty).epochs == dict.fromkeys((1, 2, 3), EPOCH)
    assert found.take is not None
    assert found.take.partitions == SUBJECTS
    assert found.take.groups == {"payments": GroupPolicy.EXACTLY_ONCE}
    assert [copy.id.node for partition in found.partitions for copy in partition.copies] == [7] * 3
    assert all(len(log) > started(empty).positions[one] for one, log in logs.records.items())


def test_those_that_did_not_answer_are_asked_again(empty: BackupStore, logs: Logs) -> None:
    logs.silent = {2}
    taking = coordinator(empty, logs)
    taking._wait = lambda _: logs.silent.clear()
    assert taking.take(1) == 1
    assert logs.asked == [[1, 2, 3], [2]]


def test_the_next_id_is_above_all_in_the_store_and_in_the_logs(
    empty: BackupStore, logs: Logs
) -> None:
    taking = coordinator(empty, logs)
    assert taking.take() == 1
    taking.delete(1)
    assert taking.take() == 2
    logs.records[3].append(40)
    assert taking.take(40) == NotHigher(40, 40)
    assert taking.take() == 41


def test_the_greatest_id_that_can_be_named_has_one_after_it_and_no_greater_is_taken(
    empty: BackupStore, logs: Logs
) -> None:
    taking = coordinator(empty, logs)
    with pytest.raises(UsageError):
        taking.take(LARGEST_ASKED + 1)
    assert [taking.take(LARGEST_ASKED), taking.take()] == [LARGEST_ASKED, LARGEST_ASKED + 1]
    logs.records[1].append(LARGEST_ID)
    with pytest.raises(Refused):
        taking.take()
    assert empty.ids() == [LARGEST_ASKED, LARGEST_ASKED + 1]


def test_h04_an_old_request_does_not_complete_behind_a_newer_id(
    empty: BackupStore, logs: Logs
) -> None:
    cut_off(empty, logs, 2, "mine")
    assert coordinator(empty, logs).take(3) == 3
    assert coordinator(empty, logs).take(2, "mine") == NotHigher(2, 3)
    assert [stored(empty, id).status for id in (2, 3)] == [Status.FAILED, Status.ONGOING]


@pytest.mark.parametrize("refusal", [NotAuthorized("a", "WRITE"), EvidenceChanged("b")], ids=str)
def test_i09_a_take_that_the_cluster_refuses_has_failed_with_the_reason(
    empty: BackupStore, logs: Logs, refusal: BreakglassError
) -> None:
    logs.refusal = refusal
    with pytest.raises(type(refusal)):
        coordinator(empty, logs).take(1)
    assert failure(empty) == str(refusal)


def test_i09_takes_that_died_before_their_acknowledgement_fail_when_a_live_one_would_be_done(
    empty: BackupStore, logs: Logs
) -> None:
    """Those of another node, or that were acknowledged, are left alone."""
    now = now_ms()
    for id, age in ((1, 2 * ABANDONED_MS), (2, 2 * ABANDONED_MS), (3, 2 * ABANDONED_MS), (5, 0)):
        assert empty.reserve(replace(take(id), created_at_ms=now - age)) is None
    empty.copies.begin(CopyId(2, 1, 7), None)
    empty.copies.begin(CopyId(3, 1, 8), None)
    assert coordinator(empty, logs).fail_abandoned() == (1, 2)
    assert coordinator(empty, logs).fail_abandoned() == ()
    assert failure(empty, 1) == failure(empty, 2) == NEVER_ACKNOWLEDGED
    assert stored(empty, 3).failed is stored(empty, 5).failed is None


@pytest.mark.parametrize("is_completed", [True, False])
def test_h12_a_completed_checkpoint_of_another_incarnation_is_no_answer(
    empty: BackupStore, logs: Logs, is_completed: bool
) -> None:
    """A completed one stays, as a backup of the old topics; another has failed."""
    assert coordinator(empty, logs).take(1, "nightly") == 1
    if is_completed:
        for subject in SUBJECTS:
            empty.copies.complete(CopyId(1, subject.number, 7), manifest())
        assert coordinator(empty, logs).take(1, "nightly") == 1
    anew = Logs()
    anew.incarnation = "second"
    with pytest.raises(Refused):
        coordinator(empty, anew).take(1, "nightly")
    assert anew.asked == []
    assert stored(empty).status is (Status.COMPLETED if is_completed else Status.FAILED)


def test_i07_the_same_request_goes_on_without_naming_the_id(empty: BackupStore, logs: Logs) -> None:
    assert coordinator(empty, logs).take() == 1
    cut_off(empty, logs, None, "early")
    assert empty.ids() == [1, 2]
    for request, id in (("early", 2), ("early", 2), ("late", 3), ("early", 2)):
        assert coordinator(empty, logs).take(request=request) == id
    coordinator(empty, logs).delete(2)
    with pytest.raises(Refused):
        coordinator(empty, logs).take(request="early")
    assert coordinator(empty, logs).take(request="early", is_new=True) == 4


def test_a_partition_that_is_past_the_id_fails_the_checkpoint(
    empty: BackupStore, logs: Logs
) -> None:
    logs.before_start = lambda _: logs.records[2].append(9)
    assert coordinator(empty, logs).take(1) == NotHigher(1, 9)
    assert stored(empty).status is Status.FAILED


class Killed(Exception):
    """The process is gone."""


@pytest.mark.parametrize("writes", range(7))
def test_i07_a_coordinator_that_is_killed_after_any_write_is_taken_over(
    empty: BackupStore, logs: Logs, writes: int, monkeypatch: pytest.MonkeyPatch
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
        coordinator(empty, logs).take(1, "mine")
    assert coordinator(empty, logs).take(1, "mine") == 1
    assert stored(empty).status is Status.ONGOING
    assert started(empty).positions == {1: 5, 2: 5, 3: 5}
