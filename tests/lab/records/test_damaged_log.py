"""Damage on a real broker's disk: exactly the damaged batch is missing, and told as such."""

import struct
from collections.abc import Callable
from itertools import pairwise

from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.source import Extent, Reading, RecordEntry, UnreadableRange
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.lab.conftest import FreshCluster
from tests.lab.recover.session import reading

TOPIC = TopicPartition("worn", 0)
RECORDS, PER_BATCH = 200, 10
DAMAGED = 7
"""Number of the batch: one that an index entry does not point to."""
LENGTH_AT, MAGIC_AT, LAST_DELTA_AT, PAYLOAD_AT = 8, 16, 23, 100

Damage = Callable[[bytes], bytes]


def put(at: int, content: bytes) -> Damage:
    """Overwrite a batch at that byte."""
    return lambda batch: batch[:at] + content + batch[at + len(content) :]


DAMAGES: dict[str, Damage] = {
    "payload": put(PAYLOAD_AT, b"\x00\xff\x00"),
    "magic of another format": put(MAGIC_AT, b"\x01"),
    "magic that is none": put(MAGIC_AT, b"\x09"),
    "length too small": put(LENGTH_AT, struct.pack(">i", 10)),
    "length negative": put(LENGTH_AT, struct.pack(">i", -5)),
    "length too large": put(LENGTH_AT, struct.pack(">i", 3_000)),
    "length of a gigabyte": put(LENGTH_AT, struct.pack(">i", 2**30)),
    "base offset far ahead": put(0, struct.pack(">q", 10**12)),
    "base offset far behind": put(0, struct.pack(">q", 3)),
    "last offset far ahead": put(LAST_DELTA_AT, struct.pack(">i", 2**30)),
    "zeros": lambda batch: bytes(len(batch)),
}


def test_whatever_is_damaged_in_a_batch_all_others_are_read(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(brokers=1)
    create_topic(cluster, TOPIC.topic, [(1,)])
    shape = Pattern(per_batch=PER_BATCH, value_bytes=200)
    produce(cluster, TOPIC.topic, TOPIC.partition, RECORDS, pattern=shape)
    folder = cluster.broker(1).partition_folder(TOPIC.topic, TOPIC.partition)
    assert folder is not None
    (segment,) = folder.glob("*.log")
    # Where each batch of a segment begins and ends.
    data = segment.read_bytes()
    places = [0]
    while places[-1] < len(data):
        (length,) = struct.unpack_from(">i", data, places[-1] + LENGTH_AT)
        places.append(places[-1] + LENGTH_AT + 4 + length)
    start, end = list(pairwise(places))[DAMAGED]
    whole = segment.read_bytes()[start:end]
    first, last = DAMAGED * PER_BATCH, (DAMAGED + 1) * PER_BATCH
    with reading(cluster) as client:
        client.describe(Deadline.after(10.0))
        source = ReplicaSource(client.sender, 1, TOPIC, Extent(0, RECORDS), gapless=True)

        def told(chunk_bytes: int) -> tuple[set[int], list[tuple[int, int]]]:
            items = list(source.read(0, RECORDS, Reading(chunk_bytes=chunk_bytes)))
            damage = [(item.start, item.end) for item in items if isinstance(item, UnreadableRange)]
            return {item.offset for item in items if isinstance(item, RecordEntry)}, damage

        every = set(range(RECORDS))
        for name, damage in DAMAGES.items():
            with segment.open("r+b") as file:
                file.seek(start)
                file.write(damage(whole))
            for chunk_bytes in (3_000, 256 * 1024):
                spared = every - set(range(first, last))
                assert told(chunk_bytes) == (spared, [(first, last)]), (name, chunk_bytes)
        with segment.open("r+b") as file:
            file.seek(start)
            file.write(whole)
        assert told(256 * 1024) == (every, [])
