"""From the acknowledgement to the end: decided once, copied, gone on with by anybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.copying import PartitionCopier
from breakglass.services.checkpoint.finishing import NEVER_ACKNOWLEDGED, Finisher, unfinished
from breakglass.services.checkpoint.parts import alone
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    ManifestDocument,
    StartedDocument,
    TakeDocument,
)
from breakglass.services.errors import AlreadyRunning, ClusterError, Refused, StorageError
from tests.unit.checkpoint.store.stores import failure, manifest, started, stored
from tests.unit.checkpoint.topics import Logs


@dataclass
class Partition:
    """A source that writes nothing, and fails as often as it is told."""

    position: int
    failures: list[Exception]

    def copy(self, where: str) -> ManifestDocument:
        if self.failures:
            raise self.failures.pop()
        return manifest(position=self.position)


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

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, PartitionCopier]:
        return {one: Partition(at, self.failures.get(one, [])) for one, at in cut.positions.items()}


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """With checkpoint 1, acknowledged."""
    store = BackupStore(str(tmp_path))
    assert Coordinator(store, Logs()).take(1) == 1
    return store


def finisher(store: BackupStore, world: World, node: int = 0) -> Finisher:
    return Finisher(store, world, world, node, "1.0", wait=lambda _: None)


def test_every_partition_is_copied_as_far_as_the_cut(store: BackupStore) -> None:
    told: dict[int, Status] = {}
    found = finisher(store, World()).finish(1, told.__setitem__)
    assert found.status is Status.COMPLETED
    assert told == dict.fromkeys((1, 2, 3), Status.COMPLETED)
    assert found.cut is not None
    assert found.cut.positions == {1: 4, 2: 4, 3: 4}
    assert {
        partition.counting.position for partition in found.partitions if partition.counting
    } == {4}


def test_another_machine_with_the_same_number_decides_nothing_and_fails_nothing(
    store: BackupStore,
) -> None:
    other = BackupStore(store.address, machine=lambda: "b" * 32 + "@elsewhere")
    world = World(ClusterError("not drained in time: group bank lags"))
    with pytest.raises(AlreadyRunning):
        finisher(other, world).finish(1)
    assert world.decisions == 0
    assert finisher(store, World()).finish(1).status is Status.COMPLETED


def test_a_second_worker_of_the_same_node_is_refused_and_changes_nothing(
    store: BackupStore, tmp_path: Path
) -> None:
    def worker(world: World) -> Finisher:
        return replace(finisher(store, world), alone=partial(alone, store.address, 0, tmp_path))

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


def test_what_cannot_be_made_consistent_has_failed_with_the_reason(store: BackupStore) -> None:
    refusal = ClusterError("not drained in time: group bank lags")
    with pytest.raises(ClusterError):
        finisher(store, World(refusal)).finish(1)
    assert failure(store) == str(refusal)
    with pytest.raises(Refused):
        finisher(store, World()).finish(1)


def test_what_was_decided_first_stands(store: BackupStore) -> None:
    world = World(failures={2: [StorageError("disk full")] * 4})
    found = finisher(store, world).finish(1)
    failures = [partition.failure for partition in found.partitions]
    assert (found.status, failures) == (Status.FAILED, [None, "disk full", None])
    other = World()
    with pytest.raises(Refused):
        finisher(store, other).finish(1)
    assert (world.decisions, other.decisions) == (1, 0)


def test_h10_a_copy_during_which_something_may_have_been_compacted_away_does_not_count(
    store: BackupStore,
) -> None:
    refusal = Refused("unverifiable: topic orders is compacted")
    found = finisher(store, World(kept=[None, refusal])).finish(1)
    assert found.status is Status.FAILED
    assert sorted(str(partition.failure) for partition in found.partitions) == [
        "None",
        "None",
        str(refusal),
    ]


def test_i09_copies_that_a_node_left_are_gone_on_with_when_it_is_back(store: BackupStore) -> None:
    world = World()
    taken = stored(store).take
    assert taken is not None
    store.decide(1, world.decide(taken, started(store)))
    store.copies.begin_anew(CopyId(1, 2, 0))
    store.copies.begin(CopyId(1, 2, 0), 4)
    assert unfinished(store, 0) == (1,)
    assert unfinished(store, 1) == ()
    assert finisher(store, World()).finish(1).status is Status.COMPLETED
    assert unfinished(store, 0) == ()


def test_i09_what_was_never_acknowledged_has_failed_when_somebody_would_finish_it(
    tmp_path: Path,
) -> None:
    logs = Logs()
    logs.refusal = StorageError("the machine is gone")
    store = BackupStore(str(tmp_path))
    with pytest.raises(StorageError):
        Coordinator(store, logs).take(1)
    with pytest.raises(Refused):
        finisher(store, World()).finish(1)
    assert failure(store) == NEVER_ACKNOWLEDGED
    with pytest.raises(Refused):
        finisher(store, World()).finish(2)
