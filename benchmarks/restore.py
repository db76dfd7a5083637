"""Putting a topic back, exactly once, against Kafka's own producer that sends as much by acks=all.

Ours compares nothing here: that is `verification`.
"""

from __future__ import annotations

from statistics import median

from benchmarks._copying import Filled, filled, print_rate, remove_topic
from benchmarks._measure import Options, print_load, reaches
from benchmarks._session import Job, Session, session

RECORDS, RECORD_BYTES = 2_000_000, 1000
RUNS = 3
TARGET = 1.7


def main(options: Options) -> bool:
    """Print both rates and their ratio; returns whether the target is met."""
    with filled(options.records or RECORDS, RECORD_BYTES) as topic:
        print(f"restoring {topic.records:,} records of {RECORD_BYTES:,} bytes, on one broker")
        print_load()
        with session(topic.cluster.bootstrap_servers) as ours:
            (topic.folder / "backup").mkdir()
            ours.back_up(topic.topic, topic.folder / "backup")
            runs = [_run(topic, ours) for _ in range(options.runs or RUNS)]
    rates = [topic.rate(job.seconds) for job, _ in runs]
    produced = [rate for _, rate in runs]
    print_rate("kafka-producer-perf-test.sh, acks=all", produced)
    print_rate("breakglass backup restore", rates)
    for number, (job, _) in enumerate(runs, 1):
        print(f"    run {number}: {job.costs()}; {job.memory()}")
    print_load()
    ratios = [ours / peer for ours, peer in zip(rates, produced, strict=True)]
    return reaches("restore / kafka-producer-perf-test.sh", median(ratios), TARGET)


def _run(topic: Filled, ours: Session) -> tuple[Job, float]:
    """Ours, and the producer's MB/s; each writes a topic of its own, which is gone afterwards."""
    rate = topic.produced("produced")
    remove_topic(topic.cluster, "produced")
    job = ours.restore(topic.topic, topic.folder / "backup", "restored", topic.folder / "state")
    remove_topic(topic.cluster, "restored")
    return job, rate
