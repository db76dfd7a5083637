"""A partition's batches as fake brokers hand them out."""

from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchResponse

from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.record_batches import MAGIC, MAGIC_AT
from tests.kit.fake_metadata import TOPIC_ID
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run

ORDERS = TopicPartition("orders", 3)
Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData
Asked = tuple[int, int, int]
"""Offset, last fetched epoch, and bytes that a Fetch asks for."""


class FakeLog:
    """The batches of a partition as brokers hand them out; requests are noted."""

    def __init__(self, *batches: bytes) -> None:
        self.batches = list(batches)
        self.asked: list[Asked] = []
        self.first: list[dict[str, Any]] = []
        """Answered in place of batches to the next requests, in order."""
        self.stable = 2**40
        self.aborted: list[tuple[int, int]] = []

    def answer(self, request: Any) -> Any:
        (topic,) = request.topics
        (wanted,) = topic.partitions
        self.asked.append(
            (wanted.fetch_offset, wanted.last_fetched_epoch, wanted.partition_max_bytes)
        )
        fields = self.first.pop(0) if self.first else self._batches(wanted)
        throttle = fields.pop("throttle_time_ms", 0)
        partition = Partition(partition_index=3, high_watermark=9, **fields)
        told = Topic(topic=topic.topic, topic_id=topic.topic_id, partitions=[partition])
        return FetchResponse(throttle_time_ms=throttle, responses=[told])

    def _batches(self, wanted: Any) -> dict[str, Any]:
        """As a broker: from the batch that has the offset, cut off where the size ends."""
        held = [batch for batch in self.batches if _last(batch) >= wanted.fetch_offset]
        made = Partition.AbortedTransaction
        return {
            "last_stable_offset": self.stable,
            "records": b"".join(held)[: wanted.partition_max_bytes],
            "aborted_transactions": [
                made(producer_id=producer, first_offset=first) for first, producer in self.aborted
            ],
        }


def _last(data: bytes) -> int:
    base = int.from_bytes(data[:8])
    return base + int.from_bytes(data[23:27]) if data[MAGIC_AT] == MAGIC else base


TENS = tuple(batch(run(first, first + 10), epoch=5) for first in range(0, 50, 10))
TEN = len(TENS[1])


def led_by(leader: int | None, topic_id: UUID = TOPIC_ID) -> PartitionState:
    return PartitionState(ORDERS, topic_id, leader, 5, (1, 2), (1, 2), (), (), ())
