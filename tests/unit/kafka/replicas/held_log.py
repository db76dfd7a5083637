"""One replica's log on a fake broker, served as brokers serve it: whole batches, the last one cut.

Follows LocalLog.read and FileRecords.slice of Kafka 4.3.1: a fetch begins with the batch that holds
its offset and is cut at the size asked for, but a first batch always comes whole.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import read_headers
from tests.kit.fake_broker import FakeBroker, Reply
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run

OUT_OF_RANGE = 1

Mishap = Callable[[], Reply]
"""Answers one fetch in place of the log."""


def tens(start: int, end: int, epoch: int = 5) -> list[bytes]:
    """Batches of ten records each."""
    return [batch(run(first, first + 10), epoch=epoch) for first in range(start, end, 10)]


class HeldLog:
    """A log of *batches*; it ends behind the last of them unless *end* says further on."""

    def __init__(
        self,
        partition: TopicPartition,
        batches: Sequence[bytes],
        *,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        self.partition = partition
        self.batches = list(batches)
        self.start = start
        self._end = end
        self.mishaps: list[Mishap] = []
        """For the next fetches, one each; they go on with the log."""

    def serve(self, broker: FakeBroker) -> None:
        """Let *broker* hold it, and nothing else."""
        serve_logs(broker, [self])

    @property
    def end(self) -> int:
        if self._end is not None:
            return self._end
        return read_headers(self.batches[-1], "end").headers[0].next_offset if self.batches else 0

    def fetch(self, request: Any) -> Reply:
        if self.mishaps:
            return self.mishaps.pop(0)()
        asked = request.topics[0].partitions[0]
        if not self.start <= asked.fetch_offset <= self.end:
            return self.answer(OUT_OF_RANGE)
        return self.answer(0, self._slice(asked.fetch_offset, asked.partition_max_bytes))

    def _slice(self, offset: int, size: int) -> bytes:
        held = [
            batch
            for batch in self.batches
            if read_headers(batch, "").headers[0].last_offset >= offset
        ]
        return b"".join(held)[: max(size, len(held[0]))] if held else b""

    def answer(self, error: int, records: bytes = b"", *, throttle_ms: int = 0) -> Any:
        topic = FetchResponse.FetchableTopicResponse
        told = topic.PartitionData(
            partition_index=self.partition.partition,
            error_code=error,
            high_watermark=self.end,
            log_start_offset=self.start,
            records=records,
        )
        return FetchResponse(
            throttle_time_ms=throttle_ms,
            responses=[topic(topic=self.partition.topic, partitions=[told])],
        )

    def offsets(self, _request: Any) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        told = topic.ListOffsetsPartitionResponse(
            partition_index=self.partition.partition, error_code=0, offset=self.end, leader_epoch=9
        )
        return ListOffsetsResponse(topics=[topic(name=self.partition.topic, partitions=[told])])


def serve_logs(broker: FakeBroker, logs: Sequence[HeldLog]) -> None:
    """Let *broker* hold *logs* and nothing else; requests name one partition each."""
    held = {log.partition: log for log in logs}

    def fetch(request: Any) -> Reply:
        topic = request.topics[0]
        return held[TopicPartition(topic.topic, topic.partitions[0].partition)].fetch(request)

    def offsets(request: Any) -> Reply:
        topic = request.topics[0]
        return held[TopicPartition(topic.name, topic.partitions[0].partition_index)].offsets(
            request
        )

    broker.serve(FetchRequest, fetch)
    broker.serve(ListOffsetsRequest, offsets)
