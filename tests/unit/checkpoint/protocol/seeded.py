"""Runs of the simulation whose every choice a seed makes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.unit.checkpoint.protocol.checker import broken_now
from tests.unit.checkpoint.protocol.parts import Rules
from tests.unit.checkpoint.protocol.simulation import World

STEPS = 120
NODES = 3


def run(seed: int, rules: Rules | None = None) -> tuple[World, list[str]]:
    """A settled world, and what was broken on the way."""
    random = Random(seed)
    world = World(random.choice((2, 3, 3, 4)), rules)
    found: list[str] = []
    for _ in range(STEPS):
        step(world, random)
        found += broken_now(world)
    world.settle()
    return world, found


def step(world: World, random: Random) -> None:
    number = random.randrange(len(world.partitions))
    chosen = random.choices(STEP_KINDS, WEIGHTS)[0]
    chosen(world, random, number)


def _transfer(world: World, random: Random, number: int) -> None:
    peer = (number + random.randrange(1, len(world.partitions))) % len(world.partitions)
    world.transfer(number, peer)


def _deliver(world: World, random: Random, number: int) -> None:
    if world.messages:
        # Mostly among the oldest, else nothing of what was once asked ever gets through.
        index = min(int(random.expovariate(0.3)), len(world.messages) - 1)
        world.deliver(index, keep=random.random() < 0.1)


def _lose(world: World, random: Random, number: int) -> None:
    if world.messages:
        world.lose(random.randrange(len(world.messages)))


def _ask(world: World, random: Random, number: int) -> None:
    if world.take is None:
        world.ask()
    elif random.random() < 0.5:
        world.request()
    else:
        world.fail_over_coordinator()


def _replicate(world: World, random: Random, number: int) -> None:
    world.replicate(number, random.randrange(1, 6))


def _process(world: World, random: Random, number: int) -> None:
    for _ in range(random.randrange(1, 4)):
        world.process(number)


def _send(world: World, random: Random, number: int) -> None:
    world.send(number)


def _snapshot(world: World, random: Random, number: int) -> None:
    director = world.partitions[number].director
    if director is None:
        world.begin_snapshot(number)
    elif director.state is None:
        world.take_snapshot(number)
    else:
        world.commit_snapshot(number)


def _copy(world: World, random: Random, number: int) -> None:
    random.choice((world.begin_copy, world.read_copy, world.end_copy))(number)


def _break(world: World, random: Random, number: int) -> None:
    world.break_copy(number)


def _change_owner(world: World, random: Random, number: int) -> None:
    world.change_owner(number, random.randrange(NODES), cut_off=random.random() < 0.3)


STEP_KINDS: tuple[Callable[[World, Random, int], None], ...] = (
    _transfer,
    _deliver,
    _lose,
    _ask,
    _replicate,
    _process,
    _send,
    _snapshot,
    _copy,
    _break,
    _change_owner,
)
WEIGHTS = (10, 30, 2, 4, 20, 25, 8, 14, 12, 1, 1)
