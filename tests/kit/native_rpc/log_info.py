"""GetReplicaLogInfo served by a broker that lacks it: ListOffsets and Fetch in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from breakglass.services.kafka.wire.messages.kip1275 import LogInfoSchema, ReplicaLogInfoMessages
from breakglass.services.model import TopicPartition
from tests.kit.native_rpc.translator import Translator

UNKNOWN_TOPIC_ID = 100
NONE = -1

Asked = tuple[UUID, int]
"""A partition as the request names it."""
Named = Mapping[Asked, TopicPartition]


@dataclass(frozen=True, slots=True)
class LogInfoReading:
    """What the answer says of one partition."""

    error_code: int = 0
    log_end: int = NONE
    leader_epoch: int = NONE
    written_epoch: int = NONE


def asked_partitions(request: Any) -> list[Asked]:
    """The partitions of a request in its order; a null list asks for none."""
    return [
        (topic.topic_id or UUID(int=0), number)
        for topic in request.topic_partitions or ()
        for number in topic.partitions
    ]


def name_partitions(translator: Translator, asked: Iterable[Asked]) -> Named:
    """The names of those whose topic exists."""
    asked = list(asked)
    names = translator.topic_names(topic_id for topic_id, _ in asked)
    return {pair: TopicPartition(names[pair[0]], pair[1]) for pair in asked if pair[0] in names}


def read_all(
    translator: Translator,
    asked: Iterable[Asked],
    named: Named,
    refused: Mapping[TopicPartition, int],
    form: LogInfoSchema,
) -> dict[Asked, LogInfoReading]:
    """Read every partition of *asked*; those of *refused* get that error in place of figures."""
    asked = list(asked)
    wanted = [named[pair] for pair in asked if pair in named and named[pair] not in refused]
    figures = _figures(translator, wanted, form)
    figures.update({one: LogInfoReading(error) for one, error in refused.items()})
    return {
        pair: figures[named[pair]] if pair in named else LogInfoReading(UNKNOWN_TOPIC_ID)
        for pair in asked
    }


def _figures(
    translator: Translator, partitions: list[TopicPartition], form: LogInfoSchema
) -> dict[TopicPartition, LogInfoReading]:
    if not partitions:
        return {}
    ends = translator.log_ends(partitions)
    current = {one: end.leader_epoch for one, end in ends.items() if not end.error_code}
    written = written_epochs(translator, current) if form.tells_written_epoch else {}
    return {
        one: LogInfoReading(end.error_code)
        if end.error_code
        else LogInfoReading(0, end.offset, end.leader_epoch, written.get(one, NONE))
        for one, end in ends.items()
    }


def written_epochs(
    translator: Translator, current: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The latest epoch in each replica's epoch cache, -1 for an empty one.

    Halves the range up to the *current* leader epochs, all partitions in one request a
    step. As UnifiedLog.latestEpoch, it counts an epoch whose leader wrote nothing.
    """
    lowest = dict.fromkeys(current, NONE)
    highest = dict(current)
    while open_ranges := [
        partition for partition in current if lowest[partition] < highest[partition]
    ]:
        middle = {range_: (lowest[range_] + highest[range_] + 1) // 2 for range_ in open_ranges}
        held = translator.holds_epoch(middle)
        for one, epoch in middle.items():
            if held.get(one, False):
                lowest[one] = epoch
            else:
                highest[one] = epoch - 1
    return lowest


def log_info_answer(
    messages: ReplicaLogInfoMessages,
    readings: Mapping[Asked, LogInfoReading],
    *,
    broker_epoch: int,
    more: bool,
    throttle_ms: int,
) -> Any:
    """The response in the form of *messages*; what a form cannot say is left out."""
    topic_class = messages.response_class.TopicPartitionLogInfo
    topics: dict[UUID, list[Any]] = {}
    for (topic_id, number), reading in readings.items():
        entry = _entry(messages.form, number, reading)
        topics.setdefault(topic_id, []).append(topic_class.PartitionLogInfo(**entry))
    fields: dict[str, Any] = {
        "broker_epoch": broker_epoch,
        "topic_partition_log_info_list": [
            topic_class(topic_id=topic_id, partition_log_info=entries)
            for topic_id, entries in topics.items()
        ],
    }
    if messages.form is not LogInfoSchema.KIP966:
        fields |= {"has_more_data": more, "throttle_time_ms": throttle_ms}
    return messages.response_class(**fields)


def _entry(form: LogInfoSchema, number: int, reading: LogInfoReading) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "partition": number,
        "log_end_offset": reading.log_end,
        "error_code": reading.error_code,
    }
    if form is LogInfoSchema.KIP:
        return {**entry, "partition_leader_epoch": reading.leader_epoch}
    entry |= {
        "last_written_leader_epoch": reading.written_epoch,
        "current_leader_epoch": reading.leader_epoch,
    }
    if form is LogInfoSchema.KIP966 and reading.error_code:
        entry["error_message"] = f"error {reading.error_code}"
    return entry
