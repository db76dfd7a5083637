"""From exec to the first useful frame: how much is offline, and verdicts of the first partitions.

Held against the least that a Textual program can be, in the same run. kaskade's first list of
topics, on the same cluster, stands beside.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import _empty
from benchmarks._incident import LARGEST, Served, incident_served
from benchmarks._measure import (
    Options,
    Program,
    Run,
    Shown,
    console,
    kaskade,
    median_wall,
    meets,
    print_load,
    print_program,
    useful,
)
from benchmarks._terminal import Terminal

PARTITIONS = 2000
RUNS = 9
RATIO = 2.5

Case = tuple[Program, Shown]


def main(options: Options) -> bool:
    """Print the medians and their ratio; returns whether it is within bounds."""
    count = options.partitions or PARTITIONS
    with incident_served(count) as served:
        print(f"first useful frame of {count:,} offline partitions, on generated answers")
        print_load()
        return _report(*_rounds(_cases(served, count), options.runs or RUNS))


def _cases(served: Served, count: int) -> list[Case]:
    mine = console(served.address, served.folder)
    known = mine.environment
    return [
        (
            Program("an empty Textual app", [sys.executable, _empty.__file__], known),
            lambda text: _empty.WORD in text,
        ),
        (mine, useful(count)),
        (kaskade(served.address, known), lambda text: LARGEST in text),
    ]


def _rounds(cases: Sequence[Case], times: int) -> tuple[list[Program], list[list[Run]]]:
    """Each in turn, after one for nothing."""
    for case in cases:
        _run(*case)
    rounds = [[_run(*case) for case in cases] for _ in range(times)]
    return [program for program, _ in cases], [list(runs) for runs in zip(*rounds, strict=True)]


def _run(program: Program, shown: Shown) -> Run:
    """From exec until what is *shown* was painted."""
    with Terminal(program) as terminal:
        came = terminal.wait_until(shown)
        return Run(came - terminal.began, terminal.cpu(), terminal.memory().peak)


def _report(programs: Sequence[Program], measured: Sequence[Sequence[Run]]) -> bool:
    for program, runs in zip(programs, measured, strict=True):
        print_program(program, runs)
    least, mine, peer = map(median_wall, measured)
    print(f"  {'breakglass / kaskade':<44} {mine / peer:6.2f}")
    return meets("breakglass / an empty Textual app", mine / least, RATIO)
