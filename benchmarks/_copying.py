"""One broker with a topic of random records, and Kafka's own producer and consumer as peers.

Rates are of what both sides move, values alone: what either format adds is nobody's figure.
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from confluent_kafka.admin import AdminClient

from benchmarks._many import in_memory
from benchmarks._measure import kafka_tool
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic

MEBIBYTE = 2**20
"""What Kafka's tools call MB."""
TOPIC = "copied"
PARTITIONS = 4
BROKER = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.index.size.max.bytes": "10485760",
    "transaction.state.log.num.partitions": "4",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}
"""Kafka's own defaults, where the lab has smaller ones; what is removed is soon gone."""
CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
CONSUMED_COLUMN = "fetch.MB.sec"
"""Of the consumer's answer: its rate without the time it took to join its group."""
SEND = ("--throughput", "-1", "--command-property", "acks=all")
PAYLOADS = 20
TOOL_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic, and room for copies of it."""

    cluster: Cluster
    topic: str
    records: int
    record_bytes: int
    folder: Path

    @property
    def mebibytes(self) -> float:
        """Of all values."""
        return self.records * self.record_bytes / MEBIBYTE

    def rate(self, seconds: float) -> float:
        """MB/s of moving them all in so many *seconds*."""
        return self.mebibytes / seconds

    def consumed(self) -> float:
        """MB/s of kafka-consumer-perf-test.sh over the whole topic."""
        count = ("--num-records", str(self.records))
        answer = _tool(self.cluster, CONSUMER, "--topic", self.topic, *count)
        return consumer_rate(answer, self.records)

    def produced(self, topic: str) -> float:
        """MB/s of kafka-producer-perf-test.sh with acks=all, the same into a new *topic*."""
        make_topic(self.cluster, topic)
        return produce(self.cluster, topic, self.records, self.record_bytes)


@contextmanager
def broker(*, needed: int) -> Iterator[tuple[Cluster, Path]]:
    """One broker and a folder for what is made; in memory where *needed* bytes are free there."""
    with TemporaryDirectory(prefix="breakglass-bench-", dir=in_memory(needed)) as folder:
        place = Path(folder)
        with Cluster.up(place / "lab", brokers=1, overrides=BROKER, tethered=True) as cluster:
            work = place / "work"
            work.mkdir()
            yield cluster, work


@contextmanager
def filled(records: int, record_bytes: int) -> Iterator[Filled]:
    """A topic of so many *records*, and room for two copies beside it."""
    with broker(needed=records * (record_bytes + 100) * 4) as (cluster, folder):
        make_topic(cluster, TOPIC)
        produce(cluster, TOPIC, records, record_bytes)
        yield Filled(cluster, TOPIC, records, record_bytes, folder)


def make_topic(cluster: Cluster, topic: str) -> None:
    """An empty topic from which nothing expires."""
    create_topic(cluster, topic, [[1]] * PARTITIONS, {"retention.ms": "-1"})


def remove_topic(cluster: Cluster, topic: str) -> None:
    """Delete *topic*, and wait until its room is free again."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(TOOL_SECONDS)
    give_up = time.monotonic() + TOOL_SECONDS
    while any(cluster.state_dir.rglob(f"{topic}-*-delete")) and time.monotonic() < give_up:
        time.sleep(0.1)


def grow_topic(cluster: Cluster, topic: str, records: int, record_bytes: int) -> None:
    """Add *records* that take little room on the broker: they compress well."""
    rng = random.Random(records)
    with NamedTemporaryFile("w", suffix=".txt") as file:
        some = (f"{rng.getrandbits(4 * record_bytes):0{record_bytes}x}" for _ in range(PAYLOADS))
        file.write("\n".join(some))
        file.flush()
        how = ("--payload-file", file.name, "--command-property", "compression.type=lz4")
        told = _tool(
            cluster,
            PRODUCER,
            *("--topic", topic, "--num-records", str(records), *SEND, *how),
            *("--command-property", "batch.size=200000", "--command-property", "linger.ms=20"),
        )
    producer_rate(told, records)


def trickle(cluster: Cluster, topic: str, records: int, record_bytes: int, a_second: int) -> None:
    """Add *records* at a steady rate; back when the last one is acknowledged."""
    what = ("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes))
    how = ("--throughput", str(a_second), "--command-property", "acks=all")
    producer_rate(_tool(cluster, PRODUCER, *what, *how, seconds=2 * records / a_second), records)


def produce(cluster: Cluster, topic: str, records: int, record_bytes: int) -> float:
    """Add random records without keys; returns the producer's MB/s."""
    what = ("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes))
    return producer_rate(_tool(cluster, PRODUCER, *what, *SEND), records)


def _tool(cluster: Cluster, tool: str, *arguments: str, seconds: float = TOOL_SECONDS) -> str:
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    program = kafka_tool(cluster.kafka, tool, tool, *at, *arguments)
    done = subprocess.run(
        list(map(str, program.command)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=max(seconds, TOOL_SECONDS),
    )
    if done.returncode:
        raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stderr[-2000:].strip()}")
    return done.stdout


def consumer_rate(answer: str, records: int) -> float:
    """The rate that the consumer told.

    Raises:
        RuntimeError: it did not read so many *records*.
    """
    rows = [line.split(", ") for line in answer.splitlines() if line.count(",") > 1]
    told = dict(zip(rows[0], rows[-1], strict=True))
    if int(told["data.consumed.in.nMsg"]) < records:
        raise RuntimeError(f"the consumer did not read {records:,} records: {answer}")
    return float(told[CONSUMED_COLUMN])


def producer_rate(answer: str, records: int) -> float:
    """The rate over all *records* that the producer told last.

    Raises:
        RuntimeError: it did not send so many.
    """
    last = answer.strip().splitlines()[-1] if answer.strip() else ""
    found = re.match(rf"{records} records sent, .* \(([0-9.]+) MB/sec\)", last)
    if found is None:
        raise RuntimeError(f"the producer did not send {records:,} records: {last}")
    return float(found[1])


def print_rate(name: str, rates: Sequence[float]) -> None:
    """One line: the middle rate, and each."""
    middle = sorted(rates)[len(rates) // 2]
    each = " ".join(f"{rate:.0f}" for rate in rates)
    print(f"  {name:<44} {middle:6.0f} MB/s   runs {each}")
