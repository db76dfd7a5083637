"""Both edge cases of the ZEP, and what is locked until which copy has ended."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.protocol.values import Status
from tests.unit.checkpoint.protocol import snapshots
from tests.unit.checkpoint.protocol.checker import broken
from tests.unit.checkpoint.protocol.parts import Rules
from tests.unit.checkpoint.protocol.simulation import World
from tests.unit.checkpoint.protocol.snapshots import NotLocked, Snapshot, Snapshots
from tests.unit.checkpoint.protocol.steps import (
    CHECKPOINT,
    asked,
    commit_all,
    copy,
    process_all,
    settled,
    snapshot,
)


def test_edge_case_1_a_snapshot_past_the_checkpoint_fails_the_copy() -> None:
    world = asked()
    world.transfer(0, 1)
    process_all(world, 0)
    snapshot(world, 0)
    world.begin_copy(0)
    (failed,) = world.backup(CHECKPOINT, 0).copies
    assert failed.reason == (
        "the snapshot holds everything up to position 5, and the checkpoint is at 3"
    )
    assert settled(world) is Status.FAILED


@pytest.mark.parametrize("processed", [12, 13])
def test_a_snapshot_at_or_past_the_checkpoint_cannot_be_locked(processed: int) -> None:
    held = Snapshots((Snapshot("s", processed),))
    assert isinstance(snapshots.lock(held, 1, 12)[1], NotLocked)


def _beside_the_checkpoint(rules: Rules) -> World:
    """A snapshot is claimed before the checkpoint, its state taken after it."""
    world = World(2, rules)
    world.transfer(0, 1)
    process_all(world, 0)
    world.begin_snapshot(0)
    world.ask()
    for number in (0, 1):
        world.deliver(0)
        process_all(world, number)
    world.transfer(0, 1)
    process_all(world, 0)
    world.take_snapshot(0)
    commit_all(world, 0)
    world.commit_snapshot(0)
    return world


def test_edge_case_2_a_snapshot_beside_the_checkpoint_is_given_up() -> None:
    world = _beside_the_checkpoint(Rules())
    assert [one.id for one in world.partitions[0].snapshots.stored] == ["s0"]
    assert settled(world) is Status.COMPLETED


def test_edge_case_2_without_that_the_copy_would_hold_what_came_after_the_checkpoint() -> None:
    world = _beside_the_checkpoint(Rules(director=False))
    copy(world, 0)
    world.settle()
    assert any(text.startswith("I4") for text in broken(world))


@pytest.mark.parametrize(
    ("processed", "written", "admitted"),
    [(11, 12, True), (11, 13, False), (12, 13, False), (13, 14, True), (11, 11, True)],
)
def test_only_a_state_that_may_be_ahead_of_its_claim_across_the_checkpoint_is_given_up(
    processed: int, written: int, admitted: bool
) -> None:
    assert snapshots.admits(Snapshot("s", processed), 12, written) == admitted


def test_i10_a_locked_snapshot_and_its_log_stay_until_every_copy_has_ended() -> None:
    held = Snapshots((Snapshot("s5", 5),), compacted=5)
    held, _ = snapshots.lock(held, 1, 10)
    held, _ = snapshots.lock(held, 2, 12)
    held = snapshots.commit(held, Snapshot("s20", 20))
    assert held.compacted == 5
    held = snapshots.unlock(held, 1)
    assert [one.id for one in held.stored] == ["s5", "s20"]
    held = snapshots.unlock(held, 2)
    assert [one.id for one in held.stored] == ["s20"]
    assert held.compacted == 20


def test_a_new_owner_has_no_locks() -> None:
    held, _ = snapshots.lock(Snapshots((Snapshot("s5", 5),)), 1, 10)
    assert snapshots.compact(snapshots.change_owner(held)).locks == frozenset()


def test_a_partition_without_a_snapshot_cannot_be_copied() -> None:
    assert isinstance(snapshots.lock(Snapshots(), 1, 10)[1], NotLocked)


def test_an_older_snapshot_does_not_take_the_place_of_a_newer_one() -> None:
    held = Snapshots((Snapshot("s5", 5),))
    assert snapshots.commit(held, Snapshot("s4", 4)) == held
