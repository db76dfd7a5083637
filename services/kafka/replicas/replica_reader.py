"""Reads one broker's replicas: log ends, high watermarks, written epochs, newest batch.

Log ends come from GetReplicaLogInfo on clusters that support it, else from ListOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    EpochWalk,
    ListedOffset,
    OffsetError,
    list_offsets,
    read_epoch_ends,
)
from breakglass.services.kafka.wire.answers import (
    AUTHORIZATION_CODES,
    KAFKA_STORAGE_ERROR,
    NO_OFFSET,
    by_partition,
    describe_error,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import MAX_PARTITIONS
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import EpochHistory, FigureSource, TopicPartition, Unknown
from breakglass.services.quick_values import quickly_made

if TYPE_CHECKING:
    from breakglass.services.kafka.wire.messages.kip1275 import ReplicaLogInfoMessages


NOT_ALLOWED = "not allowed: needs CLUSTER_ACTION on CLUSTER and DESCRIBE on the topic"


def read_log_infos(
    sender: Sender,
    broker: int,
    messages: ReplicaLogInfoMessages,
    partitions: Mapping[TopicPartition, UUID],
    deadline: Deadline,
) -> dict[TopicPartition, ListedOffset | OffsetError]:
    """The log end and current leader epoch of *broker*'s replicas of *partitions*.

    Asks for at most 1,000 partitions at a time, and again for partitions that an answer leaves
    out, with HasMoreData or without.

    Raises Unreachable: the broker did not answer before *deadline*.
    """
    answers: dict[TopicPartition, ListedOffset | OffsetError] = {}
    missing = list(partitions)
    while missing:
        asked = missing[:MAX_PARTITIONS]
        told = _ask(
            sender,
            broker,
            messages,
            {partition: partitions[partition] for partition in asked},
            deadline,
        )
        answers.update(told)
        if not told:
            absent = OffsetError(f"b{broker} leaves this partition out of its answers")
            answers.update(dict.fromkeys(asked, absent))
        missing = [partition for partition in missing if partition not in answers]
    return answers


def _ask(
    sender: Sender,
    broker: int,
    messages: ReplicaLogInfoMessages,
    asked: Mapping[TopicPartition, UUID],
    deadline: Deadline,
) -> dict[TopicPartition, ListedOffset | OffsetError]:
    by_id: dict[UUID, list[int]] = {}
    for one, topic_id in asked.items():
        by_id.setdefault(topic_id, []).append(one.partition)
    names = {topic_id: one.topic for one, topic_id in asked.items()}
    request = messages.request(by_id, broker)
    answer = sender.call(broker, request, messages.response_class, deadline)
    told = (
        (
            TopicPartition(names.get(topic.topic_id, str(topic.topic_id)), one.partition),
            _offset(broker, one),
        )
        for topic in answer.topic_partition_log_info_list
        for one in topic.partition_log_info
    )
    return by_partition(told, asked, broker)


def _offset(broker: int, answer: Any) -> ListedOffset | OffsetError:
    code = answer.error_code
    if code in AUTHORIZATION_CODES:
        return OffsetError(NOT_ALLOWED, code)
    if code == KAFKA_STORAGE_ERROR:
        return OffsetError(f"log directory offline on b{broker}", code)
    if code:
        return OffsetError(f"b{broker} answers {describe_error(code)}", code)
    # KIP-1275 calls it PartitionLeaderEpoch, the other forms CurrentLeaderEpoch.
    fields = answer.fields
    name = "current_leader_epoch" if "current_leader_epoch" in fields else "partition_leader_epoch"
    epoch = int(getattr(answer, name))
    if not 0 <= answer.log_end_offset < NO_OFFSET or epoch < -1:
        return OffsetError(
            f"b{broker} claims offset {answer.log_end_offset} in leader epoch {epoch}, which "
            "cannot be"
        )
    return ListedOffset(answer.log_end_offset, -1, epoch)


FIRST_DEPTH = 8
"""Epochs first read back from the newest; within these, most replicas share an epoch."""


def lost_high_watermark(broker: int) -> Unknown:
    """Stands for a high watermark of *broker* at the start of a log with records.

    A broker that lost its checkpoint file begins at 0, or at the log's start
    (UnifiedLog.updateHighWatermark).
    """
    return Unknown(
        f"the high watermark of b{broker} reads as the start of a log with records: lost in an "
        "unclean stop"
    )


@quickly_made
@dataclass(frozen=True, slots=True)
class ReplicaReading:
    """One broker's answers about one replica; the fields are those of `model.ReplicaLog`."""

    log_start: int | Unknown
    high_watermark: int | Unknown
    log_end: int | Unknown
    leader_epoch: int | Unknown
    epochs: EpochHistory | Unknown
    newest_ms: int | Unknown | None
    log_dir_online: bool | Unknown
    source: FigureSource
    observed_at_ms: int

    @classmethod
    def unread(cls, reason: str, *, log_dir_online: bool | Unknown | None = None) -> ReplicaReading:
        unknown = Unknown(reason)
        online = unknown if log_dir_online is None else log_dir_online
        return cls(
            unknown,
            unknown,
            unknown,
            unknown,
            unknown,
            unknown,
            online,
            FigureSource.NONE,
            now_ms(),
        )


class ReplicaReader:
    """The replicas of some partitions on one broker. Keeps the epoch walks, to extend them later.

    Three requests serve a thousand partitions whose newest batch carries the last written
    epoch and whose histories are short; each further epoch costs one more.
    """

    def __init__(
        self, sender: Sender, broker: int, log_info: ReplicaLogInfoMessages | None = None
    ) -> None:
        self._sender, self._broker, self._log_info = sender, broker, log_info
        self._walks: dict[TopicPartition, EpochWalk] = {}
        self._refused: dict[TopicPartition, Unknown] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}

    def read(
        self,
        partitions: Mapping[TopicPartition, UUID],
        deadline: Deadline,
        *,
        tiered: Iterable[str] = (),
    ) -> dict[TopicPartition, ReplicaReading]:
        """Read every replica of *partitions*, given with their topic ids, once.

        Raises Unreachable: the broker did not answer before *deadline*.
        """
        ends = self._log_ends(partitions, deadline)
        held = [one for one, end in ends.items() if isinstance(end, ListedOffset)]
        newest = list_offsets(self._sender, self._broker, held, MAX_TIMESTAMP, deadline)
        for one, end in ends.items():
            if isinstance(end, ListedOffset):
                batch = newest[one]
                hint = batch.leader_epoch if isinstance(batch, ListedOffset) else None
                self._walks[one] = EpochWalk(end.offset, max(end.leader_epoch, 0), hint)
        self.deepen(held, FIRST_DEPTH, deadline)
        self._find_starts(held, deadline)
        topics = set(tiered)
        local = [partition for partition in held if partition.topic in topics]
        local_starts = list_offsets(self._sender, self._broker, local, EARLIEST_LOCAL, deadline)
        return {one: self._reading(one, end, newest, local_starts) for one, end in ends.items()}

    def _log_ends(
        self, partitions: Mapping[TopicPartition, UUID], deadline: Deadline
    ) -> Mapping[TopicPartition, ListedOffset | OffsetError]:
        if self._log_info is None:
            return list_offsets(self._sender, self._broker, partitions, LATEST, deadline)
        return read_log_infos(self._sender, self._broker, self._log_info, partitions, deadline)

    def deepen(self, partitions: Iterable[TopicPartition], depth: int, deadline: Deadline) -> None:
        """Follow the epoch walks of *partitions* until each knows *depth* epochs or ends.

        Raises Unreachable: the broker did not answer before *deadline*.
        """
        walks = {
            partition: self._walks[partition]
            for partition in partitions
            if partition in self._walks
        }
        while questions := {
            one: question
            for one, walk in walks.items()
            if (question := walk.question) is not None and walk.depth < depth
        }:
            answers = read_epoch_ends(self._sender, self._broker, questions, deadline)
            told = [(question, answers[question]) for question in questions if question in answers]
            if not told:
                break
            for one, answer in told:
                if isinstance(answer, Unknown):
                    self._refused[one] = answer
                    del self._walks[one], walks[one]
                else:
                    if answer.epoch_end is not None:
                        self._high_watermarks[one] = answer.high_watermark
                        self._log_starts[one] = answer.log_start
                    walks[one].answer(answer.epoch_end, answer.log_start)

    def history(self, partition: TopicPartition) -> EpochHistory | Unknown:
        """The written epochs known so far."""
        walk = self._walks.get(partition)
        if walk is None:
            return self._refused.get(partition, Unknown(f"b{self._broker} was not asked"))
        if walk.astray:
            return Unknown(f"b{self._broker} knows no leader epoch of its records")
        if not walk.begun:
            return Unknown(f"b{self._broker} left its epochs out of its answers")
        return walk.history

    def _find_starts(self, held: list[TopicPartition], deadline: Deadline) -> None:
        """Read the start of logs whose walk found no epoch: such a log may be empty."""
        astray = [
            partition
            for partition in held
            if partition in self._walks and self._walks[partition].astray
        ]
        starts = list_offsets(self._sender, self._broker, astray, EARLIEST, deadline)
        for one, start in starts.items():
            if isinstance(start, ListedOffset):
                self._log_starts[one] = start.offset
                self._walks[one].start_at(start.offset)

    def _reading(
        self,
        one: TopicPartition,
        end: ListedOffset | OffsetError,
        newest: Mapping[TopicPartition, ListedOffset | OffsetError],
        local_starts: Mapping[TopicPartition, ListedOffset | OffsetError],
    ) -> ReplicaReading:
        if isinstance(end, OffsetError):
            online = False if end.code == KAFKA_STORAGE_ERROR else None
            return ReplicaReading.unread(end.reason, log_dir_online=online)
        start = self._log_start(one, end, local_starts.get(one))
        if isinstance(start, int) and start > end.offset:
            return ReplicaReading.unread(
                f"b{self._broker} claims a log that begins at offset {start:,} and ends at "
                f"{end.offset:,}: it changed while it was read, or cannot be"
            )
        return ReplicaReading(
            log_start=start,
            high_watermark=self._high_watermark(one, end),
            log_end=end.offset,
            leader_epoch=end.leader_epoch,
            epochs=self.history(one),
            # A deleted batch stays in its segment, where a search by time still finds it.
            newest_ms=None if start == end.offset else _newest(newest[one]),
            log_dir_online=True,
            source=FigureSource.STOCK if self._log_info is None else FigureSource.NATIVE,
            observed_at_ms=now_ms(),
        )

    def _log_start(
        self, one: TopicPartition, end: ListedOffset, local: ListedOffset | OffsetError | None
    ) -> int | Unknown:
        if isinstance(local, ListedOffset) and local.offset >= 0:
            return local.offset
        if end.offset == 0:
            return 0
        if one in self._log_starts:
            return self._log_starts[one]
        return self._refused.get(one, Unknown(f"b{self._broker} did not tell its log start"))

    def _high_watermark(self, one: TopicPartition, end: ListedOffset) -> int | Unknown:
        if end.offset == 0:
            return 0
        start = self._log_starts.get(one)
        if start == end.offset:
            return end.offset
        mark = self._high_watermarks.get(one)
        if mark is None or start is None:
            untold = Unknown(f"b{self._broker} did not tell its high watermark")
            return self._refused.get(one, untold)
        return lost_high_watermark(self._broker) if mark <= start else mark


def _newest(answer: ListedOffset | OffsetError) -> int | Unknown | None:
    if isinstance(answer, OffsetError):
        return answer
    return answer.timestamp_ms if answer.offset >= 0 else None
