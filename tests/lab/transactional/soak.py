"""Checkpoint after checkpoint of applications under load and kill -9: `make soak-transactional`.

Each round has an application of its own, so that no round takes longer than the first one. With
--first two soaks can play different seeds at the same time.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from breakglass.services.lab.cluster import Cluster
from tests.lab.transactional.rounds import WORKLOADS, Round, rounds


def summed(workload: str, done: list[Round]) -> str:
    """The figures of *done* in a sentence."""
    wrong = sum(not one.consistent for one in done)
    raw = sum(bool(one.raw) for one in done)
    refused = sum(len(one.refused) for one in done)
    lowered = sum(one.lowered > 0 for one in done)
    return (
        f"{workload}: {len(done)} checkpoints restored, {wrong} inconsistent; {lowered} were "
        f"lowered, {refused} tries refused; of the vectors of the same moments {raw} were wrong"
    )


def main() -> int:
    """Print each round and the figures; returns 1 if a checkpoint was wrong, or no vector was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="workload", help=f"of {[*WORKLOADS]} (all)")
    parser.add_argument("--checkpoints", type=int, default=100, help="of each")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    given, right = parser.parse_args(), True
    for name in given.workloads or WORKLOADS:
        done: list[Round] = []
        with (
            TemporaryDirectory(prefix="breakglass-soak-") as folder,
            Cluster.up(Path(folder) / "cluster", tethered=True) as cluster,
        ):
            seeds = range(given.first, given.first + given.checkpoints)
            for one in rounds(cluster, name, seeds, Path(folder)):
                print(one, flush=True)
                done.append(one)
        print(summed(name, done), flush=True)
        right &= all(one.consistent for one in done) and any(one.raw for one in done)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
