"""End offsets of leader epochs from any replica, without moving records.

Fetch v12 with replica id -3 (a future local replica) and a last fetched epoch makes a
broker compare its replica's epoch cache and answer DivergingEpoch (KIP-595,
Partition.readRecords); a fetch offset past every log makes it always diverge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from breakglass.services.kafka.replicas.epoch_walk import EpochEnd
from breakglass.services.kafka.wire.broker_errors import (
    AUTHORIZATION_CODES,
    KAFKA_STORAGE_ERROR,
    OFFSET_OUT_OF_RANGE,
    denied,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.grouping import by_topic
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition, Unknown

FUTURE_REPLICA = -3
PAST_EVERY_LOG = 2**63 - 1
NO_SESSION = -1
FETCH_VERSION = 12
"""The last version that names topics instead of their ids, and the first with epochs."""
PARTITIONS_A_REQUEST = 1000
"""kafka-python copies all that follows in an answer for each tagged field it decodes, and there
is one for each partition: larger answers take more than proportionally longer."""


class EpochAnswer(NamedTuple):
    """One partition's answer."""

    epoch_end: EpochEnd | None
    """None: the question was above the replica's latest epoch; nothing else is told then."""
    high_watermark: int
    log_start: int


def read_epoch_ends(
    sender: Sender, broker: int, questions: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, EpochAnswer | Unknown]:
    """Ask *broker* for the end of one epoch of each partition.

    Partitions missing from the result were left out of the answer: ask again.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
    """
    left = iter(questions.items())
    answers: dict[TopicPartition, EpochAnswer | Unknown] = {}
    while some := dict(islice(left, PARTITIONS_A_REQUEST)):
        answers.update(_ask(sender, broker, some, deadline))
    return answers


def _ask(
    sender: Sender, broker: int, questions: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, EpochAnswer | Unknown]:
    from breakglass.services.kafka.wire.messages.reading import FetchResponse

    answer = sender.call(
        broker, _request(questions), FetchResponse, deadline, max_version=FETCH_VERSION
    )
    if answer.error_code:
        refused = Unknown(f"b{broker} answers {describe_error(answer.error_code)}")
        return dict.fromkeys(questions, refused)
    return dict(_answers(answer, broker))


def _request(questions: Mapping[TopicPartition, int]) -> Any:
    from breakglass.services.kafka.wire.messages.reading import FetchRequest

    topic_class = FetchRequest.FetchTopic
    partition_class = topic_class.FetchPartition

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(
            topic=name,
            partitions=[
                partition_class(
                    partition=one.partition,
                    fetch_offset=PAST_EVERY_LOG,
                    last_fetched_epoch=questions[one],
                    partition_max_bytes=1,
                )
                for one in held
            ],
        )

    return FetchRequest(
        replica_id=FUTURE_REPLICA,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        session_epoch=NO_SESSION,
        topics=by_topic(questions, topic),
    )


def _answers(answer: Any, broker: int) -> Iterator[tuple[TopicPartition, EpochAnswer | Unknown]]:
    for topic in answer.responses:
        for one in topic.partitions:
            yield TopicPartition(topic.topic, one.partition_index), _one(topic.topic, broker, one)


def _one(topic: str, broker: int, answer: Any) -> EpochAnswer | Unknown:
    code = answer.error_code
    if code == OFFSET_OUT_OF_RANGE:
        return EpochAnswer(None, answer.high_watermark, answer.log_start_offset)
    if code in AUTHORIZATION_CODES:
        return denied(f"READ on topic {topic}")
    if code == KAFKA_STORAGE_ERROR:
        return Unknown(f"log directory offline on b{broker}")
    if code:
        return Unknown(f"b{broker} answers {describe_error(code)}")
    diverging = answer.diverging_epoch
    if diverging is None or diverging.end_offset < 0:
        return Unknown(f"b{broker} does not tell where its epochs end")
    return EpochAnswer(
        EpochEnd(diverging.epoch, diverging.end_offset),
        answer.high_watermark,
        answer.log_start_offset,
    )
