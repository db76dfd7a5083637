"""What a gigabyte costs, from one of them to ten: processor time and memory, of backup and check.

The topic grows between the jobs, and each copies all of it anew. What a copy of little takes is
left out, or it would hide whatever grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

from benchmarks._copying import TOPIC, broker, grow_topic, make_topic
from benchmarks._measure import ROLES, Options, meets, print_load
from benchmarks._session import Job, Session, session
from breakglass.services.lab.cluster import Cluster

RECORD_BYTES = 1000
SIZES = (1_000_000, 3_000_000, 10_000_000)
"""Records: 1 to 10 GB."""
FEW = 250_000
"""Records of the jobs before those that count: the first ones find a cold JVM."""
COLD_JOBS = 6
LINEAR, FLAT = 1.5, 1.3
"""So many times the cheapest gigabyte the dearest may cost, and the first one's memory the last."""


def main(options: Options) -> bool:
    """Print costs and memory at each size; returns whether both stay about the same."""
    share = (options.records or SIZES[-1]) / SIZES[-1]
    sizes = [int(size * share) for size in SIZES]
    with broker(needed=sizes[-1] * RECORD_BYTES * 5 // 2) as (cluster, folder):
        make_topic(cluster, TOPIC)
        print(f"backup and check of {sizes[0]:,} to {sizes[-1]:,} records of 1,000 bytes")
        print_load()
        with session(cluster.bootstrap_servers) as ours:
            jobs = _jobs(cluster, ours, sizes, folder / "backup")
        print_load()
    met = [_flat(name, some) for name, some in jobs.items()]
    return all(met)


def _jobs(
    cluster: Cluster, ours: Session, sizes: Sequence[int], folder: Path
) -> dict[str, list[Job]]:
    """By what they do, a warm job of few records and those at each size."""
    held = int(FEW * sizes[-1] / SIZES[-1])
    grow_topic(cluster, TOPIC, held, RECORD_BYTES)
    backup, check = [_both(ours, folder) for _ in range(COLD_JOBS)][-1]
    jobs = {"backup run": [backup], "backup verify --against": [check]}
    for size in sizes:
        grow_topic(cluster, TOPIC, size - held, RECORD_BYTES)
        held = size
        for some, job in zip(jobs.values(), _both(ours, folder), strict=True):
            some.append(job)
    return jobs


def _both(ours: Session, folder: Path) -> tuple[Job, Job]:
    folder.mkdir()
    try:
        return ours.back_up(TOPIC, folder), ours.verify(TOPIC, folder)
    finally:
        rmtree(folder)


def _flat(name: str, jobs: Sequence[Job]) -> bool:
    few, *others = jobs
    costs = []
    for job in others:
        more = (job.records - few.records) * RECORD_BYTES / 1e9
        costs.append((_cpu(job) - _cpu(few)) / more)
        print(f"  {name:<24} {job.records:>10,}   {costs[-1]:5.2f} cpu s a GB   {job.memory()}")
    met = [meets(f"{name}: dearest / cheapest GB", max(costs) / min(costs), LINEAR)]
    for role in ROLES:
        ratio = others[-1].peak[role] / others[0].peak[role]
        met.append(meets(f"{name}: memory of {role}", ratio, FLAT))
    return all(met)


def _cpu(job: Job) -> float:
    return sum(job.cpu.values())
