"""Processor time for a partition, from a thousand of them to ten thousand, on generated answers.

What a run over a few takes is left out, or it would hide whatever grows. The brokers live in the
benchmark and make their answers up, so only the processor time of ours is of interest, never the
wall's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks._many import generated_offline, given_up
from benchmarks._measure import Options, Program, meets, ours, print_load, run
from tests.kit.fake_cluster import FakeCluster

SHARES = (0.1, 0.2, 0.5, 1.0)
PARTITIONS = 10_000
RUNS = 3
FEW = 12
"""It takes that many to see every kind of batch: all but what grows is done for them too."""
FLAT = 1.5
"""The dearest partition may cost so many times the cheapest."""

Making = Callable[[FakeCluster, Path], Program]


def main(options: Options) -> bool:
    """Print the cost of a partition at each size; returns whether it stays about the same."""
    most, runs = options.partitions or PARTITIONS, options.runs or RUNS
    sizes = [int(most * share) for share in SHARES]
    print(f"processor time for a partition, up to {most:,} of them, on generated answers")
    print_load()
    with TemporaryDirectory(prefix="breakglass-bench-") as folder:
        flat = [
            _measure(name, making, sizes, runs, Path(folder)) for name, making in MAKINGS.items()
        ]
    return all(flat)


def _measure(name: str, making: Making, sizes: Sequence[int], runs: int, folder: Path) -> bool:
    _cpu(making, FEW, 1, folder)
    fixed = _cpu(making, FEW, runs, folder)
    costs = []
    for size in sizes:
        cpu = _cpu(making, size, runs, folder)
        costs.append((cpu - fixed) / (size - FEW))
        print(f"  {name:<24} {size:>7,}   {cpu:6.2f} s   {costs[-1] * 1e6:5.0f} us each")
    return meets(f"{name}: dearest / cheapest partition", max(costs) / min(costs), FLAT)


def _cpu(making: Making, size: int, runs: int, folder: Path) -> float:
    """Median seconds of processor time."""
    spent = []
    for _ in range(runs):
        with generated_offline(size) as cluster:
            spent.append(run(making(cluster, folder), folder).cpu)
    return median(spent)


def _triage(cluster: FakeCluster, folder: Path) -> Program:
    return ours("breakglass", folder, "triage", "--json", *_bootstrap(cluster))


def _recovery(cluster: FakeCluster, folder: Path) -> Program:
    wanted = ("--automated-recovery", "--all-offline-partitions", "--write")
    consent = given_up(len(cluster.story.states))
    return ours("breakglass", folder, "unclean-recovery", *wanted, *consent, *_bootstrap(cluster))


def _bootstrap(cluster: FakeCluster) -> tuple[str, str]:
    return "--bootstrap-server", f"{cluster.brokers[1].endpoint}"


MAKINGS: dict[str, Making] = {
    "breakglass triage": _triage,
    "breakglass unclean-recovery": _recovery,
}
