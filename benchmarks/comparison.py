"""Two partitions of 1 GB that are equal: replicas, log folders, backups; and finding one change.

By hand a change is found by reading both sides with kafka-console-consumer.sh into files and
comparing those: a broker's log is changed on its disk, one record of it, and read before and after.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from google_crc32c import value as crc32c

from benchmarks._copying import BROKER, produce
from benchmarks._many import in_memory
from benchmarks._measure import Options, Program, kafka_tool, meets, ours, print_load, reaches, run
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic, wait_in_sync
from breakglass.services.record_batches import ATTRIBUTES_AT, Record, TimestampType, read_headers
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.topic_writer import TopicWriter

RECORDS, RECORD_BYTES = 1_000_000, 1000
RUNS = 2
RATE, MEGABYTES = 300.0, 200.0
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARED, ALONE = "shared", "ledger"
"""A topic with two replicas, and one whose only log is changed."""
CHANGED_AT = 0.9
"""How far into the log the record is that is changed."""
FOUND = 1
"""How a comparison ends that found a difference, ours and cmp."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What is compared, and where programs write."""

    cluster: Cluster
    work: Path
    records: int

    @property
    def megabytes(self) -> float:
        """Of one side's values."""
        return self.records * RECORD_BYTES / 1e6

    def log(self, broker: int, topic: str) -> Path:
        """A broker's folder of the topic's only partition."""
        folder = self.cluster.broker(broker).partition_folder(topic, 0)
        assert folder is not None
        return folder

    def diff(self, left: str, right: str, *options: str) -> Program:
        servers = ("--bootstrap-server", self.cluster.bootstrap_servers)
        return ours("breakglass", self.work, "diff", left, right, "--summary", *options, *servers)


def main(options: Options) -> bool:
    """Print the rates, and both ways to the change; returns whether the targets are met."""
    records = options.records or RECORDS
    needed = records * (RECORD_BYTES + 100) * 9
    with TemporaryDirectory(prefix="breakglass-bench-", dir=in_memory(needed)) as folder:
        place, work = Path(folder), Path(folder) / "work"
        work.mkdir()
        with Cluster.up(place / "lab", brokers=2, overrides=BROKER, tethered=True) as cluster:
            stage = Stage(cluster, work, records)
            for topic, brokers in ((SHARED, (1, 2)), (ALONE, (2,))):
                create_topic(cluster, topic, [brokers], {"retention.ms": "-1"})
                produce(cluster, topic, records, RECORD_BYTES)
            wait_in_sync(cluster, SHARED)
            print(f"two sides of {stage.megabytes:,.0f} MB each")
            print_load()
            equal = _equal(stage, options.runs or RUNS)
            # Ours beside the consumer, each from nothing to the offset.
            before = stage.work / f"{ALONE}-0"
            shutil.copytree(stage.log(2, ALONE), before)
            consumed = _consumed(stage, "before")
            node = stage.cluster.broker(2)
            node.stop()
            offset = _changed(stage.log(2, ALONE), int(stage.records * CHANGED_AT))
            node.start()
            stage.cluster.wait_ready()
            consumed += _consumed(stage, "after")
            began = time.monotonic()
            cmp = ["cmp", "-s", str(stage.work / "before"), str(stage.work / "after")]
            assert subprocess.run(cmp).returncode == FOUND
            by_hand = consumed + time.monotonic() - began
            found, seconds = _found(stage, before)
            assert found == offset, (found, offset)
            print(f"  one change of {stage.records:,} records, at offset {offset:,}")
            print(f"  {'kafka-console-consumer.sh twice, and cmp':<44} {by_hand:6.2f} s")
            print(f"  {'breakglass diff log:A log:B':<44} {seconds:6.2f} s")
            return reaches("by hand / breakglass", by_hand / seconds, 1.0) and equal


def _equal(stage: Stage, runs: int) -> bool:
    left, right = _backups(stage)
    cases = {
        "two replicas": (f"replica:1/{SHARED}/0", f"replica:2/{SHARED}/0", "--read-all"),
        "two log folders": (f"log:{stage.log(1, SHARED)}", f"log:{stage.log(2, SHARED)}"),
        "a replica and a log folder": (f"replica:1/{SHARED}/0", f"log:{stage.log(2, SHARED)}"),
        "two backups": (f"backup:{left}/{SHARED}/0", f"backup:{right}/{SHARED}/0"),
    }
    run(stage.diff(*cases["two log folders"], "--to", "1"), stage.work)
    met = [_case(stage, name, sides, runs) for name, sides in cases.items()]
    return all(met)


def _case(stage: Stage, name: str, sides: tuple[str, ...], runs: int) -> bool:
    """What starting the program costs is in its rate."""
    done = [run(stage.diff(*sides), stage.work) for _ in range(runs)]
    wall = stage.megabytes / median(one.wall for one in done)
    cpu = stage.megabytes / median(one.cpu for one in done)
    print(f"  {name}: {wall:.0f} MB/s by the clock, of each side")
    met = reaches(f"{name}, a core", cpu, RATE, " MB/s")
    return meets("memory at most", max(one.peak_rss for one in done), MEGABYTES, " MB") and met


def _backups(stage: Stage) -> tuple[Path, Path]:
    """Two copies of one backup of as many records."""
    left, right = stage.work / "left", stage.work / "right"
    value = bytes(range(250)) * (RECORD_BYTES // 250)
    with TopicWriter(left, TopicIdentity(SHARED)) as writer:
        partition = writer.partition(0)
        for offset in range(stage.records):
            key = b"%010d" % offset
            partition.append(Record(offset, TimestampType.CREATE, offset, key, value))
        writer.commit()
    shutil.copytree(left, right)
    return left, right


def _found(stage: Stage, before: Path) -> tuple[int, float]:
    """The offset that ours tells, and its seconds."""
    program = stage.diff(f"log:{before}", f"log:{stage.log(2, ALONE)}")
    command = [str(text) for text in program.command if text != "--summary"]
    began = time.monotonic()
    done = subprocess.run(command, env=program.environment, capture_output=True, text=True)
    seconds = time.monotonic() - began
    assert done.returncode == FOUND, done.stderr
    first = done.stdout.split()[1].split("..")[0]
    return int(first.replace(",", "")), seconds


def _consumed(stage: Stage, name: str) -> float:
    """Seconds of reading the topic into a file, offsets and values."""
    arguments = [
        *("--bootstrap-server", stage.cluster.bootstrap_servers, "--topic", ALONE),
        *("--partition", "0", "--offset", "earliest", "--max-messages", str(stage.records)),
        *("--formatter-property", "print.offset=true"),
    ]
    consumer = kafka_tool(stage.cluster.kafka, name, CONSUMER, *arguments)
    began = time.monotonic()
    with (stage.work / name).open("wb") as file:
        subprocess.run(
            list(map(str, consumer.command)), stdout=file, stderr=subprocess.DEVNULL, check=True
        )
    return time.monotonic() - began


def _changed(folder: Path, offset: int) -> int:
    """Change a byte of the last record of the batch that holds *offset*; returns that record's."""
    for path in sorted(folder.glob("*.log"), reverse=True):
        if int(path.stem) <= offset:
            break
    data = bytearray(path.read_bytes())
    headers = read_headers(bytes(data), str(path)).headers
    batch = next(header for header in headers if header.next_offset > offset)
    end = batch.position + batch.size
    # Its last byte counts the record's headers, the one before ends its value.
    data[end - 2] ^= 1
    crc = crc32c(bytes(data[batch.position + ATTRIBUTES_AT : end]))
    data[batch.position + ATTRIBUTES_AT - 4 : batch.position + ATTRIBUTES_AT] = crc.to_bytes(4)
    path.write_bytes(data)
    return batch.last_offset
