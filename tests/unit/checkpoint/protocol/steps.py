"""Single steps by name, for runs that a test writes down."""

from __future__ import annotations

from breakglass.services.checkpoint.protocol.values import CopyId, Status
from tests.unit.checkpoint.protocol.bank import Kind
from tests.unit.checkpoint.protocol.checker import broken
from tests.unit.checkpoint.protocol.parts import CLIENT
from tests.unit.checkpoint.protocol.simulation import World

CHECKPOINT = 1
OLD, NEW = 0, 1
"""Owners."""


def deliver(world: World, to: int, kind: Kind, at: int = 0) -> None:
    """The message of this kind to *to* that is the first, or a later one."""
    found = [n for n, one in enumerate(world.messages) if (one.to, one.kind) == (to, kind)]
    world.deliver(found[at])


def lose(world: World, to: int, kind: Kind) -> None:
    found = [n for n, one in enumerate(world.messages) if (one.to, one.kind) == (to, kind)]
    world.lose(found[0])


def commit_all(world: World, number: int) -> None:
    world.replicate(number, len(world.partitions[number].log))


def process_all(world: World, number: int) -> None:
    """Everything that is committed; what follows is not."""
    commit_all(world, number)
    while True:
        before = world.partitions[number].state.processed
        world.process(number)
        if world.partitions[number].state.processed == before:
            return


def copy(world: World, number: int) -> None:
    """From beginning to end."""
    world.begin_copy(number)
    world.read_copy(number)
    world.end_copy(number)


def snapshot(world: World, number: int) -> None:
    """Claim, state and commit, with nothing in between."""
    world.begin_snapshot(number)
    world.take_snapshot(number)
    commit_all(world, number)
    world.commit_snapshot(number)


def statuses(world: World, number: int) -> dict[int, Status]:
    """Of the partition's copies, by node."""
    found = world.backup(CHECKPOINT, number).copies
    return {one.id.node: one.status for one in found}


def settled(world: World) -> Status:
    """What the checkpoint ends as, with every invariant in place."""
    world.settle()
    assert broken(world) == []
    return world.status(CHECKPOINT)


def copy_id(number: int, node: int) -> CopyId:
    return CopyId(CHECKPOINT, number, node)


def asked() -> World:
    """Two partitions; the second has its copy, the first has processed the command.

    The event that follows it there is not committed, and no copy was begun.
    """
    world = World(2)
    world.transfer(0, 1)
    process_all(world, 0)
    world.ask()
    for number in (0, 1):
        deliver(world, number, Kind.CREATE)
        process_all(world, number)
    commit_all(world, 1)
    copy(world, 1)
    return world


def answered(world: World) -> list[bool]:
    """What the answers say that are under way: started by the request, or before."""
    return [
        message.answer.started
        for message in world.messages
        if message.to == CLIENT and message.answer
    ]


def acknowledge(world: World) -> None:
    """Every answer that is under way arrives."""
    while any(message.to == CLIENT for message in world.messages):
        deliver(world, CLIENT, Kind.CREATE)
