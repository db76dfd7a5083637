"""The ZEP's scenarios 1 to 8, each ending as docs/checkpoints-protocol.md says."""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.checkpoint.protocol import worker
from breakglass.services.checkpoint.protocol.status import DIFFERENT_COPIES, partition_status
from breakglass.services.checkpoint.protocol.values import Copy, PartitionBackup, Status
from tests.unit.checkpoint.protocol.bank import Kind
from tests.unit.checkpoint.protocol.steps import (
    CHECKPOINT,
    NEW,
    OLD,
    acknowledge,
    asked,
    commit_all,
    copy,
    copy_id,
    deliver,
    process_all,
    settled,
    snapshot,
    statuses,
)


def test_s1_the_new_owner_copies_when_the_old_one_neither_committed_nor_began() -> None:
    world = asked()
    world.change_owner(0, NEW)
    assert settled(world) is Status.COMPLETED
    assert statuses(world, 0) == {NEW: Status.COMPLETED}


def test_s2_the_new_owner_completes_a_copy_of_its_own_beside_the_old_ones_part() -> None:
    world = asked()
    world.begin_copy(0)
    world.change_owner(0, NEW)
    assert settled(world) is Status.COMPLETED
    assert statuses(world, 0) == {OLD: Status.ONGOING, NEW: Status.COMPLETED}


def test_s2_an_owner_that_comes_back_takes_its_own_unfinished_copy_anew() -> None:
    world = asked()
    world.begin_copy(0)
    world.change_owner(0, OLD)
    assert settled(world) is Status.COMPLETED
    assert statuses(world, 0) == {OLD: Status.COMPLETED}


def test_s3_two_completed_copies_hold_the_same_records() -> None:
    world = asked()
    copy(world, 0)
    world.change_owner(0, NEW)
    assert settled(world) is Status.COMPLETED
    assert statuses(world, 0) == {OLD: Status.COMPLETED, NEW: Status.COMPLETED}


def test_s3_an_owner_that_comes_back_to_its_completed_copy_takes_none() -> None:
    world = asked()
    copy(world, 0)
    before = world.copies[copy_id(0, OLD)]
    world.change_owner(0, OLD)
    assert settled(world) is Status.COMPLETED
    assert world.copies[copy_id(0, OLD)] is before


def test_s3_two_completed_copies_that_differ_fail_the_partition() -> None:
    one = Copy(copy_id(0, OLD), Status.COMPLETED, 12, digest="aa")
    other = Copy(copy_id(0, NEW), Status.COMPLETED, 12, digest="bb")
    assert worker.after_completion(PartitionBackup(0, (one,)), other) == DIFFERENT_COPIES
    assert worker.after_completion(PartitionBackup(0, (one,)), replace(other, digest="aa")) is None
    assert partition_status(PartitionBackup(0, (one, other))) is Status.FAILED


def test_s4_the_new_owner_fails_what_the_old_one_committed_and_did_not_end() -> None:
    world = asked()
    world.begin_copy(0)
    commit_all(world, 0)
    world.change_owner(0, NEW)
    assert world.status(CHECKPOINT) is Status.FAILED
    assert settled(world) is Status.FAILED


def test_s4_an_old_owner_that_completes_its_copy_later_does_not_undo_the_failure() -> None:
    world = asked()
    world.begin_copy(0)
    commit_all(world, 0)
    world.change_owner(0, NEW, cut_off=True)
    world.end_copy(0)
    assert statuses(world, 0) == {OLD: Status.COMPLETED}
    assert settled(world) is Status.FAILED


def test_s5_a_new_owner_whose_snapshot_is_past_the_checkpoint_fails_it() -> None:
    world = asked()
    world.begin_copy(0)
    world.transfer(0, 1)
    process_all(world, 0)
    snapshot(world, 0)
    latest = world.partitions[0].snapshots.latest
    position = world.partitions[0].state.checkpoint.position
    assert latest is not None
    assert latest.processed > position
    world.change_owner(0, NEW)
    assert settled(world) is Status.FAILED
    assert statuses(world, 0) == {OLD: Status.ONGOING}


def test_s6_the_new_owner_fails_what_was_committed_and_never_begun() -> None:
    world = asked()
    commit_all(world, 0)
    world.change_owner(0, NEW)
    assert statuses(world, 0) == {}
    assert settled(world) is Status.FAILED


def test_s7_a_new_owner_past_the_checkpoint_fails_what_was_never_begun() -> None:
    world = asked()
    world.transfer(0, 1)
    process_all(world, 0)
    snapshot(world, 0)
    world.change_owner(0, NEW)
    assert statuses(world, 0) == {}
    assert settled(world) is Status.FAILED


def test_s8_an_error_is_tried_again_three_times_and_then_the_copy_has_failed() -> None:
    world = asked()
    world.begin_copy(0)
    for _ in range(worker.RETRIES):
        world.break_copy(0)
        assert statuses(world, 0) == {OLD: Status.ONGOING}
    world.break_copy(0, "no space is left")
    (failed,) = world.backup(CHECKPOINT, 0).copies
    assert (failed.status, failed.reason) == (Status.FAILED, "no space is left")
    assert world.partitions[0].snapshots.locks == frozenset()
    assert settled(world) is Status.FAILED


def test_s8_a_copy_that_an_error_only_delayed_is_completed() -> None:
    world = asked()
    world.begin_copy(0)
    for _ in range(worker.RETRIES):
        world.break_copy(0)
    assert settled(world) is Status.COMPLETED


def test_a_failed_copy_is_never_taken_again_not_even_by_a_new_owner() -> None:
    world = asked()
    world.begin_copy(0)
    for _ in range(worker.RETRIES + 1):
        world.break_copy(0)
    world.change_owner(0, NEW)
    assert settled(world) is Status.FAILED
    assert statuses(world, 0) == {OLD: Status.FAILED}


def test_an_earlier_checkpoint_is_failed_with_the_last_one() -> None:
    world = asked()
    acknowledge(world)
    world.ask()
    deliver(world, 0, Kind.CREATE)
    process_all(world, 0)
    commit_all(world, 0)
    world.change_owner(0, NEW)
    assert world.partitions[0].state.checkpoint.id == CHECKPOINT + 1
    assert world.status(CHECKPOINT) is Status.FAILED
    assert world.status(CHECKPOINT + 1) is Status.FAILED
