"""Batches read from live brokers hold what an independent client reads, and name a changed log."""

from collections.abc import Iterator

import pytest

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.pipeline.batches import reader as reader_module
from breakglass.services.pipeline.batches.reader import BatchReader, chunks_of
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.part_writer import RecordChunk, exact_chunks
from breakglass.services.record_batches import Compression
from tests.kit.clusters import access_to
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.backup.producing import FOR_EVER, Values, committed_bytes, producer, put, shapes

SECONDS = DEADLINE_SECONDS
FIVE_BATCHES = 10_000
"""Bytes of a fetch, while the batches of these tests are of 2,000 or more."""


@pytest.fixture
def client(three_brokers: Cluster) -> Iterator[ReadClient]:
    with access_to(three_brokers).reading() as made:
        yield made


def reader(client: ReadClient, topic: str, chunk_bytes: int = FIVE_BATCHES) -> BatchReader:
    """Reads the only partition of *topic* as it is now."""
    client.describe(Deadline.after(SECONDS))
    (state,) = client.partitions((topic,), Deadline.after(SECONDS))
    assert state.leader is not None
    leader = state.leader, state.leader_epoch
    return BatchReader(client, state.partition, state.topic_id, *leader, chunk_bytes)


def chunks(one: BatchReader, end: int) -> Iterator[RecordChunk]:
    """What comes of the log before *end*."""
    for fetched in one.fetches(0, end):
        yield from chunks_of(fetched, 0, end)


def content(found: Iterator[RecordChunk]) -> bytes:
    return b"".join(bytes(chunk.data) for chunk in found)


def make(cluster: Cluster, topic: str, *replicas: int, **settings: str) -> None:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    create_topic(cluster, topic, [list(replicas or (1,))], {**FOR_EVER, **named})


def fill(cluster: Cluster, topic: str, values: Iterator[Values], **settings: object) -> None:
    client = producer(cluster, batch_size=2000, linger_ms=5, **settings)
    put(client, topic, values)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_every_shape_of_record_in_every_codec_is_as_an_independent_client_reads_it(
    three_brokers: Cluster,
    client: ReadClient,
    topic: str,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("left to the decoder of single records")

    monkeypatch.setattr(reader_module, "exactly", never)
    make(three_brokers, topic, message_timestamp_type=kind)
    for codec in Compression:
        fill(three_brokers, topic, shapes(), compression_type=codec.name.lower())
    end = 112 * len(Compression)
    whole = committed_bytes(three_brokers, topic)
    assert content(chunks(reader(client, topic), end)) == whole
    assert content(chunks(reader(client, topic, 2**22), end)) == whole


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_what_a_broker_has_compressed_anew_is_read_by_both_decoders(
    three_brokers: Cluster, client: ReadClient, topic: str, codec: Compression
) -> None:
    """By Java's codecs, whose framing differs from librdkafka's."""
    make(three_brokers, topic, compression_type=codec.name.lower())
    fill(three_brokers, topic, shapes())
    whole = committed_bytes(three_brokers, topic)
    one = reader(client, topic)
    assert content(chunks(one, 112)) == whole
    log = CommittedLog(client.sender, one.leader, one.partition)
    assert content(exact_chunks(log, 0, 112)) == whole
