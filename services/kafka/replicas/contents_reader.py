"""Verifies the contents of many replicas on one broker: raw batches by Fetch with replica id -3.

A broker gives batches as they lie on its disk, and looks at their headers to find an offset. So
damage shows as a batch that is not whole, as an error (CORRUPT_MESSAGE, INVALID_RECORD,
UNKNOWN_SERVER_ERROR), as an answer without records, or as a batch that the answer leaves out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.replicas.contents_block import LogReading, LogToRead
from breakglass.services.kafka.replicas.epoch_ends import FUTURE_REPLICA, NO_SESSION
from breakglass.services.kafka.replicas.list_offsets import LATEST, ListedOffset, list_offsets
from breakglass.services.kafka.replicas.reading_allowance import Allowance
from breakglass.services.kafka.wire.broker_errors import (
    AUTHORIZATION_CODES,
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_SERVER_ERROR,
    denied,
    describe_error,
    unread,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.grouping import by_topic
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import LogContents, TopicPartition, Unknown

FETCH_VERSION = 11
"""The last version without tagged fields, for each of which kafka-python copies the rest."""
ANSWER_BYTES = 8 * 1024 * 1024
PARTITIONS_A_REQUEST = 200
LANE = "contents"
"""A connection of its own: other requests to the broker do not wait for these answers."""

_UNSERVABLE = (CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR)


class ContentsReader:
    """Reads logs of one broker as far as an allowance permits."""

    def __init__(
        self,
        sender: Sender,
        broker: int,
        allowance: Allowance,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._sender, self._broker, self._allowance, self._stop = sender, broker, allowance, stop
        self._refused: dict[TopicPartition, Unknown] = {}
        self._suspect: list[LogReading] = []

    def read(
        self, logs: Sequence[LogToRead], share: int, deadline: Deadline
    ) -> dict[TopicPartition, LogContents | Unknown]:
        """The contents of *logs*, *share* bytes of each. Never raises a broker's error."""
        readings = {log.partition: LogReading(log, share) for log in logs}
        try:
            self._rounds(deque(readings.values()), deadline)
            self._require_unchanged(deadline)
        except BreakglassError as error:
            self._give_up(readings.values(), str(unread(error).reason))
        return {name: self._told(one) for name, one in readings.items()}

    def _rounds(self, left: deque[LogReading], deadline: Deadline) -> None:
        while left:
            why = self._why_to_end(deadline)
            if why:
                self._give_up(left, why)
                return
            together = list(_together(left))
            answers = self._fetch(together, deadline)
            if not answers:
                self._give_up([*together, *left], f"b{self._broker} throttles this user")
                return
            for reading in together:
                self._take(reading, answers.get(reading.log.partition))
            left.extend([reading for reading in together if not reading.done])

    def _why_to_end(self, deadline: Deadline) -> str:
        if self._stop():
            return "the reading was stopped"
        if self._allowance.spent or deadline.passed:
            return "the budget of the reading ended"
        return ""

    def _give_up(self, readings: Any, why: str) -> None:
        for reading in readings:
            if not reading.done:
                reading.stop(why)

    def _fetch(
        self, readings: Sequence[LogReading], deadline: Deadline
    ) -> Mapping[TopicPartition, Any]:
        """The broker's answer by partition; empty while the broker throttles this user."""
        from breakglass.services.kafka.wire.messages.reading import FetchResponse

        answer = self._sender.call(
            self._broker,
            _request(readings),
            FetchResponse,
            deadline.sooner(patience.CHUNK),
            lane=LANE,
            max_version=FETCH_VERSION,
        )
        return {
            TopicPartition(topic.topic, partition.partition_index): partition
            for topic in answer.responses
            for partition in topic.partitions
        }

    def _take(self, reading: LogReading, answer: Any) -> None:
        if answer is None:
            reading.stop(f"b{self._broker} left it out of its answer")
            return
        data = bytes(answer.records or b"")
        self._allowance.spend(len(data))
        if answer.error_code:
            self._take_error(reading, answer.error_code)
        elif not data:
            # Handle an answer without records before the log's end: others may have used its bytes.
            if not reading.alone:
                reading.alone = True
            elif reading.log.expected.gapless or reading.reached.cut:
                self._corrupt(reading, f"b{self._broker} sends no records from there on")
            else:
                # Compaction may have removed every record up to the end of the log.
                reading.stop(
                    f"b{self._broker} sends no records from offset {reading.position:,} on"
                )
        else:
            alone, before = reading.alone, reading.corrupt_at
            reading.take(data)
            if reading.corrupt_at != before:
                self._suspect.append(reading)
            elif reading.alone and alone:
                self._corrupt(reading, "its batch is never sent whole")

    def _take_error(self, reading: LogReading, code: int) -> None:
        if code in _UNSERVABLE:
            if reading.alone:
                self._corrupt(reading, f"b{self._broker} answers {describe_error(code)}")
            reading.alone = True
            return
        if code in AUTHORIZATION_CODES:
            self._refused[reading.log.partition] = denied(
                f"READ on topic {reading.log.partition.topic}"
            )
        if code == OFFSET_OUT_OF_RANGE:
            reading.stop("its log changed while it was read")
        else:
            reading.stop(f"b{self._broker} answers {describe_error(code)}")

    def _corrupt(self, reading: LogReading, damage: str) -> None:
        reading.alone = False
        reading.corrupt(reading.position, damage)
        self._suspect.append(reading)

    def _require_unchanged(self, deadline: Deadline) -> None:
        """Discard the findings of logs that were truncated or written while they were read."""
        names = list(dict.fromkeys(reading.log.partition for reading in self._suspect))
        if not names:
            return
        last = Deadline.after(patience.LAST_LOOK)
        limit = max(deadline, last, key=Deadline.remaining)
        ends = list_offsets(self._sender, self._broker, names, LATEST, limit)
        for reading in self._suspect:
            end = ends.get(reading.log.partition)
            if isinstance(end, ListedOffset) and end.offset != reading.log.end:
                self._refused[reading.log.partition] = Unknown("its log changed while it was read")

    def _told(self, reading: LogReading) -> LogContents | Unknown:
        refused = self._refused.get(reading.log.partition)
        if refused is not None:
            return refused
        return reading.contents or Unknown(f"its contents were not read: {reading.stopped}")


def _together(left: deque[LogReading]) -> Iterator[LogReading]:
    """The next logs for one request, taken from *left*; a single log if it must be alone."""
    room, first = ANSWER_BYTES, True
    for _ in range(min(len(left), PARTITIONS_A_REQUEST)):
        following = left[0]
        if not first and (following.alone or following.wanted_bytes > room):
            return
        yield left.popleft()
        if following.alone:
            return
        room, first = room - following.wanted_bytes, False


def _request(readings: Sequence[LogReading]) -> Any:
    from breakglass.services.kafka.wire.messages.reading import FetchRequest

    topic_class = FetchRequest.FetchTopic
    asked = {reading.log.partition: reading for reading in readings}

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(
            topic=name,
            partitions=[
                topic_class.FetchPartition(
                    partition=partition.partition,
                    fetch_offset=asked[partition].position,
                    partition_max_bytes=asked[partition].wanted_bytes,
                )
                for partition in held
            ],
        )

    return FetchRequest(
        replica_id=FUTURE_REPLICA,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=ANSWER_BYTES,
        session_epoch=NO_SESSION,
        topics=by_topic(asked, topic),
    )
