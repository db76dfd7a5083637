"""What a transactional checkpoint reads of transactions, beside copying the records.

The records are in transactions of 100, each with the offsets of its input, and are written after
the checkpoint is asked for and before it is started, as while it waits for a transaction of another
application. Writers continue while it is started, so that it has transactions to leave out.

Each run takes two checkpoints. The first one is as the commands take it: floors are read again when
it is started. For the second one they are not, so that it reads the headers of all records. Reading
is done as in the commands, by Spark where there is much to read, and copying by Spark; the first
run finds a cold JVM and does not count. Processor time is that of this process and its children.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from shutil import rmtree
from statistics import median
from threading import Event
from time import perf_counter
from typing import Any

from psutil import Process

from benchmarks._copying import PARTITIONS, broker, make_topic
from benchmarks._measure import Options, meets, print_load, spent
from breakglass.services.checkpoint.coordinator import Coordinator, Finisher
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.logs import read_contents
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupPolicy,
    Level,
    TakeDocument,
    TransactionFloors,
)
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.store.store import LocalStore

RECORDS, RECORD_BYTES = 1_000_000, 1000
A_TRANSACTION = 100
WRITERS = 4
PAUSE_SECONDS = 0.02
"""Between the transactions of the writer that continues: about 2,000 records a second."""
RUNS = 3
COST = 0.1
INPUT, OUTPUT, GROUP = "read", "written", "application"
SECONDS = 60.0
ROOM_BYTES = 3 * RECORDS * (RECORD_BYTES + 100)


def main(options: Options) -> bool:
    """Print the seconds of both, and their ratio; returns whether the target is met."""
    records = options.records or RECORDS
    with broker(needed=ROOM_BYTES) as (cluster, folder):
        given = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
        access = ReadAccess(connection_settings(given))
        for topic in (INPUT, OUTPUT):
            make_topic(cluster, topic)
        # Have the cluster make its internal topics, so that their ends can be read as floors.
        _write(cluster, 0, 1)
        with access.reading() as client, Spark() as spark:
            spark.context()
            work = _Work(cluster, access, client, spark, folder)
            scope = work.topics.scope()
            write(cluster, records)
            print(f"{records:,} records of {RECORD_BYTES:,} bytes in transactions of 100")
            print_load()
            with _writing(cluster):
                runs = [
                    (work.take(scope), work.take(scope, all_records=True))
                    for _ in range((options.runs or RUNS) + 1)
                ]
        print_load()
    counted = runs[1:]
    for run in (run for pair in counted for run in pair):
        print(f"  {run}")
    taken, of_all = ([pair[number] for pair in counted] for number in (0, 1))
    name = "reading headers of all / copying, wall"
    print(f"  {name:<44} {median(run.wall for run in of_all):6.2f}")
    name = "the same, processor time"
    print(f"  {name:<44} {median(run.processor for run in of_all):6.2f}")
    return all(
        [
            meets("reading / copying, wall", median(run.wall for run in taken), COST),
            meets(
                "reading / copying, processor time", median(run.processor for run in taken), COST
            ),
        ]
    )


@dataclass(frozen=True, slots=True)
class Spent:
    """What a step has taken, in seconds."""

    wall: float
    processor: float


@dataclass(frozen=True, slots=True)
class LineageRun:
    """One checkpoint."""

    all_records: bool
    offsets: int
    """Offsets of the topics whose transactions were read."""
    starting: float
    """Seconds to start it, most of which is waiting for transactions to end."""
    reading: Spent
    """To decide what is in it."""
    copying: Spent
    """To copy it then."""
    transactions: int
    """Transactions that were left out."""

    @property
    def wall(self) -> float:
        return self.reading.wall / self.copying.wall

    @property
    def processor(self) -> float:
        return self.reading.processor / self.copying.processor

    def __str__(self) -> str:
        what = "all" if self.all_records else "new"
        return (
            f"{what} {self.offsets:>9,} offsets   started in {self.starting:5.2f} s   "
            f"reading {self.reading.wall:5.2f} s (cpu {self.reading.processor:5.2f})   "
            f"copying {self.copying.wall:5.2f} s (cpu {self.copying.processor:5.2f})   "
            f"{self.transactions} left out"
        )


@dataclass(frozen=True, slots=True)
class _Floors:
    """The topics of a checkpoint whose scope was read before the records were written."""

    topics: KafkaTopics
    read: TakeDocument
    all_records: bool

    def scope(self) -> TakeDocument:
        return self.read

    def transactions(self) -> TransactionFloors | None:
        return None if self.all_records else self.topics.transactions()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.topics, name)


class _Clock:
    """What passes from its construction on."""

    def __init__(self) -> None:
        self._driver = Process()
        self._began = perf_counter(), self._processor()

    def _processor(self) -> float:
        return sum(spent(self._driver).values())

    def spent(self) -> Spent:
        return Spent(perf_counter() - self._began[0], self._processor() - self._began[1])


@dataclass(slots=True)
class _Timed:
    """A decider that notes what it takes."""

    decider: Decider
    spent: Spent = field(default_factory=lambda: Spent(0.0, 0.0), init=False)

    def decide(self, *given: Any) -> CutDocument:
        clock = _Clock()
        found = self.decider.decide(*given)
        self.spent = clock.spent()
        return found

    def require_kept(self, *given: Any) -> None:
        self.decider.require_kept(*given)


@dataclass(frozen=True, slots=True)
class _Work:
    cluster: Cluster
    access: ReadAccess
    client: ReadClient
    spark: Spark
    folder: Path

    @property
    def topics(self) -> KafkaTopics:
        groups = {GROUP: GroupPolicy.EXACTLY_ONCE}
        wanted = WantedCheckpoint((INPUT, OUTPUT), groups, Level.TRANSACTIONAL)
        return KafkaTopics(self.client, None, wanted)

    def take(self, scope: TakeDocument, *, all_records: bool = False) -> LineageRun:
        """Take a checkpoint of *scope*, which was read before the records were written."""
        place = self.folder / "checkpoint"
        store = BackupStore(str(place))
        settings = BackupSettings(LocalStore(place))
        run = BackupRun(self.client, self.spark, self.access, settings, Meter(lambda _: None))
        topics: Any = _Floors(self.topics, scope, all_records)
        began = perf_counter()
        id = Coordinator(store, topics).take()
        starting = perf_counter() - began
        assert isinstance(id, int)
        timed = _Timed(Decider(self.client, read_contents=partial(read_contents, run)))
        clock = _Clock()
        found = Finisher(store, timed, KafkaSources(run)).finish(id)
        whole = clock.spent()
        assert found.status is Status.COMPLETED
        assert found.cut is not None
        assert found.started is not None
        assert found.take is not None
        rmtree(place)
        again = found.started.transactions
        floors = again.stable if again else found.take.floors
        return LineageRun(
            all_records,
            sum(found.started.positions.values()) - sum(floors.values()),
            starting,
            timed.spent,
            Spent(whole.wall - timed.spent.wall, whole.processor - timed.spent.processor),
            found.cut.left_out or 0,
        )


@contextmanager
def _writing(cluster: Cluster) -> Iterator[None]:
    """Transactions go on, at a rate that leaves the processors to what is measured."""
    stop = Event()
    with ThreadPoolExecutor(1, "writer") as pool:
        writing = pool.submit(_write, cluster, WRITERS, None, stop)
        try:
            yield
        finally:
            stop.set()
        writing.result(SECONDS)


def write(cluster: Cluster, records: int) -> None:
    """So many records, by writers side by side, each with transactions of its own."""
    with ThreadPoolExecutor(WRITERS, "writer") as pool:
        each = records // WRITERS // A_TRANSACTION
        list(pool.map(lambda number: _write(cluster, number, each), range(WRITERS)))


def _write(
    cluster: Cluster, number: int, transactions: int | None, stop: Event | None = None
) -> None:
    """So many *transactions*, or one after each pause until *stop*."""
    from confluent_kafka import TopicPartition

    value = bytes(range(256)) * (RECORD_BYTES // 256) + bytes(RECORD_BYTES % 256)
    with _writer(cluster, f"writer-{number}") as (producer, metadata):
        for _ in count() if transactions is None else range(transactions):
            producer.begin_transaction()
            for record in range(A_TRANSACTION):
                producer.produce(OUTPUT, value, partition=record * PARTITIONS // A_TRANSACTION)
            place = TopicPartition(INPUT, number % PARTITIONS, 0)
            producer.send_offsets_to_transaction([place], metadata, SECONDS)
            producer.commit_transaction(SECONDS)
            producer.poll(0)
            if stop and stop.wait(PAUSE_SECONDS):
                return


@contextmanager
def _writer(cluster: Cluster, name: str) -> Iterator[tuple[Any, Any]]:
    from confluent_kafka import Consumer, Producer

    connection = {"bootstrap.servers": cluster.bootstrap_servers}
    consumer = Consumer({**connection, "group.id": GROUP})
    producer = Producer({**connection, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(SECONDS)
    yield producer, consumer.consumer_group_metadata()
    consumer.close()
