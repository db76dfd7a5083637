"""The ZEP's algorithm whole: its tables and scenarios, and I1 to I9 in runs of random steps."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import methodcaller
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.protocol import values
from breakglass.services.checkpoint.protocol.lineage import cut
from breakglass.services.checkpoint.protocol.values import (
    DIFFERENT_COPIES,
    Begin,
    Copy,
    CopyId,
    Intent,
    PartitionBackup,
    Status,
    begin,
    checkpoint_status,
    partition_status,
)
from tests.kit.extent import examples
from tests.unit.checkpoint.protocol.checker import broken
from tests.unit.checkpoint.protocol.simulation import Kind, Record, World

D, O, C, F, I = (  # noqa: E741 - tables of them follow
    Status.DOES_NOT_EXIST,
    Status.ONGOING,
    Status.COMPLETED,
    Status.FAILED,
    Status.INCOMPLETE,
)
CHECKPOINT = 1
OLD, NEW = 0, 1
"""Owners."""
EARLIER = 11
"""Where the ZEP's tables begin: everything up to there is of the checkpoint before."""
Step = Callable[[World], object]


def deliver(world: World, to: int, kind: Kind) -> None:
    """The first message of this kind to *to*."""
    found = [n for n, one in enumerate(world.messages) if (one.to, one.kind) == (to, kind)]
    world.deliver(found[0])


def commit_all(world: World, number: int) -> None:
    world.replicate(number, len(world.partitions[number].log))


def process_all(world: World, number: int) -> None:
    """Everything that is committed; what follows is not."""
    commit_all(world, number)
    for _ in world.partitions[number].log[:]:
        world.process(number)


def copy(world: World, number: int) -> None:
    """From beginning to end."""
    world.begin_copy(number)
    world.read_copy(number)
    world.end_copy(number)


def settled(world: World) -> Status:
    """What the checkpoint ends as, with every invariant in place."""
    world.settle()
    assert broken(world) == []
    return world.status(CHECKPOINT)


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


# --- logs


def world_of_the_tables() -> World:
    world = World(2)
    for partition in world.partitions:
        partition.log += [Record(number, Kind.EVENT) for number in range(1, EARLIER + 1)]
        commit_all(world, partition.number)
    world.ask()
    return world


def test_an_ignored_command_is_followed_by_the_checkpoint_that_stands() -> None:
    world = world_of_the_tables()
    world.request()
    for _ in range(2):
        deliver(world, 0, Kind.CREATE)
    process_all(world, 0)
    events = [record.follow_up for record in world.partitions[0].log if record.follow_up]
    assert [(event.intent, event.id, event.position) for event in events] == [
        (Intent.CREATED, 1, 12),
        (Intent.IGNORED, 1, 12),
    ]


# --- the ZEP's scenarios, each ending as docs/checkpoints-protocol.md says


BEGIN, END, ERROR = map(methodcaller, ("begin_copy", "end_copy", "break_copy"), (0, 0, 0))
WHOLE, COMMIT = partial(copy, number=0), partial(commit_all, number=0)
BACK, TAKEN_OVER = (methodcaller("change_owner", 0, owner) for owner in (OLD, NEW))
CUT_OFF = methodcaller("change_owner", 0, NEW, cut_off=True)
RETRIED = values.RETRIES * [ERROR]
SCENARIOS: dict[str, tuple[Sequence[Step], Status, dict[int, Status]]] = {
    "s1 neither committed nor begun: the new owner copies": ([TAKEN_OVER], C, {NEW: C}),
    "s2 begun: the new owner completes its own copy": ([BEGIN, TAKEN_OVER], C, {OLD: O, NEW: C}),
    "s2 begun: an owner that comes back takes its copy anew": ([BEGIN, BACK], C, {OLD: C}),
    "s3 completed: both copies hold the same records": ([WHOLE, TAKEN_OVER], C, {OLD: C, NEW: C}),
    "s3 completed: an owner that comes back takes no other": ([WHOLE, BACK], C, {OLD: C}),
    "s4 committed and begun: the new owner fails it": ([BEGIN, COMMIT, TAKEN_OVER], F, {OLD: O}),
    "s4 the old owner completes it later, in vain": ([BEGIN, COMMIT, CUT_OFF, END], F, {OLD: C}),
    "s6 committed and never begun: the new owner fails it": ([COMMIT, TAKEN_OVER], F, {}),
    "s8 three errors only delay the copy": ([BEGIN, *RETRIED], C, {OLD: C}),
    "s8 after the fourth error it has failed": ([BEGIN, *RETRIED, ERROR], F, {OLD: F}),
    "s8 a failed copy is not taken again": ([BEGIN, *RETRIED, ERROR, TAKEN_OVER], F, {OLD: F}),
}


@pytest.mark.parametrize(("steps", "ends", "copies"), SCENARIOS.values(), ids=SCENARIOS)
def test_a_checkpoint_whose_owner_fails_ends_as_the_zep_says(
    steps: Sequence[Step], ends: Status, copies: dict[int, Status]
) -> None:
    world = asked()
    for step in steps:
        step(world)
    assert settled(world) is ends
    assert {one.id.node: one.status for one in world.backup(CHECKPOINT, 0).copies} == copies


def test_s3_two_completed_copies_that_differ_fail_the_partition() -> None:
    one = Copy(CopyId(CHECKPOINT, 0, OLD), C, 12, digest="aa")
    other = Copy(CopyId(CHECKPOINT, 0, NEW), C, 12, digest="bb")
    assert values.after_completion(PartitionBackup(0, (one,)), other) == DIFFERENT_COPIES
    assert values.after_completion(PartitionBackup(0, (one,)), replace(other, digest="aa")) is None
    assert partition_status(PartitionBackup(0, (one, other))) is F


# --- random steps

STEPS = 120
NODES = 3


def _deliver(world: World, random: Random, _: int) -> None:
    if world.messages:
        # Mostly among the oldest, else nothing of what was once asked ever gets through.
        index = min(int(random.expovariate(0.3)), len(world.messages) - 1)
        world.deliver(index, keep=random.random() < 0.1)


def _lose(world: World, random: Random, _: int) -> None:
    if world.messages:
        world.lose(random.randrange(len(world.messages)))


def _ask(world: World, random: Random, _: int) -> None:
    if world.take is None:
        world.ask()
    else:
        random.choice((world.request, world.fail_over_coordinator))()


def _process(world: World, random: Random, number: int) -> None:
    for _ in range(random.randrange(1, 4)):
        world.process(number)


def _transfer(world: World, random: Random, number: int) -> None:
    count = len(world.partitions)
    world.transfer(number, (number + random.randrange(1, count)) % count)


def _copy(world: World, random: Random, number: int) -> None:
    random.choice((world.begin_copy, world.read_copy, world.end_copy))(number)


def _change_owner(world: World, random: Random, number: int) -> None:
    world.change_owner(number, random.randrange(NODES), cut_off=random.random() < 0.3)


WEIGHTS: dict[Callable[[World, Random, int], None], int] = {
    _transfer: 10,
    _deliver: 30,
    _lose: 2,
    _ask: 4,
    lambda world, random, number: world.replicate(number, random.randrange(1, 6)): 20,
    _process: 25,
    lambda world, _, number: world.send(number): 8,
    _copy: 12,
    lambda world, _, number: world.break_copy(number): 1,
    _change_owner: 1,
}


def run(seed: int) -> tuple[World, list[str]]:
    """A settled world, and what is broken in it."""
    random = Random(seed)
    world = World(random.choice((2, 3, 3, 4)))
    for _ in range(STEPS):
        (step,) = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        step(world, random, random.randrange(len(world.partitions)))
    world.settle()
    return world, broken(world)


def test_every_invariant_holds_whatever_is_lost_doubled_reordered_or_killed() -> None:
    ended: Counter[Status] = Counter()
    for seed in range(examples(250)):
        world, found = run(seed)
        assert found == [], seed
        ended.update(world.status(id) for id in world.ids)
    assert set(ended) == {C, F}
    assert min(ended.values()) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("thousand", range(10))
def test_every_invariant_holds_in_ten_thousand_runs(thousand: int) -> None:
    seeds = range(thousand * 1_000, (thousand + 1) * 1_000)
    assert {seed: found for seed in seeds if (found := run(seed)[1])} == {}


@pytest.mark.parametrize(
    ("partitions", "whole"),
    [
        ((C, C, C), C),
        ((C, F, D), F),
        ((O, F, C), F),
        ((C, C, D), I),
        ((O, D, D), I),
        ((O, C, C), O),
        ((D, D, D), D),
        ((), D),
    ],
)
def test_statuses_of_partitions_add_up_in_zeebes_order(
    partitions: tuple[Status, ...], whole: Status
) -> None:
    found = {checkpoint_status(order) for order in itertools.permutations(partitions)}
    assert found == {whole}


OWN, OTHER = CopyId(1, 2, 0), CopyId(1, 2, 1)


def copies(**statuses: Status) -> PartitionBackup:
    ids = {"own": OWN, "other": OTHER}
    found = (
        Copy(ids[name], status, digest="aa" if status is C else None)
        for name, status in statuses.items()
        if status is not D
    )
    return PartitionBackup(2, tuple(found))


@pytest.mark.parametrize(
    ("own", "others", "decided"),
    [
        (D, (D, O, C), Begin.COPY),
        (O, (D, O, C), Begin.COPY_ANEW),
        (C, (D, O, C, F), Begin.SKIP),
        (F, (D, O, C, F), Begin.REFUSE),
        (D, (F,), Begin.REFUSE),
        (O, (F,), Begin.REFUSE),
    ],
)
def test_what_a_worker_does_about_a_copy(
    own: Status, others: tuple[Status, ...], decided: Begin
) -> None:
    assert {begin(copies(own=own, other=other), OWN) for other in others} == {decided}
    assert begin(PartitionBackup(2, failure="its owner changed"), OWN) is Begin.REFUSE


def test_h01_the_first_record_that_carries_the_id_ends_the_cut() -> None:
    assert cut([(7, 0), (9, 1), (12, 3), (13, 2)], 2) == 12
    assert cut([(7, 0), (9, 2), (12, 2), (13, 3)], 2) == 9
    assert cut([(7, 0), (9, 1)], 2) is None
    assert cut([], 1) is None


@given(st.lists(st.integers(0, 4), max_size=8), st.integers(1, 3))
def test_h01_a_later_checkpoint_never_cuts_earlier(carried: list[int], id: int) -> None:
    earlier, later = cut(enumerate(carried), id), cut(enumerate(carried), id + 1)
    assert later is None or (earlier is not None and earlier <= later)
