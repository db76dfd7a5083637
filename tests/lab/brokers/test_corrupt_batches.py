"""What a broker answers to a Fetch by a future replica where a batch on its disk is damaged.

It gives batches as they lie on disk and looks at headers alone to find an offset. Damage to the
records, the CRC, the epoch or the attributes it does not notice; damage to length, magic or
offsets it answers with an error, with nothing, or by leaving the batch out.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from breakglass.services.kafka.replicas.contents_reader import FETCH_VERSION
from breakglass.services.kafka.replicas.epoch_ends import FUTURE_REPLICA, NO_SESSION
from breakglass.services.kafka.wire.broker_errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    UNKNOWN_SERVER_ERROR,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.lab.conftest import FreshCluster
from tests.lab.recover.corrupt.damages import HEADER_FIELDS, batches, damage_batch, flipped
from tests.lab.recover.session import reading

WORN = TopicPartition("worn", 0)
CORRUPT, END = 40, 120
NOTHING = None


class Answer(NamedTuple):
    """To a Fetch from one offset."""

    code: int
    first: int | None
    """Base offset of the first batch that comes; None: none does."""


FACTS: dict[str, tuple[Answer, Answer]] = {
    "records": (Answer(0, 40), Answer(0, 50)),
    "crc": (Answer(0, 40), Answer(0, 50)),
    "leader-epoch": (Answer(0, 40), Answer(0, 50)),
    "attributes": (Answer(0, 40), Answer(0, 50)),
    "last-offset-delta": (Answer(0, 40), Answer(0, 50)),
    "count": (Answer(0, 40), Answer(0, 50)),
    "base-offset": (Answer(0, 41), Answer(0, 50)),
    "base-offset-far": (Answer(0, 10**12), Answer(0, 10**12)),
    "base-offset-behind": (Answer(0, 50), Answer(0, 50)),
    "length-small": (Answer(CORRUPT_MESSAGE, NOTHING), Answer(CORRUPT_MESSAGE, NOTHING)),
    "length-huge": (Answer(0, NOTHING), Answer(0, NOTHING)),
    "magic-none": (Answer(0, 40), Answer(0, 50)),
}
"""By damaged field: what is answered to who asks for 40, and for 50."""


BY_CHANCE = "magic-old"
"""In the older format the first byte of the CRC has the codec's place: any of them, or none."""
FAILED = (Answer(UNKNOWN_SERVER_ERROR, NOTHING), Answer(UNKNOWN_SERVER_ERROR, NOTHING))
INVALID = (Answer(INVALID_RECORD, NOTHING), Answer(INVALID_RECORD, NOTHING))
AS_IT_LIES = (Answer(0, 40), Answer(0, 50))


def fetch(client: Any, offset: int) -> Answer:
    from kafka.protocol.consumer import FetchRequest, FetchResponse

    topic = FetchRequest.FetchTopic
    wanted = topic.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=FUTURE_REPLICA,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=NO_SESSION,
        topics=[topic(topic=WORN.topic, partitions=[wanted])],
    )
    deadline = Deadline.after(10.0)
    answer = client.sender.call(1, request, FetchResponse, deadline, max_version=FETCH_VERSION)
    (told,) = answer.responses[0].partitions
    records = bytes(told.records or b"")
    first = struct.unpack_from(">q", records)[0] if records else None
    return Answer(told.error_code, first)


def test_what_a_broker_gives_of_a_log_with_a_damaged_batch(fresh_cluster: FreshCluster) -> None:
    cluster: Cluster = fresh_cluster(brokers=1)
    create_topic(cluster, WORN.topic, [(1,)])
    produce(cluster, WORN.topic, 0, END, pattern=Pattern(per_batch=10, value_bytes=200))
    folder = cluster.broker(1).partition_folder(WORN.topic, 0)
    assert folder is not None
    (segment,) = folder.glob("*.log")
    whole = segment.read_bytes()
    start, end = batches(whole)[CORRUPT // 10]
    damages = {"records": flipped(-5), **HEADER_FIELDS}
    with reading(cluster) as client:
        client.describe(Deadline.after(10.0))
        told = {}
        for field in (*FACTS, BY_CHANCE):
            damage_batch(folder, CORRUPT, damages[field])
            told[field] = fetch(client, CORRUPT), fetch(client, CORRUPT + 10)
            assert fetch(client, END - 10) == Answer(0, END - 10), "an index entry leads past it"
            with segment.open("r+b") as file:
                file.seek(start)
                file.write(whole[start:end])
            by_chance = told.pop(BY_CHANCE, None)
            assert by_chance in (None, FAILED, INVALID, AS_IT_LIES)
    assert told == FACTS
