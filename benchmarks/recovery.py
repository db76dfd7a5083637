"""Recovery to chosen leaders, with evidence and confirmation, against elections by order alone.

Both sides elect partitions of one cluster. What was elected stays so: each run needs partitions
of its own, and --runs multiplies those of the lab. The peer reads no records, so ours is held
against it without reading contents; what that adds is held against the time it may take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from benchmarks._many import Many, given_up, many_offline, write_elections, write_partitions
from benchmarks._measure import (
    Options,
    Program,
    Run,
    kafka_tool,
    median_wall,
    meets,
    ours,
    print_load,
    print_program,
    run,
)
from breakglass.services.kafka.replicas.limits import SECONDS
from breakglass.services.lab.distribution import LEADER_ELECTION
from breakglass.services.model import TopicPartition
from breakglass.services.session import Effort

PARTITIONS = 1000
WARMING = 12
"""Partitions of the run for nothing: it takes that many to see every kind of batch."""
RATIO = 0.5
SIDES = 3

Lot = Sequence[TopicPartition]


def main(options: Options) -> bool:
    """Print both medians and their ratio; returns whether it is within bounds."""
    size, runs = options.partitions or PARTITIONS, options.runs or 1
    with many_offline(3 * (WARMING + runs * size)) as many:
        print(f"recovery of {size:,} offline partitions, each to the replica that loses least")
        print_load()
        return _measure(many, [WARMING, *[size] * runs])


def _measure(many: Many, sizes: Sequence[int]) -> bool:
    offline = iter([partition.partition for partition in many.truth.partitions])
    lots = [[list(islice(offline, size)) for _ in range(SIDES)] for size in sizes]
    _, *rounds = [_round(many, *of_round) for of_round in lots]
    mine, bare, theirs = (list(runs) for runs in zip(*rounds, strict=True))
    last_mine, last_bare, last_theirs = lots[-1]
    _report(many, _recovery(many, last_mine), mine, last_mine)
    _report(many, _recovery(many, last_bare, Effort.OFF), bare, last_bare)
    _report(many, _election(many, last_theirs), theirs, last_theirs)
    ratio = median_wall(bare) / median_wall(theirs)
    added = median_wall(mine) - median_wall(bare)
    within = meets("added by reading contents", added, SECONDS, " s")
    return meets("unclean-recovery / kafka-leader-election.sh", ratio, RATIO) and within


def _round(many: Many, mine: Lot, bare: Lot, theirs: Lot) -> tuple[Run, Run, Run]:
    """One run of each side, ours with and without reading contents.

    Raises:
        RuntimeError: ours did not do what it was asked to: nothing was measured.
    """
    programs = (_recovery(many, mine), _recovery(many, bare, Effort.OFF), _election(many, theirs))
    first, second, third = (run(program, many.folder) for program in programs)
    if _led_best(many, mine) + _led_best(many, bare) < len(mine) + len(bare):
        raise RuntimeError("not every partition is led by the replica that loses least")
    return first, second, third


def _recovery(many: Many, lot: Lot, contents: Effort = Effort.BUDGET) -> Program:
    path = write_partitions(lot, many.folder / f"partitions-{contents}.json")
    program = ours(
        "breakglass",
        many.folder,
        "unclean-recovery",
        "--automated-recovery",
        "--write",
        *given_up(len(lot)),
        "--path-to-json-file",
        path,
        "--verify-contents",
        contents.value,
        *many.bootstrap,
    )
    return replace(program, name=f"{program.name} --verify-contents {contents}")


def _election(many: Many, lot: Lot) -> Program:
    path = write_elections(lot, many.folder / "elections.json")
    arguments = ("--election-type", "unclean", "--path-to-json-file", str(path))
    script = "kafka-leader-election.sh"
    return kafka_tool(many.cluster.kafka, script, LEADER_ELECTION, *arguments, *many.bootstrap)


def _led_best(many: Many, lot: Lot) -> int:
    """How many of *lot* are led by the replica that loses least."""
    leaders = {partition.partition: partition.leader for partition in many.cluster.partitions()}
    best = {
        partition.partition: partition.expectation.designee for partition in many.truth.partitions
    }
    return sum(leaders[partition] == best[partition] for partition in lot)


def _report(many: Many, program: Program, runs: Sequence[Run], lot: Lot) -> None:
    print_program(program, runs)
    print(f"    {_led_best(many, lot):,} of {len(lot):,} led by the replica that loses least")
