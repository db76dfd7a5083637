"""I1 to I10 over seeded runs, and that each rule that is left out is noticed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from breakglass.services.checkpoint.protocol.values import Status
from tests.unit.checkpoint.protocol.checker import broken
from tests.unit.checkpoint.protocol.parts import Rules
from tests.unit.checkpoint.protocol.seeded import run
from tests.unit.checkpoint.protocol.simulation import World

A_FEW = 200
THOUSANDS = range(10)


def broken_in(seed: int, rules: Rules | None = None) -> list[str]:
    world, on_the_way = run(seed, rules)
    return on_the_way + broken(world)


def first_broken(rules: Rules, invariant: str) -> int | None:
    """The first seed whose run breaks it."""
    return next(
        (
            seed
            for seed in range(2_000)
            if any(text.startswith(invariant) for text in broken_in(seed, rules))
        ),
        None,
    )


def test_every_invariant_holds_whatever_is_lost_doubled_reordered_or_killed() -> None:
    assert {seed: found for seed in range(A_FEW) if (found := broken_in(seed))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("thousand", THOUSANDS)
def test_every_invariant_holds_in_ten_thousand_runs(thousand: int) -> None:
    seeds = range(thousand * 1_000, (thousand + 1) * 1_000)
    assert {seed: found for seed in seeds if (found := broken_in(seed))} == {}


def test_the_runs_complete_checkpoints_and_fail_some() -> None:
    found: Counter[Status] = Counter()
    for seed in range(60):
        world, _ = run(seed)
        found.update(world.status(id) for id in world.ids)
    assert set(found) == {Status.COMPLETED, Status.FAILED}
    assert min(found.values()) >= 5


@pytest.mark.parametrize("invariant", ["I1", "I2", "I8"])
def test_without_forced_checkpoints_orphans_are_found(invariant: str) -> None:
    assert first_broken(Rules(forced=False), invariant) is not None


@pytest.mark.parametrize("invariant", ["I1", "I2", "I8"])
def test_with_the_create_behind_the_command_orphans_are_found(invariant: str) -> None:
    assert first_broken(Rules(create_first=False), invariant) is not None


@pytest.mark.parametrize("invariant", ["I4", "I10"])
def test_without_locks_copies_are_found_that_lost_their_log(invariant: str) -> None:
    assert first_broken(Rules(lock=False), invariant) is not None


def test_without_the_directors_abort_copies_are_found_that_hold_too_much() -> None:
    assert first_broken(Rules(director=False), "I4") is not None


@pytest.mark.parametrize(("owner", "cut_off"), [(0, False), (1, False), (1, True)])
def test_an_owner_may_die_between_any_two_steps(owner: int, cut_off: bool) -> None:
    found = {}
    for at, number in itertools.product(range(SCRIPT_STEPS), (0, 1)):
        world = World(2)
        for step, take in enumerate(script(world)):
            take()
            if step == at:
                world.change_owner(number, owner, cut_off=cut_off)
                world.fail_over_coordinator()
        world.settle()
        if wrong := broken(world):
            found[at, number] = wrong
    assert found == {}


def script(world: World) -> list[Callable[[], None]]:
    """A checkpoint with transfers across it, snapshots beside it, and every message doubled."""
    both: list[Callable[[], None]] = []
    for number in (0, 1):
        both += [
            partial(world.transfer, number, 1 - number),
            partial(world.replicate, number, 9),
            partial(world.process, number),
            partial(world.send, number),
            partial(world.begin_snapshot, number),
            partial(deliver_first, world),
            partial(world.take_snapshot, number),
            partial(world.process, number),
            partial(world.replicate, number, 9),
            partial(world.commit_snapshot, number),
            partial(world.begin_copy, number),
            partial(world.read_copy, number),
            partial(world.end_copy, number),
        ]
    return [*both, partial(ask, world), *both, *both, *both, *both]


SCRIPT_STEPS = 131


def ask(world: World) -> None:
    if world.take is None:
        world.ask()


def deliver_first(world: World) -> None:
    for keep in (True, False):
        if world.messages:
            world.deliver(0, keep=keep)


def test_the_script_is_whole() -> None:
    world = World(2)
    steps = script(world)
    assert len(steps) == SCRIPT_STEPS
    for step in steps:
        step()
    assert world.status(1) is Status.COMPLETED


def test_without_the_new_owners_cleanup_backups_are_found_that_go_on_for_ever() -> None:
    assert first_broken(Rules(cleanup=False), "I9") is not None


def test_with_the_manifest_before_the_content_copies_are_found_that_have_none() -> None:
    assert first_broken(Rules(manifest_last=False), "I5") is not None
