"""Copying a checkpoint beside the topic backup that it is made of, in turn, in one session.

Without live load. The first of each finds a cold JVM and does not count. Processor time is
printed beside: what else runs on the machine changes it less than it changes rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from statistics import median
from time import perf_counter

from psutil import Process

from benchmarks._copying import Filled, filled, print_rate
from benchmarks._measure import ROLES, Options, print_load, reaches, spent
from breakglass.services.checkpoint.coordinator import Coordinator, Finisher
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.pipeline.backup import back_up
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.store.store import LocalStore

RECORDS, RECORD_BYTES = 2_000_000, 1000
RUNS = 3
SHARE = 0.9


def main(options: Options) -> bool:
    """Print both rates and their ratio; returns whether the target is met."""
    with filled(options.records or RECORDS, RECORD_BYTES) as topic:
        print(f"copying {topic.records:,} records of {RECORD_BYTES:,} bytes")
        print_load()
        given = ConnectionOptions(bootstrap_server=topic.cluster.bootstrap_servers)
        access = ReadAccess(connection_settings(given))
        with access.reading() as client, Spark() as spark:
            spark.context()
            copies = _Copies(topic, access, client, spark)
            turns = [
                (copies.backup(number), copies.checkpoint(number))
                for number in range((options.runs or RUNS) + 1)
            ]
        print_load()
    backups, checkpoints = zip(*turns[1:], strict=True)
    _print("breakglass backup run", backups)
    _print("breakglass checkpoint take", checkpoints)
    ratios = [ours.rate / its.rate for its, ours in turns[1:]]
    return reaches("checkpoint / backup", median(ratios), SHARE)


@dataclass(frozen=True, slots=True)
class Copying:
    """One copy of all records."""

    rate: float
    """MB/s."""
    cpu: Mapping[str, float]
    """Seconds of processor time by role."""


def _print(name: str, copies: Sequence[Copying]) -> None:
    print_rate(name, [copy.rate for copy in copies])
    middle = {role: median(copy.cpu[role] for copy in copies) for role in ROLES}
    each = ", ".join(f"{role} {seconds:.1f}" for role, seconds in middle.items())
    print(f"    processor time {sum(middle.values()):.1f} s: {each}")


class _Copies:
    def __init__(self, topic: Filled, access: ReadAccess, client: ReadClient, spark: Spark) -> None:
        self._topic, self._access, self._client, self._spark = topic, access, client, spark

    def backup(self, number: int) -> Copying:
        """A whole backup."""
        folder = self._topic.folder / f"backup-{number}"
        began, before = perf_counter(), spent(Process())
        report = back_up(self._run(folder), WantedTopics((self._topic.topic,)))
        done = self._since(began, before)
        assert report.records == self._topic.records
        rmtree(folder)
        return done

    def checkpoint(self, number: int) -> Copying:
        """From the acknowledgement of a checkpoint to its completion."""
        folder = self._topic.folder / f"checkpoint-{number}"
        store = BackupStore(str(folder))
        wanted = WantedCheckpoint((self._topic.topic,), level=Level.VECTOR)
        id = Coordinator(store, KafkaTopics(self._client, None, wanted)).take()
        assert isinstance(id, int)
        sources = KafkaSources(self._run(folder))
        began, before = perf_counter(), spent(Process())
        found = Finisher(store, Decider(self._client), sources).finish(id)
        done = self._since(began, before)
        assert found.status is Status.COMPLETED
        rmtree(folder)
        return done

    def _since(self, began: float, before: Mapping[str, float]) -> Copying:
        seconds = perf_counter() - began
        cpu = {role: now - before[role] for role, now in spent(Process()).items()}
        return Copying(self._topic.rate(seconds), cpu)

    def _run(self, folder: Path) -> BackupRun:
        settings = BackupSettings(LocalStore(folder))
        return BackupRun(self._client, self._spark, self._access, settings, Meter(lambda _: None))
