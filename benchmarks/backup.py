"""Copying a topic, three jobs in one session, against Kafka's own consumer that keeps nothing."""

from __future__ import annotations

from itertools import pairwise
from shutil import rmtree
from statistics import median

from benchmarks._copying import Filled, filled, print_rate
from benchmarks._measure import Options, print_load, reaches
from benchmarks._session import session

RECORDS, RECORD_BYTES = 2_000_000, 1000
JOBS, RUNS = 3, 2
FIRST, THIRD = 0.6, 1.0


def main(options: Options) -> bool:
    """Print both rates and their ratio, job by job; returns whether the targets are met."""
    first, second, third = ratios(
        options.records or RECORDS, RECORD_BYTES, JOBS, options.runs or RUNS
    )
    met = reaches(name_of(1), first, FIRST)
    print(f"  {name_of(2):<44} {second:6.2f}")
    return reaches(name_of(3), third, THIRD) and met


def ratios(records: int, record_bytes: int, jobs: int, runs: int) -> list[float]:
    """Our rate by the consumer's, job by job; the middle of so many *runs*, printed."""
    with filled(records, record_bytes) as topic:
        print(f"copying {records:,} records of {record_bytes:,} bytes, on one broker")
        print_load()
        found = [_run(topic, jobs) for _ in range(runs)]
        print_load()
    return [median(each) for each in zip(*found, strict=True)]


def name_of(job: int) -> str:
    """What the ratio of a *job* is called."""
    return f"job {job} / kafka-consumer-perf-test.sh"


def _run(topic: Filled, count: int) -> list[float]:
    """The ratio of each job of one session; the consumer runs before, between and behind."""
    consumed, jobs = [topic.consumed()], []
    with session(topic.cluster.bootstrap_servers) as ours:
        for _ in range(count):
            folder = topic.folder / "backup"
            folder.mkdir()
            jobs.append(ours.back_up(topic.topic, folder))
            rmtree(folder)
            consumed.append(topic.consumed())
    rates = [topic.rate(job.seconds) for job in jobs]
    print_rate("kafka-consumer-perf-test.sh", consumed)
    print_rate("breakglass backup run", rates)
    for number, job in enumerate(jobs, 1):
        print(f"    job {number}: {job.costs()}; {job.memory()}")
    beside = [(before + after) / 2 for before, after in pairwise(consumed)]
    return [rate / peer for rate, peer in zip(rates, beside, strict=True)]
