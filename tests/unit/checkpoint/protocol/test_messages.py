"""The ZEP's Cases 1 and 2 with their logs, lost and reordered messages, and its motive."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.protocol.values import Intent, Status
from tests.unit.checkpoint.protocol.bank import Kind, Record
from tests.unit.checkpoint.protocol.checker import orphans
from tests.unit.checkpoint.protocol.parts import Rules
from tests.unit.checkpoint.protocol.simulation import World
from tests.unit.checkpoint.protocol.steps import (
    CHECKPOINT,
    answered,
    asked,
    commit_all,
    copy,
    deliver,
    lose,
    process_all,
    settled,
)

EARLIER = 11
"""Where the ZEP's tables begin: everything up to there is of the checkpoint before."""


def world_of_the_tables() -> World:
    world = World(2)
    for partition in world.partitions:
        partition.log += [Record(number, Kind.EVENT) for number in range(1, EARLIER + 1)]
        commit_all(world, partition.number)
    return world


def table(world: World, number: int) -> list[str]:
    """``position word``, as in the ZEP; a follow-up names what it follows."""
    return [_row(record) for record in world.partitions[number].log[EARLIER:]]


def _row(record: Record) -> str:
    if record.kind is not Kind.EVENT:
        return f"{record.position} {record.kind}"
    word = "event" if record.follow_up is None else record.follow_up.intent
    return f"{record.position} {word} of {record.source}"


def test_case_1_both_partitions_start_before_the_command_is_processed() -> None:
    world = world_of_the_tables()
    world.ask()
    deliver(world, 0, Kind.CREATE)
    world.transfer(0, 1)
    process_all(world, 0)
    world.send(0)
    deliver(world, 1, Kind.CREATE)
    deliver(world, 1, Kind.RECEIVE)
    process_all(world, 1)
    assert table(world, 0) == ["12 create", "13 transfer", "14 created of 12", "15 event of 13"]
    assert table(world, 1) == [
        "12 create",
        "13 create",
        "14 receive",
        "15 created of 12",
        "16 ignored of 13",
        "17 event of 14",
    ]
    assert [partition.state.checkpoint.position for partition in world.partitions] == [12, 12]
    assert settled(world) is Status.COMPLETED


def test_case_2_the_command_forces_the_checkpoint_before_the_coordinator_asks() -> None:
    world = world_of_the_tables()
    world.ask()
    deliver(world, 0, Kind.CREATE)
    world.transfer(0, 1)
    process_all(world, 0)
    world.send(0)
    deliver(world, 1, Kind.RECEIVE)
    deliver(world, 1, Kind.CREATE)
    process_all(world, 1)
    assert table(world, 0) == ["12 create", "13 transfer", "14 created of 12", "15 event of 13"]
    assert table(world, 1) == [
        "12 create",
        "13 receive",
        "14 create",
        "15 created of 12",
        "16 event of 13",
        "17 ignored of 14",
    ]
    assert [partition.state.checkpoint.position for partition in world.partitions] == [12, 12]
    assert settled(world) is Status.COMPLETED


def test_an_ignored_command_is_followed_by_the_checkpoint_that_stands() -> None:
    world = world_of_the_tables()
    world.ask()
    world.request()
    for _ in range(2):
        deliver(world, 0, Kind.CREATE)
    process_all(world, 0)
    events = [
        record.follow_up for record in world.partitions[0].log if record.follow_up is not None
    ]
    assert [(event.intent, event.id, event.position) for event in events] == [
        (Intent.CREATED, 1, 12),
        (Intent.IGNORED, 1, 12),
    ]


def test_a_lost_request_is_sent_again() -> None:
    world = World(2)
    world.ask()
    for number in (0, 1):
        lose(world, number, Kind.CREATE)
    world.request()
    assert settled(world) is Status.COMPLETED


def test_a_lost_answer_is_asked_for_again_and_says_already_started() -> None:
    world = asked()
    assert answered(world) == [True, True]
    world.messages.clear()
    world.request()
    for number in (0, 1):
        deliver(world, number, Kind.CREATE)
        process_all(world, number)
    assert answered(world) == [False, False]
    assert settled(world) is Status.COMPLETED
    assert CHECKPOINT in world.acknowledged


def test_a_new_coordinator_asks_all_again_and_nothing_is_taken_twice() -> None:
    world = asked()
    before = dict(world.copies)
    world.messages.clear()
    world.fail_over_coordinator()
    assert settled(world) is Status.COMPLETED
    assert before.items() <= world.copies.items()


def test_messages_that_overtake_each_other_after_the_checkpoint_are_both_outside() -> None:
    world = _two_sent()
    _checkpoint(world)
    deliver(world, 1, Kind.RECEIVE, at=1)
    deliver(world, 1, Kind.RECEIVE)
    assert settled(world) is Status.COMPLETED


def test_a_message_that_overtakes_another_is_in_the_checkpoint_alone() -> None:
    world = _two_sent()
    deliver(world, 1, Kind.RECEIVE, at=1)
    process_all(world, 1)
    _checkpoint(world)
    deliver(world, 1, Kind.RECEIVE)
    assert settled(world) is Status.COMPLETED


def _two_sent() -> World:
    world = World(2)
    for _ in range(2):
        world.transfer(0, 1)
    process_all(world, 0)
    world.send(0)
    return world


def _checkpoint(world: World) -> None:
    world.ask()
    for number in (0, 1):
        deliver(world, number, Kind.CREATE)
        process_all(world, number)
        copy(world, number)


@pytest.mark.parametrize(
    ("rules", "found"),
    [(Rules(), False), (Rules(forced=False), True), (Rules(create_first=False), True)],
)
def test_a_deployment_never_reaches_a_partition_before_the_checkpoint_that_its_sender_has_past(
    rules: Rules, found: bool
) -> None:
    world = World(2, rules)
    world.ask()
    deliver(world, 0, Kind.CREATE)
    world.transfer(0, 1)
    process_all(world, 0)
    world.send(0)
    deliver(world, 1, Kind.RECEIVE)
    deliver(world, 1, Kind.CREATE)
    world.settle()
    assert bool(orphans(world, CHECKPOINT)) == found
