"""Checkpoint after checkpoint of applications under load and kill -9: `make soak-transactional`.

A soak may take many sittings. With --results each round is a line of JSON in that file, a later
sitting plays the seeds that are left, and the figures at the end are those of all sittings. With
--first two sittings can play different seeds at the same time. Each round has an application of
its own, so that no round takes longer than the first one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from breakglass.services.lab.cluster import Cluster
from tests.lab.transactional.kit import SETTINGS
from tests.lab.transactional.rounds import Round, rounds
from tests.lab.transactional.workloads import WORKLOADS

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Results:
    """The rounds of all sittings."""

    file: Path | None

    def lines(self, workload: str) -> list[Line]:
        """The rounds of *workload* so far; none without a file."""
        if self.file is None or not self.file.exists():
            return []
        read = map(json.loads, self.file.read_text(encoding="utf-8").splitlines())
        return [line for line in read if line["workload"] == workload]

    def add(self, line: Line) -> None:
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def line_of(done: Round) -> Line:
    """What is kept of a round."""
    return {
        "workload": done.workload,
        "seed": done.seed,
        "killed": done.victim.value,
        "whole": done.consistent,
        "vector_whole": not done.raw,
        "refused": list(done.refused),
        "lowered": done.lowered,
        "left_out": done.left_out,
        "seconds": round(sum(done.seconds.values()), 1),
    }


def summed(workload: str, lines: Sequence[Line]) -> str:
    """The figures of *lines* in a sentence."""
    wrong = sum(not line["whole"] for line in lines)
    raw = sum(not line["vector_whole"] for line in lines)
    refused = sum(len(line["refused"]) for line in lines)
    lowered = sum(line["lowered"] > 0 for line in lines)
    return (
        f"{workload}: {len(lines)} checkpoints restored, {wrong} inconsistent; {lowered} were "
        f"lowered, {refused} tries refused; of the vectors of the same moments {raw} were wrong"
    )


def judged(lines: Sequence[Line]) -> bool:
    """Whether every checkpoint was whole, and some vector was not, so that it is a test."""
    return all(line["whole"] for line in lines) and any(not line["vector_whole"] for line in lines)


def seeds_left(lines: Sequence[Line], first: int, until: int) -> list[int]:
    """The seeds from *first* to before *until* that have no line."""
    played = {line["seed"] for line in lines}
    return [seed for seed in range(first, until) if seed not in played]


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="workload", help=f"of {[*WORKLOADS]} (all)")
    parser.add_argument("--checkpoints", type=int, default=100, help="of each, in all sittings")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of each, at most")
    parser.add_argument("--results", type=Path, help="where the rounds of all sittings are")
    return parser


def _sat(name: str, seeds: Iterator[int], folder: Path) -> Iterator[Round]:
    with Cluster.up(folder / f"cluster-{name}", overrides=SETTINGS, tethered=True) as cluster:
        yield from rounds(cluster, name, seeds, folder)


def main() -> int:
    """Print each round and the figures; returns 1 if a checkpoint was wrong, or no vector was."""
    given = _options().parse_args()
    results, right = Results(given.results), True
    for name in given.workloads or WORKLOADS:
        lines = results.lines(name)
        end = time.monotonic() + 60 * given.minutes
        left = seeds_left(lines, given.first, given.checkpoints)
        seeds = takewhile(lambda _, end=end: time.monotonic() < end, left)  # type: ignore[misc]
        with TemporaryDirectory(prefix="breakglass-soak-") as folder:
            for done in _sat(name, seeds, Path(folder)):
                print(done, flush=True)
                lines.append(line_of(done))
                results.add(lines[-1])
        print(summed(name, lines), flush=True)
        right = right and judged(lines)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
