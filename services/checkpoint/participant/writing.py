"""How outputs and offsets get into the cluster: in one transaction, or one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from breakglass.services.checkpoint.participant.application import Output
from breakglass.services.checkpoint.participant.clients import SECONDS
from breakglass.services.checkpoint.participant.positions import InputPosition
from breakglass.services.errors import ClusterError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka import TopicPartition as Offset

Stamps = list[tuple[str, bytes]]


class Writer(Protocol):
    """Takes the outputs of a batch. Raises KafkaException, or ClusterError for a lost output."""

    def write(self, output: Output, stamps: Stamps) -> None:
        """Take one output."""

    def commit(self, positions: Iterable[InputPosition]) -> None:
        """Return when everything that was written is durable, and the offsets of the inputs."""


class AtLeastOnce:
    """Outputs first, offsets behind them."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._outputs, self._consumer = Outputs(producer), consumer

    def write(self, output: Output, stamps: Stamps) -> None:
        self._outputs.send(output, stamps)

    def commit(self, positions: Iterable[InputPosition]) -> None:
        self._outputs.flush()
        commit_offsets(self._consumer, positions)


class ExactlyOnce:
    """Both in one transaction, which fences the member that had the partitions before."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._producer, self._consumer = producer, consumer
        self._outputs = Outputs(producer)
        self._open = False
        producer.init_transactions(SECONDS)

    def write(self, output: Output, stamps: Stamps) -> None:
        self._begin()
        self._outputs.send(output, stamps)

    def commit(self, positions: Iterable[InputPosition]) -> None:
        self._begin()
        self._outputs.flush()
        member = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(_offsets(positions), member, SECONDS)
        self._producer.commit_transaction(SECONDS)
        self._open = False

    def _begin(self) -> None:
        if not self._open:
            self._producer.begin_transaction()
            self._open = True


class Outputs:
    """Sends records, and keeps what became of them."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._failure: KafkaError | None = None

    def send(self, output: Output, stamps: Stamps) -> None:
        """Send one; waits where the producer has no room."""
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
        """Return when all that was sent is there.

        Raises:
            ClusterError: one of them is not.
        """
        left = self._producer.flush(SECONDS)
        if self._failure is not None or left:
            why = "no answer" if self._failure is None else self._failure.str()
            raise ClusterError(f"outputs were not written ({why}): they are written again")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failure = error


def commit_offsets(consumer: Consumer, positions: Iterable[InputPosition]) -> None:
    """Commit where *consumer*'s group is, with the checkpoint that each partition has come to."""
    offsets = _offsets(positions)
    if offsets:
        consumer.commit(offsets=offsets, asynchronous=False)


def _offsets(positions: Iterable[InputPosition]) -> list[Offset]:
    from confluent_kafka import TopicPartition

    return [
        TopicPartition(
            one.partition.topic, one.partition.partition, one.next_offset, metadata=one.metadata
        )
        for one in positions
    ]
