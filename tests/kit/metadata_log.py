"""Writes metadata logs and snapshots as controllers do, to be read by the product.

Fields are encoded by kafka-python's codec from Kafka's schemas, batches and their CRC-32C here: the
product's decoder has no part in it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from kafka.protocol.data_container import DataContainer
from kafka.protocol.schemas import StructField, load_json

HEADER = struct.Struct(">iBIhiqqqhii")
CONTROL = 0x20
SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 3, 4, 5, 6
T0 = 1_700_000_000_000
CLUSTER = "metadata-cluster-idAAA"

Written = tuple[bytes | None, bytes]
"""Key and value of a record."""


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), bit-reflected, as in RFC 3720."""
    crc, table = 0xFFFFFFFF, _table()
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def uvarint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def varint(value: int) -> bytes:
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


@cache
def _schema(name: str) -> tuple[int | None, Any]:
    schema = load_json(name, "breakglass.services.quorum.schemas")
    key = schema.get("apiKey")
    if not schema["fields"]:
        return key, None
    written = StructField(schema)
    written.set_data_class(type(name, (DataContainer,), {"_struct": written}))
    return key, written


def fields_of(kind: str, version: int, /, **fields: Any) -> bytes:
    """The fields of a message; names as in kafka-python: ``topic_id``."""
    _, schema = _schema(kind)
    if schema is None:
        return b"\0"
    message = schema.data_class(version=version, **fields)
    return bytes(schema.encode(message, version=version, compact=True, tagged=True))


def record(kind: str, version: int = 0, /, **fields: Any) -> Written:
    """A metadata record in its frame."""
    key, _ = _schema(kind)
    assert key is not None
    frame = uvarint(1) + uvarint(key) + uvarint(version)
    return None, frame + fields_of(kind, version, **fields)


def control(kind: int, value: bytes) -> Written:
    """A control record."""
    return struct.pack(">hh", 0, kind), value


def voters(*ids: int) -> Written:
    """A VotersRecord."""
    body = b"".join(
        struct.pack(">i", one) + UUID(int=one).bytes + b"\1" + struct.pack(">hh", 0, 1) + b"\0\0"
        for one in ids
    )
    return control(KRAFT_VOTERS, struct.pack(">h", 0) + uvarint(len(ids) + 1) + body + b"\0")


def batch(
    offset: int,
    epoch: int,
    records: Sequence[Written],
    *,
    at_ms: int = T0,
    controls: bool = False,
    producer_id: int = -1,
) -> bytes:
    """A record batch of message format 2."""
    body = bytearray()
    for number, (key, value) in enumerate(records):
        named = varint(-1) if key is None else varint(len(key)) + key
        one = b"\0" + varint(0) + varint(number) + named + varint(len(value)) + value + varint(0)
        body += varint(len(one)) + one
    attributes = CONTROL if controls else 0
    covered = (
        struct.pack(
            ">hiqqqhii",
            *(attributes, len(records) - 1, at_ms, at_ms, producer_id, -1, -1, len(records)),
        )
        + body
    )
    head = struct.pack(">iBI", epoch, 2, _crc(covered))
    return struct.pack(">qi", offset, len(head) + len(covered)) + head + covered


def _crc(covered: bytes) -> int:
    """Slow in Python: large batches are summed by the library, whose sum a test compares."""
    if len(covered) < 4096:
        return crc32c(covered)
    import google_crc32c

    return int(google_crc32c.value(covered))


@dataclass
class MetadataLog:
    """A log in the making, in one segment; `save` writes it as a node's folder."""

    offset: int = 0
    epoch: int = 1
    batches: list[bytes] = field(default_factory=list)
    snapshots: dict[str, bytes] = field(default_factory=dict)
    begins: int = 0

    def add(self, *records: Written, controls: bool = False, at_ms: int | None = None) -> int:
        """Append a batch; returns its first offset."""
        first = self.offset
        at = T0 + 1000 * first if at_ms is None else at_ms
        self.batches.append(batch(first, self.epoch, records, at_ms=at, controls=controls))
        self.offset += len(records)
        return first

    def snapshot(self, *records: Written, more: Iterable[Written] = ()) -> None:
        """Write a snapshot at the log's end, with the state in *records*."""
        stamp = struct.pack(">hq", 0, T0 + 1000 * self.offset) + b"\0"
        begun = batch(0, 0, [control(SNAPSHOT_HEADER, stamp), *more], controls=True)
        number = 1 + len(list(more))
        kept = batch(number, 0, records) if records else b""
        footer = control(SNAPSHOT_FOOTER, struct.pack(">h", 0) + b"\0")
        end = batch(number + len(records), 0, [footer], controls=True)
        self.snapshots[f"{self.offset:020}-{self.epoch:010}.checkpoint"] = begun + kept + end

    def cut_start(self) -> None:
        """Forget the batches so far, as when their segments are deleted."""
        self.begins, self.batches = self.offset, []

    def fork(self) -> MetadataLog:
        """A copy that goes on by itself."""
        return MetadataLog(
            self.offset, self.epoch, list(self.batches), dict(self.snapshots), self.begins
        )

    def save(self, folder: Path, node: int, *, cluster: str = CLUSTER, epoch: int = 1) -> Path:
        """Write the folder of *node*; returns the folder of the log."""
        log = folder / "__cluster_metadata-0"
        log.mkdir(parents=True, exist_ok=True)
        (log / f"{self.begins:020}.log").write_bytes(b"".join(self.batches))
        for name, content in self.snapshots.items():
            (log / name).write_bytes(content)
        state = {
            "clusterId": "",
            "leaderEpoch": epoch,
            "leaderId": -1,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": 101}, {"voterId": 102}],
            "data_version": 0,
        }
        (log / "quorum-state").write_text(json.dumps(state))
        lines = f"version=1\ncluster.id={cluster}\nnode.id={node}\ndirectory.id={node:022}\n"
        (folder / "meta.properties").write_text(lines)
        return log


def topic(name: str, topic_id: UUID, *assignments: Sequence[int]) -> list[Written]:
    """The records of a new topic."""
    made = [record("TopicRecord", name=name, topic_id=topic_id)]
    return made + [partition(topic_id, number, one) for number, one in enumerate(assignments)]


def partition(topic_id: UUID, number: int, replicas: Sequence[int], **fields: Any) -> Written:
    """A PartitionRecord of version 2."""
    given = {
        "partition_id": number,
        "topic_id": topic_id,
        "replicas": list(replicas),
        "isr": list(replicas),
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": replicas[0],
        "leader_recovery_state": 0,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [UUID(int=one) for one in replicas],
    }
    return record("PartitionRecord", 2, **{**given, **fields})


def broker(number: int, *log_dirs: int) -> Written:
    """The registration of a broker whose log directories have these ids; without any, its own."""
    return record(
        "RegisterBrokerRecord",
        3,
        broker_id=number,
        incarnation_id=UUID(int=number),
        broker_epoch=number,
        end_points=[],
        features=[],
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=[UUID(int=one) for one in log_dirs or (number,)],
    )


def noop() -> Written:
    """What a controller writes twice a second when there is nothing to write."""
    return record("NoOpRecord")
