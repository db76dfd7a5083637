"""Reads the end offsets of leader epochs from any replica, without moving records.

Fetch v12 with replica id -3 (a future local replica), a last fetched epoch and an offset past every
log makes a broker answer DivergingEpoch (KIP-595, Partition.readRecords). For epoch *e* it names
its largest epoch not above *e* with its end offset, "out of range" if *e* is above its latest, or
*e* with the first epoch's start if *e* is below (LeaderEpochFileCache.endOffsetFor).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    KAFKA_STORAGE_ERROR,
    NO_OFFSET,
    OFFSET_OUT_OF_RANGE,
    by_partition,
    by_topic,
    denied,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown


class EpochEnd(NamedTuple):
    """A broker's answer: *epoch* ends at offset *end* in its replica."""

    epoch: int
    end: int


class EpochWalk:
    """The search of one replica's epochs: answer each `question` until there is none. Pure.

    *hint* is any epoch known to be in the log (that of the newest batch): a good guess
    saves the binary search. *current* bounds the search from above.
    """

    def __init__(self, log_end: int, current: int, hint: int | None) -> None:
        self._start, self._end = 0, log_end
        self._low, self._high = -1, max(current, hint or 0)
        self._found: list[EpochEnd] = []
        """Newest first; each one's end is the start of the one before."""
        self._at_bottom = log_end == 0
        first = hint if hint is not None and hint >= 0 else self._high
        self.question: int | None = first if log_end > 0 else None

    @property
    def astray(self) -> bool:
        """The walk ended without an epoch, on a log not known to be empty.

        The replica's cache is empty, as after the replica was out of its leader's range
        (UnifiedLog.truncateFullyAndStartAt), or the log changed during the walk.
        """
        return self.question is None and not self._found and not self._at_bottom

    @property
    def begun(self) -> bool:
        """An epoch was found, or the log is known to hold no record."""
        return bool(self._found) or self._at_bottom

    @property
    def depth(self) -> int:
        """How many epochs are known from end to start, including epochs without records."""
        return len(self._found) if self._at_bottom else max(0, len(self._found) - 1)

    @property
    def history(self) -> EpochHistory:
        ends = [found.end for found in self._found]
        if not ends:
            return EpochHistory((), self._start if self._at_bottom else self._end)
        floor = self._start if self._at_bottom else ends[-1]
        ranges = tuple(
            EpochRange(found.epoch, max(start, self._start), end)
            for found, end, start in zip(self._found, ends, [*ends[1:], floor], strict=True)
            if end > max(start, self._start)
        )
        return EpochHistory(ranges[::-1], max(floor, self._start))

    def answer(self, reply: EpochEnd | None, log_start: int) -> None:
        """Take the broker's answer to `question`; None means "above my latest epoch"."""
        asked = self.question
        if asked is None:
            raise ValueError("the walk is over: nothing was asked")
        self._start = max(self._start, log_start)
        if self._start >= self._end:
            self._finish()
        elif self._found:
            if reply is None or reply.end <= self._start:
                self._finish()
            else:
                self._take(reply)
        else:
            self._search(asked, reply)

    def start_at(self, log_start: int) -> None:
        """Take the log's start from another request: a walk that went astray cannot learn it."""
        self._start = max(self._start, log_start)
        if self._start >= self._end:
            self._finish()

    def _search(self, asked: int, reply: EpochEnd | None) -> None:
        if reply is None:
            self._high = asked - 1
        elif reply.end >= self._end:
            self._take(EpochEnd(reply.epoch, self._end))
            return
        else:
            self._low = asked
        # Low meets high without a find only if the log has no epochs, or changed.
        middle = (self._low + self._high + 1) // 2
        self.question = middle if self._low < self._high else None

    def _take(self, found: EpochEnd) -> None:
        self._found.append(found)
        if found.epoch <= 0:
            self._finish()
        else:
            self.question = found.epoch - 1

    def _finish(self) -> None:
        self._at_bottom = True
        self.question = None


FUTURE_REPLICA = -3
PAST_EVERY_LOG = 2**63 - 1
NO_SESSION = -1
FETCH_VERSION = 12
"""The last version that names topics instead of their ids, and the first with epochs."""
PARTITIONS_A_REQUEST = 1000
"""kafka-python copies the rest of an answer for each partition's tagged fields, so the time to
decode an answer grows faster than its size."""


class EpochAnswer(NamedTuple):
    """One partition's answer."""

    epoch_end: EpochEnd | None
    """None: the question was above the replica's latest epoch, and nothing else is known."""
    high_watermark: int
    log_start: int


def read_epoch_ends(
    sender: Sender, broker: int, questions: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, EpochAnswer | Unknown]:
    """Ask *broker* for the end of one epoch of each partition.

    Partitions missing from the result were left out of the answer: ask again.

    Raises Unreachable: the broker did not answer before *deadline*.
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
    return by_partition(_answers(answer, broker, questions), questions, broker)


def _request(questions: Mapping[TopicPartition, int]) -> Any:
    from breakglass.services.kafka.wire.messages.reading import FetchRequest

    topic_class = FetchRequest.FetchTopic
    partition_class = topic_class.FetchPartition

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(
            topic=name,
            partitions=[
                partition_class(
                    partition=partition.partition,
                    fetch_offset=PAST_EVERY_LOG,
                    last_fetched_epoch=questions[partition],
                    partition_max_bytes=1,
                )
                for partition in held
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


def _answers(
    answer: Any, broker: int, questions: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, EpochAnswer | Unknown]]:
    for topic in answer.responses:
        for told in topic.partitions:
            partition = TopicPartition(topic.topic, told.partition_index)
            yield partition, _one(topic.topic, broker, told, questions.get(partition, -1))


def _one(topic: str, broker: int, answer: Any, asked: int) -> EpochAnswer | Unknown:
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
    offsets = diverging.end_offset, answer.high_watermark, answer.log_start_offset
    # For an epoch below its first one, a broker names the epoch that was asked for.
    if not all(0 <= offset < NO_OFFSET for offset in offsets) or not -1 <= diverging.epoch <= asked:
        return Unknown(
            f"b{broker} claims that leader epoch {diverging.epoch} ends at offset "
            f"{diverging.end_offset}, with a log from {answer.log_start_offset} and a high "
            f"watermark of {answer.high_watermark}, which cannot be"
        )
    return EpochAnswer(
        EpochEnd(diverging.epoch, diverging.end_offset),
        answer.high_watermark,
        answer.log_start_offset,
    )
