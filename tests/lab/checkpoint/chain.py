"""A chain of two applications that process at least once: A -> first -> B -> second -> C.

Each reads with a consumer group, writes one record for each of its inputs, and commits after its
outputs were acknowledged. A record says what it came from, so that what is lost has a name.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from breakglass.services.checkpoint.kafka.logs import committed_log, read_ends, read_logs
from breakglass.services.checkpoint.kafka.owners import read_named_groups
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.lineage import GroupFlow
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.address import partition_of
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import LOG, SECONDS, soon

Values = Mapping[TopicPartition, Mapping[int, bytes]]
"""By partition and offset."""
Offsets = Mapping[str, Mapping[TopicPartition, int]]
"""By group."""
AT_ONCE = 20
"""Records that the source writes, and a group processes, before it commits."""
PAUSE_SECONDS = 0.02
"""Between two batches of the source."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Two applications and a source on a cluster."""

    cluster: Cluster
    name: str
    suffix: str = ""
    """Of the topics, after a restore."""
    partitions: int = 2
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def topics(self) -> tuple[str, str, str]:
        first, second, third = (f"{self.name}-{letter}{self.suffix}" for letter in "abc")
        return first, second, third

    @property
    def flows(self) -> tuple[GroupFlow, GroupFlow]:
        a, b, c = self.topics
        first = GroupFlow(f"first-of-{self.name}", (a,), (b,))
        return first, GroupFlow(f"second-of-{self.name}", (b,), (c,))

    @property
    def connection(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    @property
    def wanted(self) -> WantedCheckpoint:
        """An ordered checkpoint of it."""
        groups = {flow.group: GroupPolicy.AT_LEAST_ONCE for flow in self.flows}
        return WantedCheckpoint(self.topics, groups, Level.ORDERED, flows=self.flows)

    def open(self) -> Chain:
        for topic in self.topics:
            create_topic(self.cluster, topic, [[1]] * self.partitions)
        return self

    def fill(self, count: int) -> None:
        """Have customers write *count* records before anybody processes one."""
        producer = Producer({**self.connection, "acks": "all"}, logger=LOG)
        for number in range(count):
            value = b"before-%d" % number
            producer.produce(self.topics[0], value, partition=number % self.partitions)
        assert producer.flush(SECONDS) == 0

    @contextmanager
    def running(self, *, source: bool = True) -> Iterator[None]:
        """Both applications at work, and customers who write, until the end of the block."""
        self._stop.clear()
        works = [(self._process, (flow,)) for flow in self.flows]
        works += [(self._write, ())] if source else []  # type: ignore[list-item]
        threads = [threading.Thread(target=work, args=given, daemon=True) for work, given in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(SECONDS)

    def at_work(self, client: ReadClient, more: int = 200) -> None:
        """Return once both applications have committed *more* records."""
        before = self._committed(client)
        wait_until(lambda: self._committed(client) > before + more, "applications at work")

    def _committed(self, client: ReadClient) -> int:
        partitions = [state.partition for state in read_logs(client, self.topics, soon()).states]
        found = read_named_groups(client, [flow.group for flow in self.flows], partitions, soon())
        return sum(sum(offsets.values()) for offsets in found.values())

    def _write(self) -> None:
        producer, number = Producer({**self.connection, "acks": "all"}, logger=LOG), 0
        while not self._stop.wait(PAUSE_SECONDS):
            for _ in range(AT_ONCE):
                value = b"%d" % number
                producer.produce(self.topics[0], value, partition=number % self.partitions)
                number += 1
            producer.flush(SECONDS)

    def _process(self, flow: GroupFlow) -> None:
        begin = {"group.id": flow.group, "auto.offset.reset": "earliest"}
        settings = {**self.connection, **begin, "enable.auto.commit": False}
        producer = Producer({**self.connection, "acks": "all", "linger.ms": 0}, logger=LOG)
        with closing(Consumer(settings, logger=LOG)) as consumer:
            consumer.subscribe(list(flow.inputs))
            while not self._stop.is_set():
                records = consumer.consume(AT_ONCE, timeout=0.1)
                for record in records:
                    assert record.error() is None
                    value = led_to(record.value() or b"", flow)
                    partition = record.partition()
                    assert partition is not None
                    producer.produce(flow.outputs[0], value, partition=partition)
                if records:
                    assert producer.flush(SECONDS) == 0
                    consumer.commit(asynchronous=False)


def led_to(value: bytes, flow: GroupFlow) -> bytes:
    """What the group of *flow* writes for a record."""
    return value + b">" + flow.group.split("-")[0].encode()


@dataclass(frozen=True, slots=True)
class Judged:
    """What a checkpoint of a chain comes to once it is restored and worked on."""

    lost: tuple[bytes, ...]
    """Outputs that nobody writes again: their inputs count as processed."""
    doubled: int
    """Outputs that are there, and are written again."""
    orphans: int
    """Records of which the input is not there."""


def judged(chain: Chain, offsets: Offsets, values: Values) -> Judged:
    """A checkpoint with these *offsets* and *values*."""
    lost: list[bytes] = []
    doubled = orphans = 0
    for flow in chain.flows:
        outputs = {value for topic in flow.outputs for value in values_of(topic, values)}
        causes = set()
        for partition in _of(flow.inputs, values):
            processed = offsets[flow.group].get(partition, 0)
            for offset, value in values[partition].items():
                output = led_to(value, flow)
                causes.add(output)
                if offset < processed and output not in outputs:
                    lost.append(output)
                doubled += offset >= processed and output in outputs
        orphans += len(outputs - causes)
    return Judged(tuple(lost), doubled, orphans)


def _of(topics: Iterable[str], values: Values) -> list[TopicPartition]:
    return [partition for partition in values if partition.topic in topics]


def values_of(topic: str, values: Values) -> Iterator[bytes]:
    """The values in all partitions of *topic*."""
    for partition in _of([topic], values):
        yield from values[partition].values()


def stored(store: BackupStore, id: int) -> tuple[Offsets, Values]:
    """What a completed checkpoint holds, read from its copies."""
    found = store.read(id)
    assert found is not None
    assert found.status is Status.COMPLETED
    assert found.cut is not None
    values: dict[TopicPartition, dict[int, bytes]] = {}
    numbers: dict[int, TopicPartition] = {}
    for part in found.partitions:
        assert part.subject is not None
        assert part.counting is not None
        partition = TopicPartition(part.subject.topic, part.subject.partition)
        numbers[part.number] = partition
        where = store.copies.contents(CopyId(id, part.number, part.counting.id.node)).where()
        folder = Path(where) / "segments" / partition.topic / str(partition.partition)
        records = partition_of(str(folder)).records()
        values[partition] = {record.offset: record.value or b"" for record in records}
    offsets = {
        name: {numbers[number]: offset for number, offset in group.offsets.items()}
        for name, group in found.cut.groups.items()
    }
    return offsets, values


def read_values(
    client: ReadClient, topics: tuple[str, ...], ends: Mapping[TopicPartition, int]
) -> Values:
    """The records before *ends*."""
    logs = read_logs(client, topics, soon())
    return {
        partition: {
            record.offset: record.value or b""
            for record in committed_log(logs, partition).records(0, end)
        }
        for partition, end in ends.items()
    }


def complete(chain: Chain, client: ReadClient) -> bool:
    """Whether each record of the first topic has led to one in the last."""
    _, ends = read_ends(client, chain.topics, soon())
    values = read_values(client, chain.topics, ends)
    first, _, last = chain.topics
    done, asked = set(values_of(last, values)), list(values_of(first, values))
    return len(asked) > 100 and all(value + b">first>second" in done for value in asked)
