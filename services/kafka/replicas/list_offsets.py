"""Sends ListOffsets: to leaders in parallel, or as a debugging client, which reads any replica.

Replica id -2 lets a broker answer for its own replica of a leaderless partition
(ReplicaManager.fetchOffset, Request.DebuggingConsumerId); -1 and -3 get error 6. Each leader has a
thread of its own, so that a hung leader delays no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    KAFKA_STORAGE_ERROR,
    NO_OFFSET,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    by_partition,
    by_topic,
    denied,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    PartitionState,
    TopicPartition,
    Unknown,
)

DEBUGGING_REPLICA = -2
LEADER_ONLY = -1

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

LATEST = -1
"""Log end offset under `DEBUGGING_REPLICA`, high watermark under `LEADER_ONLY`."""
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4


class ListedOffset(NamedTuple):
    """One partition's answer."""

    offset: int
    timestamp_ms: int
    """-1 unless a timestamp was searched for."""
    leader_epoch: int
    """For LATEST the current leader epoch; for MAX_TIMESTAMP the epoch of that batch; else -1."""


@dataclass(frozen=True, slots=True)
class OffsetError(Unknown):
    """An Unknown that keeps the broker's error code."""

    code: int = 0


def list_offsets(
    sender: Sender,
    broker: int,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    deadline: Deadline,
    *,
    replica_id: int = DEBUGGING_REPLICA,
    leader_epochs: dict[TopicPartition, int] | None = None,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, ListedOffset | OffsetError]:
    """Ask *broker* for the offset at *timestamp* of its replicas, all in one request.

    Partitions that the answer leaves out are asked for again; if still missing, an error.
    *leader_epochs* makes a leader-only question fail unless the broker leads in that epoch.
    Under `READ_COMMITTED` a leader's LATEST is the last stable offset.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
        MalformedMessage: it answered for another partition, or twice for one.
    """
    from breakglass.services.kafka.wire.messages.reading import ListOffsetsResponse

    answers: dict[TopicPartition, ListedOffset | OffsetError] = {}
    missing = list(partitions)
    while missing:
        before = len(missing)
        request = _request(missing, timestamp, replica_id, leader_epochs or {}, isolation_level)
        answer = sender.call(broker, request, ListOffsetsResponse, deadline, max_version=9)
        # Where nothing has the timestamp that is searched for, the answer is -1.
        least = 0 if timestamp in (LATEST, EARLIEST) else -1
        told = (
            (
                TopicPartition(topic.name, partition.partition_index),
                _offset(topic.name, broker, partition, least),
            )
            for topic in answer.topics
            for partition in topic.partitions
        )
        answers.update(by_partition(told, missing, broker))
        missing = [partition for partition in missing if partition not in answers]
        if len(missing) == before:
            absent = OffsetError(f"b{broker} leaves this partition out of its answers")
            answers.update(dict.fromkeys(missing, absent))
            break
    return answers


def _request(
    partitions: list[TopicPartition],
    timestamp: int,
    replica_id: int,
    leader_epochs: dict[TopicPartition, int],
    isolation_level: int,
) -> Any:
    from breakglass.services.kafka.wire.messages.reading import ListOffsetsRequest

    topic_class = ListOffsetsRequest.ListOffsetsTopic
    partition_class = topic_class.ListOffsetsPartition

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(
            name=name,
            partitions=[
                partition_class(
                    partition_index=partition.partition,
                    current_leader_epoch=leader_epochs.get(partition, -1),
                    timestamp=timestamp,
                )
                for partition in held
            ],
        )

    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=by_topic(partitions, topic),
        timeout_ms=0,
    )


def _offset(topic: str, broker: int, answer: Any, least: int) -> ListedOffset | OffsetError:
    if answer.error_code == 0:
        if not least <= answer.offset < NO_OFFSET or answer.leader_epoch < -1:
            return OffsetError(
                f"b{broker} claims offset {answer.offset} in leader epoch {answer.leader_epoch}, "
                "which cannot be"
            )
        return ListedOffset(answer.offset, answer.timestamp, answer.leader_epoch)
    return OffsetError(_reason(topic, broker, answer.error_code), answer.error_code)


def _reason(topic: str, broker: int, code: int) -> str:
    if code in AUTHORIZATION_CODES:
        return f"not allowed: needs DESCRIBE on topic {topic}"
    if code == KAFKA_STORAGE_ERROR:
        return f"log directory offline on b{broker}"
    if code == OFFSET_NOT_AVAILABLE:
        return (
            f"b{broker} does not know its high watermark: too few replicas are in sync, or have "
            "not asked it yet"
        )
    return f"b{broker} answers {describe_error(code)}"


T = TypeVar("T")

NO_LEADER = Unknown("it is offline: no leader serves it")


@dataclass(frozen=True, slots=True)
class Unanswered(Unknown):
    """A value of a broker that did not answer, with the error that says why."""

    error: BreakglassError


def by_leader(states: Iterable[PartitionState]) -> dict[int, list[TopicPartition]]:
    """The partitions of *states* by the broker that leads them; offline partitions are left out."""
    led: dict[int, list[TopicPartition]] = {}
    for state in states:
        if state.leader is not None:
            led.setdefault(state.leader, []).append(state.partition)
    return led


def ask_brokers(
    asked: Mapping[int, Collection[TopicPartition]],
    ask: Callable[[int, Collection[TopicPartition]], Mapping[TopicPartition, T]],
) -> dict[TopicPartition, T | Unanswered]:
    """Call *ask* for each broker and its partitions, in one thread for each broker.

    No broker waits for another one, so each may use all the time that the caller allows.
    An error of one broker becomes the value of that broker's partitions.
    """

    def answers(broker: int) -> Mapping[TopicPartition, T | Unanswered]:
        try:
            return ask(broker, asked[broker])
        except BreakglassError as error:
            return dict.fromkeys(asked[broker], Unanswered(str(error), error))

    if not asked:
        return {}
    with ThreadPoolExecutor(len(asked), "brokers") as threads:
        return {
            partition: answer
            for found in threads.map(answers, asked)
            for partition, answer in found.items()
        }


def read_leader_ends(
    sender: Sender,
    states: Iterable[PartitionState],
    deadline: Deadline,
    *,
    timestamp: int = LATEST,
    isolation_level: int = READ_UNCOMMITTED,
    replica_id: int = LEADER_ONLY,
) -> dict[TopicPartition, int | Unknown]:
    """The offset at *timestamp* of each partition, as its leader says; by default the log's end.

    The end is the high watermark, or the last stable offset under `READ_COMMITTED`; of a
    `DEBUGGING_REPLICA` it is the log end offset.
    A partition is Unknown if it is offline, if its leader refuses (`OffsetError`), or if its
    leader does not answer before *deadline* (`Unanswered`).
    """
    states = list(states)

    def ask(
        leader: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | Unknown]:
        answers = list_offsets(
            sender,
            leader,
            partitions,
            timestamp,
            deadline,
            replica_id=replica_id,
            isolation_level=isolation_level,
        )
        return {partition: offset_of(answer) for partition, answer in answers.items()}

    ends: dict[TopicPartition, int | Unknown] = {state.partition: NO_LEADER for state in states}
    ends.update(ask_brokers(by_leader(states), ask))
    return ends


def offset_of(answer: ListedOffset | Unknown) -> int | Unknown:
    """The offset of *answer*, or why it is not known."""
    return answer.offset if isinstance(answer, ListedOffset) else answer


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
        answers.update(_ask_epoch_ends(sender, broker, some, deadline))
    return answers


def _ask_epoch_ends(
    sender: Sender, broker: int, questions: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, EpochAnswer | Unknown]:
    from breakglass.services.kafka.wire.messages.reading import FetchRequest, FetchResponse

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

    answer = sender.call(
        broker,
        FetchRequest(
            replica_id=FUTURE_REPLICA,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            session_epoch=NO_SESSION,
            topics=by_topic(questions, topic),
        ),
        FetchResponse,
        deadline,
        max_version=FETCH_VERSION,
    )
    if answer.error_code:
        refused = Unknown(f"b{broker} answers {describe_error(answer.error_code)}")
        return dict.fromkeys(questions, refused)
    return by_partition(_answers(answer, broker, questions), questions, broker)


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
