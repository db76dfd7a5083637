"""What a checkpoint costs the traffic beside which it is taken, and whether it keeps its rate.

A vector beside producers of records, then a transactional one beside producers of transactions.

Producers send at half of what they reach in a closed loop, into the partitions that are copied.
Windows with and without copying take turns; each checkpoint is taken of about as much as it can
copy in its window. What is too much is removed before either, and gone before it begins: freeing
gigabytes is felt by everybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from statistics import median
from time import monotonic, perf_counter, sleep

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks._copying import PARTITIONS, TOPIC, broker, produce
from benchmarks._load import RECORD_BYTES, Load, Window, load
from benchmarks._measure import Options, meets, print_load, reaches
from breakglass.services.checkpoint.coordinator import Coordinator, Finisher
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.logs import read_contents
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.session import BEHIND_OTHERS, Spark
from breakglass.services.pipeline.source import WantedTopics, read_sources
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.store.store import LocalStore

SECONDS = 20.0
"""Of a window."""
RUNS = 4
RATE = 20e6
"""Bytes a second of `--max-rate 20MB/s`."""
SPARE = 1.1
"""More is copied than a window takes, so that it is copied until its end."""
COPIED = SPARE * SECONDS * RATE
LIVE_SHARE = 0.5
"""Of what the producers reach in a closed loop."""
COST, SLOWER = 0.05, 1.5
KEPT = 0.8, 1.05
"""Shares of the rate: what is to be reached, and what is not to be passed."""
SEGMENT_BYTES = 64 * 2**20
SEGMENTS = {"retention.ms": "-1", "segment.bytes": str(SEGMENT_BYTES)}
TRIMMED_BYTES = COPIED + 2 * PARTITIONS * SEGMENT_BYTES
"""At most, on the broker's disk: segments are removed whole."""
ROOM_BYTES = 8 * 10**9
ADMIN_SECONDS = 30.0


def main(options: Options) -> bool:
    """Print throughput, latency and the copying's rate; returns whether the targets were met."""
    met = [_beside(level, options) for level in (Level.VECTOR, Level.TRANSACTIONAL)]
    return all(met)


def _beside(level: Level, options: Options) -> bool:
    """Whether checkpoints of one level meet the targets."""
    rate = f"{RATE / 1e6:.0f} MB/s"
    print(f"a {level} checkpoint copied at {rate} beside producers, {SECONDS:.0f} s each")
    print_load()
    transactional = level is Level.TRANSACTIONAL
    with (
        broker(needed=ROOM_BYTES) as (cluster, folder),
        _copying(cluster, folder, level) as copying,
        load(cluster.bootstrap_servers, TOPIC, transactional=transactional) as producers,
    ):
        full = producers.run(SECONDS).rate
        print(f"  {'closed loop':<44} {full:8,.0f} records/s")
        turns = _Turns(producers, copying, LIVE_SHARE * full)
        # The first one finds a cold JVM, and does not count.
        turns.take()
        pairs = [turns.take() for _ in range(options.runs or RUNS)]
    print_load()
    for pair in pairs:
        figures = (
            f"{name} {each.rate:8,.0f} records/s  p50 {each.p50_ms:5.1f}  p99 {each.p99_ms:6.1f} ms"
            for name, each in (("without", pair.without), ("beside", pair.beside))
        )
        print(f"  {'   '.join(figures)}   copied {pair.copied / 1e6:5.1f} MB/s")
    rates = [pair.copied / RATE for pair in pairs]
    lost = median(1 - pair.beside.rate / pair.without.rate for pair in pairs)
    slower = median(pair.beside.p99_ms / pair.without.p99_ms for pair in pairs)
    least, most = KEPT
    return all(
        [
            meets("throughput lost beside copying", lost, COST),
            meets("p99 beside copying / without", slower, SLOWER),
            reaches("rate of copying / wanted, the lowest", min(rates), least),
            meets("rate of copying / wanted, the highest", max(rates), most),
        ]
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """A window without copying, and the next one with it."""

    without: Window
    beside: Window
    copied: float
    """Bytes a second."""


class _Turns:
    def __init__(self, producers: Load, copying: _Copying, rate: float) -> None:
        self._producers, self._copying, self._rate = producers, copying, rate

    def take(self) -> Pair:
        """Produce at the same rate twice; the second time a checkpoint is copied."""
        self._copying.trim()
        without = self._producers.run(SECONDS, self._rate)
        self._copying.trim()
        with ThreadPoolExecutor(1, "checkpoint") as pool:
            copied: Future[float] = pool.submit(self._copying.copy)
            beside = self._producers.run(SECONDS, self._rate)
            return Pair(without, beside, copied.result())


class _Copying:
    """Checkpoints of the topic, one after the other, in one session."""

    def __init__(
        self,
        cluster: Cluster,
        access: ReadAccess,
        client: ReadClient,
        spark: Spark,
        folder: Path,
        level: Level,
    ) -> None:
        self._level = level
        self._access, self._client, self._spark, self._folder = access, client, spark, folder
        self._state = cluster.state_dir
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def trim(self) -> None:
        """Leave in the topic what a window copies; back when the rest is off the disk."""
        kept = int(COPIED / RECORD_BYTES / PARTITIONS)
        deadline = Deadline.after(ADMIN_SECONDS)
        (source,) = read_sources(self._client, WantedTopics((TOPIC,)), deadline)
        starts = [
            TopicPartition(
                TOPIC, partition.partition.partition, max(0, partition.high_watermark - kept)
            )
            for partition in source.partitions
        ]
        for trimmed in self._admin.delete_records(starts).values():
            trimmed.result(ADMIN_SECONDS)
        give_up = monotonic() + ADMIN_SECONDS
        while self._held() > TRIMMED_BYTES:
            assert monotonic() < give_up, f"{self._held():,} bytes are still there"
            sleep(0.1)

    def _held(self) -> int:
        """Bytes of the topic's segments, those to be deleted too."""
        found = 0
        for segment in self._state.rglob(f"{TOPIC}-*/*.log*"):
            with suppress(FileNotFoundError):
                found += segment.stat().st_size
        return found

    def copy(self) -> float:
        """Bytes a second from the acknowledgement of a checkpoint to its completion."""
        store = BackupStore(str(self._folder / "store"))
        wanted = WantedCheckpoint((TOPIC,), level=self._level)
        id = Coordinator(store, KafkaTopics(self._client, None, wanted)).take()
        assert isinstance(id, int)
        settings = BackupSettings(LocalStore(self._folder), bytes_per_second=RATE)
        run = BackupRun(self._client, self._spark, self._access, settings, Meter(lambda _: None))
        began = perf_counter()
        # A rate is that of one partition at a time, as in the commands.
        decider = Decider(self._client, read_contents=partial(read_contents, run))
        finisher = Finisher(store, decider, KafkaSources(run), side_by_side=1)
        found = finisher.finish(id)
        seconds = perf_counter() - began
        assert found.status is Status.COMPLETED
        rmtree(self._folder / "store" / "contents")
        copies = [
            partition.counting.manifest for partition in found.partitions if partition.counting
        ]
        files = [file for copy in copies if copy is not None for file in copy.files]
        return sum(file.size for file in files if file.name.endswith("_records")) / seconds


@contextmanager
def _copying(cluster: Cluster, folder: Path, level: Level) -> Iterator[_Copying]:
    create_topic(cluster, TOPIC, [[1]] * PARTITIONS, SEGMENTS)
    produce(cluster, TOPIC, int(COPIED / RECORD_BYTES), RECORD_BYTES)
    given = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    access = ReadAccess(connection_settings(given))
    with access.reading() as client, Spark(niceness=BEHIND_OTHERS) as spark:
        spark.context()
        yield _Copying(cluster, access, client, spark, folder, level)
