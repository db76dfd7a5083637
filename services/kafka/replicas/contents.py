"""Verifies the contents of many replicas on one broker: raw batches by Fetch with replica id -3.

A log is read in blocks from its end back to its start, and each block forward. A batch's CRC-32C
does not cover the fields before its attributes (base offset, length, leader epoch, magic): these
are checked against the neighbouring batches and the log's epochs.

A broker gives batches as they lie on its disk, and looks at their headers to find an offset. So
damage shows as a batch that is not whole, as an error (CORRUPT_MESSAGE, INVALID_RECORD,
UNKNOWN_SERVER_ERROR), as an answer without records, or as a batch that the answer leaves out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.replicas.limits import Allowance
from breakglass.services.kafka.replicas.list_offsets import (
    FUTURE_REPLICA,
    LATEST,
    NO_SESSION,
    ListedOffset,
    list_offsets,
)
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_SERVER_ERROR,
    by_topic,
    denied,
    describe_error,
    unread,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import EpochHistory, LogContents, TopicPartition, Unknown
from breakglass.services.record_batches import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    BATCH_LENGTH,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the batches of one log must agree with."""

    log_end: int
    gapless: bool
    """Every offset has a record, as in a topic that is not compacted."""
    epochs: EpochHistory | Unknown

    def epoch_at(self, offset: int) -> int | None:
        """The epoch that wrote *offset*, if that is known."""
        return None if isinstance(self.epochs, Unknown) else self.epochs.epoch_at(offset)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the batches are whole."""

    position: int
    """One past the last whole offset."""
    epoch: int = -1
    """Leader epoch of the last whole batch."""
    begun: bool = False
    """A batch was read, so the next batch must follow it."""
    before: int = 0
    """Where the last whole batch begins."""
    corrupt_at: int | None = None
    damage: str = ""
    cut: bool = False
    """The bytes end within a batch."""


def check_batches(data: bytes, reached: Reached, bound: int, expected: Expected) -> Reached:
    """Continue from *reached* through *data*, the answer to a Fetch from that position.

    Ends at the offset *bound*, or before the first batch that is not whole. A batch cut off at
    the end of *data* is `cut`, not damaged.
    """
    at, size, now = 0, len(data), reached
    while at + MAGIC_AT < size and now.position < bound:
        _, length = BATCH_LENGTH.unpack_from(data, at)
        if data[at + MAGIC_AT] != MAGIC:
            return _corrupt(now, f"it claims message format {data[at + MAGIC_AT]}")
        if LENGTH_END + length < BATCH_HEADER.size:
            return _corrupt(now, f"it claims {LENGTH_END + length} bytes")
        end = at + LENGTH_END + length
        if end > size:
            break
        now = _batch(data, at, end, now, expected)
        if now.corrupt_at is not None:
            return now
        at = end
    return Reached(now.position, now.epoch, now.begun, now.before, cut=at < size)


def _batch(data: bytes, at: int, end: int, now: Reached, expected: Expected) -> Reached:
    """*now* with one more batch, which is ``data[at:end]``."""
    import google_crc32c

    fields = BATCH_HEADER.unpack_from(data, at)
    base, epoch, crc, last_delta, count = fields[0], fields[2], fields[4], fields[6], fields[12]
    if google_crc32c.value(data[at + ATTRIBUTES_AT : end]) != crc:
        return _corrupt(now, "its CRC differs")
    if last_delta < 0 or not 0 <= count <= last_delta + 1:
        return _corrupt(now, f"it claims {count} records over {last_delta + 1} offsets")
    following = base + last_delta + 1
    misplaced = _misplaced(base, following, now, expected)
    if misplaced is not None:
        return misplaced
    written = expected.epoch_at(max(base, now.position))
    if epoch < now.epoch or (written is not None and epoch > written):
        return _corrupt(now, f"it claims leader epoch {epoch}")
    return Reached(following, epoch, True, now.position)


def _misplaced(base: int, following: int, now: Reached, expected: Expected) -> Reached | None:
    """The damage if a batch of offsets ``[base, following)`` is out of place; None if it fits."""
    claims = f"it claims the offsets {base} to {following - 1}"
    if base < now.position and now.begun and not expected.gapless:
        # In a log with gaps the previous batch's offsets may be too high: then it is damaged.
        return Reached(now.position, now.epoch, now.begun, now.before, now.before, claims)
    behind = following <= now.position or (base < now.position and now.begun)
    if behind or following > expected.log_end:
        return _corrupt(now, claims)
    if base > now.position and expected.gapless:
        return _corrupt(now, f"the batch after it claims the offset {base}")
    return None


def _corrupt(now: Reached, damage: str) -> Reached:
    return Reached(now.position, now.epoch, now.begun, now.before, now.position, damage)


RECORD_BYTES = 1024
"""Assumed size of a record if the size of the log is not known."""
SLACK = 1.25
LEAST_BYTES = 16 * 1024
"""Bytes that a request asks for at least."""
CHUNK_BYTES = 1024 * 1024
"""Bytes that a request asks for at most."""
TOO_DENSE = 2
"""A block that exceeds its planned bytes by this factor is restarted with fewer offsets."""
OVERDRAFT = 4
"""A log may exceed its share by this factor, if its records' sizes differ widely."""
BUDGET_ENDED = "the budget of the reading ended"


@dataclass(frozen=True, slots=True)
class LogToRead:
    """One replica whose contents are to be verified."""

    partition: TopicPartition
    start: int
    end: int
    """One past the last offset to read; above `start`."""
    size: int | None
    """Bytes on disk, if they are known."""
    expected: Expected


@dataclass(slots=True)
class LogReading:
    """The reading of one log under way."""

    log: LogToRead
    share: int
    """Bytes that may be read from the log."""
    bound: int = field(init=False)
    """The log is whole from this offset to the end, or to the corrupt offset."""
    begin: int = field(init=False)
    """Where the current block begins; it ends at `bound`."""
    reached: Reached = field(init=False)
    verified_to: int = field(init=False)
    corrupt_at: int | None = None
    damage: str = ""
    bytes_read: int = 0
    stopped: str = ""
    done: bool = False
    alone: bool = False
    """The next request is for this log alone: a broker sends an answer's first batch whole."""
    _in_block: int = 0
    _meant: int = 0
    _per_offset: float = field(init=False)

    def __post_init__(self) -> None:
        log = self.log
        self.bound = self.verified_to = log.end
        offsets = log.end - log.start
        self._per_offset = RECORD_BYTES if log.size is None else max(log.size / offsets, 1.0)
        self._next_block()

    @property
    def position(self) -> int:
        return self.reached.position

    @property
    def wanted_bytes(self) -> int:
        """How much to ask for from `position` on."""
        expected = (self.bound - self.position) * self._per_offset * SLACK
        return max(LEAST_BYTES, min(CHUNK_BYTES, int(expected) + 1))

    def take(self, data: bytes) -> None:
        """Account for the answer to `position`, which has some bytes."""
        self.bytes_read += len(data)
        self._in_block += len(data)
        before = self.position
        self.reached = check_batches(data, self.reached, self.bound, self.log.expected)
        self.alone = self.position == before
        if self.reached.corrupt_at is not None:
            self.corrupt(self.reached.corrupt_at, self.reached.damage)
        elif self.position >= self.bound:
            self._ended_block(self.begin)
        elif self._in_block > TOO_DENSE * self._meant:
            self._again_smaller()

    def corrupt(self, at: int, damage: str) -> None:
        """The block cannot be read from offset *at* on."""
        self.corrupt_at, self.damage = max(at, self.log.start), damage
        self.verified_to = self.corrupt_at
        self._ended_block(min(self.begin, self.corrupt_at))

    def stop(self, why: str) -> None:
        if self.bound == self.log.end and self.corrupt_at is None:
            # A part of the newest block is better than nothing.
            self.bound, self.verified_to = self.begin, self.position
        self.stopped, self.done = why, True

    @property
    def contents(self) -> LogContents | None:
        """What is known so far; None if nothing was read."""
        if self.verified_to <= self.bound and self.corrupt_at is None:
            return None
        return LogContents(
            min(self.bound, self.verified_to),
            self.verified_to,
            self.corrupt_at,
            self.damage,
            self.bytes_read,
            self.stopped,
        )

    def _ended_block(self, whole_from: int) -> None:
        offsets = max(self.position - self.begin, 1)
        if self._in_block:
            self._per_offset = max(self._in_block / offsets, 1.0)
        self.bound = whole_from
        if self.bound <= self.log.start:
            self.done = True
        else:
            self._next_block()

    def _next_block(self) -> None:
        """Begin the next block: the whole rest if it fits the share, else half the share."""
        left = self.share - self.bytes_read
        if left <= 0:
            self.stop(BUDGET_ENDED)
            return
        offsets = self.bound - self.log.start
        meant = int(offsets * self._per_offset)
        if meant > left:
            meant = max(left // 2, 1)
            offsets = min(offsets, max(int(meant / self._per_offset), 1))
        self._begin(self.bound - offsets, meant)

    def _again_smaller(self) -> None:
        """Restart the block with fewer offsets: its records are larger than the log's average."""
        if self.bytes_read > OVERDRAFT * self.share:
            self.stop(BUDGET_ENDED)
            return
        self._per_offset = self._in_block / max(self.position - self.begin, 1)
        offsets = max(int(max(self.share // 2, 1) / self._per_offset), 1)
        if self.bound - offsets > self.position:
            self._begin(self.bound - offsets, int(offsets * self._per_offset))
        else:
            self._meant = self._in_block * TOO_DENSE

    def _begin(self, offset: int, meant: int) -> None:
        self.begin, self._meant, self._in_block = offset, max(meant, LEAST_BYTES), 0
        self.reached = Reached(offset)


FETCH_VERSION = 11
"""The last version without tagged fields, for each of which kafka-python copies the rest."""
ANSWER_BYTES = 8 * 1024 * 1024
PARTITIONS_A_REQUEST = 200
LANE = "contents"
"""A connection of its own: other requests to the broker do not wait for these answers."""


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
        from breakglass.services.kafka.wire.messages.reading import FetchRequest, FetchResponse

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

        answer = self._sender.call(
            self._broker,
            FetchRequest(
                replica_id=FUTURE_REPLICA,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=ANSWER_BYTES,
                session_epoch=NO_SESSION,
                topics=by_topic(asked, topic),
            ),
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
        if code in (CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR):
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
