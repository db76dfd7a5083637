"""Recovery to chosen leaders, with evidence and confirmation, against elections by order alone.

Both sides elect partitions of one cluster. What was elected stays so: each run needs partitions
of its own, and --runs multiplies those of the lab.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from benchmarks._many import Many, many_offline, write_elections, write_partitions
from benchmarks._measure import (
    Program,
    Run,
    median_wall,
    meets,
    ours,
    print_load,
    print_program,
    run,
)
from benchmarks._options import Options
from benchmarks._peer import kafka_tool
from services.lab.tools import LEADER_ELECTION
from services.model import TopicPartition

PARTITIONS = 1000
WARMING = 12
"""Partitions of the run for nothing: it takes that many to see every kind of batch."""
RATIO = 0.5

Lot = Sequence[TopicPartition]


def main(options: Options) -> bool:
    """Print both medians and their ratio; returns whether it is within bounds."""
    size, runs = options.partitions or PARTITIONS, options.runs or 1
    with many_offline(2 * (WARMING + runs * size)) as many:
        print(f"recovery of {size:,} offline partitions, each to the replica that loses least")
        print_load()
        return _measure(many, [WARMING, *[size] * runs])


def _measure(many: Many, sizes: Sequence[int]) -> bool:
    offline = iter([one.partition for one in many.truth.partitions])
    lots = [(list(islice(offline, size)), list(islice(offline, size))) for size in sizes]
    _, *rounds = [_round(many, mine, theirs) for mine, theirs in lots]
    mine, theirs = [one for one, _ in rounds], [one for _, one in rounds]
    _report(many, _recovery(many, lots[-1][0]), mine, lots[-1][0])
    _report(many, _election(many, lots[-1][1]), theirs, lots[-1][1])
    ratio = median_wall(mine) / median_wall(theirs)
    return meets("kafka-unclean-recovery / kafka-leader-election.sh", ratio, RATIO)


def _round(many: Many, mine: Lot, theirs: Lot) -> tuple[Run, Run]:
    """One run of each side.

    Raises:
        RuntimeError: ours did not do what it was asked to: nothing was measured.
    """
    ran = run(_recovery(many, mine), many.folder), run(_election(many, theirs), many.folder)
    if _led_best(many, mine) < len(mine):
        raise RuntimeError("not every partition is led by the replica that loses least")
    return ran


def _recovery(many: Many, lot: Lot) -> Program:
    path = write_partitions(lot, many.folder / "partitions.json")
    return ours(
        "kafka-unclean-recovery",
        many.folder,
        "--automated-recovery",
        "--path-to-json-file",
        path,
        *many.bootstrap,
    )


def _election(many: Many, lot: Lot) -> Program:
    path = write_elections(lot, many.folder / "elections.json")
    arguments = ("--election-type", "unclean", "--path-to-json-file", str(path))
    script = "kafka-leader-election.sh"
    return kafka_tool(many.cluster.kafka, script, LEADER_ELECTION, *arguments, *many.bootstrap)


def _led_best(many: Many, lot: Lot) -> int:
    """How many of *lot* are led by the replica that loses least."""
    leaders = {one.partition: one.leader for one in many.cluster.partitions()}
    best = {one.partition: one.expectation.designee for one in many.truth.partitions}
    return sum(leaders[one] == best[one] for one in lot)


def _report(many: Many, program: Program, runs: Sequence[Run], lot: Lot) -> None:
    print_program(program, runs)
    print(f"    {_led_best(many, lot):,} of {len(lot):,} led by the replica that loses least")
