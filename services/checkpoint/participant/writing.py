"""Writes outputs and offsets to the cluster: in one transaction, or outputs before offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from breakglass.services import patience
from breakglass.services.checkpoint.participant.application import Output
from breakglass.services.checkpoint.participant.positions import InputPosition
from breakglass.services.errors import ClusterError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka import TopicPartition as Offset

Stamps = list[tuple[str, bytes]]


class Writer(Protocol):
    """Writes the outputs of a batch. Raises KafkaException, or ClusterError for a lost output."""

    def write(self, output: Output, stamps: Stamps) -> None:
        """Write one output."""

    def commit(self, positions: Iterable[InputPosition]) -> None:
        """Return when all outputs and the input offsets are durable."""


class AtLeastOnce:
    """Commits the offsets after the outputs."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._outputs, self._consumer = Outputs(producer), consumer

    def write(self, output: Output, stamps: Stamps) -> None:
        self._outputs.send(output, stamps)

    def commit(self, positions: Iterable[InputPosition]) -> None:
        self._outputs.flush()
        commit_offsets(self._consumer, positions)


class ExactlyOnce:
    """Writes outputs and offsets in one transaction, which fences the partitions' former member."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._producer, self._consumer = producer, consumer
        self._outputs = Outputs(producer)
        self._open = False
        producer.init_transactions(patience.COMMAND)

    def write(self, output: Output, stamps: Stamps) -> None:
        self._begin()
        self._outputs.send(output, stamps)

    def commit(self, positions: Iterable[InputPosition]) -> None:
        self._begin()
        self._outputs.flush()
        member = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(_offsets(positions), member, patience.COMMAND)
        self._producer.commit_transaction(patience.COMMAND)
        self._open = False

    def _begin(self) -> None:
        if not self._open:
            self._producer.begin_transaction()
            self._open = True


class Outputs:
    """Sends records, and keeps their delivery results."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._failure: KafkaError | None = None

    def send(self, output: Output, stamps: Stamps) -> None:
        """Send a record; waits while the producer's queue is full."""
        arguments: dict[str, Any] = {
            "key": output.key,
            "value": output.value,
            "headers": [*output.headers, *stamps],
            "on_delivery": self._delivered,
        }
        if output.partition is not None:
            arguments["partition"] = output.partition
        while True:
            try:
                self._producer.produce(output.topic, **arguments)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def flush(self) -> None:
        """Return when all sent records are acknowledged.

        Raises:
            ClusterError: a record was not delivered.
        """
        left = self._producer.flush(patience.COMMAND)
        if self._failure is not None or left:
            why = "no answer" if self._failure is None else self._failure.str()
            raise ClusterError(f"outputs were not written ({why}): they are written again")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failure = error


def commit_offsets(consumer: Consumer, positions: Iterable[InputPosition]) -> None:
    """Commit the positions of *consumer*, with the checkpoint of each partition as metadata."""
    offsets = _offsets(positions)
    if offsets:
        consumer.commit(offsets=offsets, asynchronous=False)


def _offsets(positions: Iterable[InputPosition]) -> list[Offset]:
    from confluent_kafka import TopicPartition

    return [
        TopicPartition(
            position.partition.topic,
            position.partition.partition,
            position.next_offset,
            metadata=position.metadata,
        )
        for position in positions
    ]
