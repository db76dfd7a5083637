"""GetReplicaLogInfo v0 in each form it was ever given, under any api key.

A broker's version range does not tell the forms apart: all are version 0. Their answers
do: an entry takes 19 bytes in KIP-1275's form, 23 in the merged one, 24 and more in
KIP-966's, and decoding is exact.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from breakglass.services.kafka.wire.messages.message import ApiMessage, StrictDecoding
from breakglass.services.kafka.wire.messages.native import DEFAULT_API_KEY

NO_BROKER = -1


class LogInfoSchema(StrEnum):
    """Which schema of GetReplicaLogInfo a broker speaks."""

    KIP = "kip"
    """KIP-1275: HasMoreData; one epoch, the partition's current one."""
    MERGED = "merged"
    """apache/kafka pull request 19664: HasMoreData; last written and current epoch."""
    KIP966 = "kip966"
    """KIP-966 as krabka-broker serves it: BrokerId asked for; both epochs, error messages."""

    @property
    def tells_written_epoch(self) -> bool:
        """Whether an answer holds the epoch that ranks (R8)."""
        return self is not LogInfoSchema.KIP


class GetReplicaLogInfoKipRequest(StrictDecoding, ApiMessage, load_json=__package__):
    """KIP-1275's request."""


class GetReplicaLogInfoKipResponse(StrictDecoding, ApiMessage, load_json=__package__):
    """KIP-1275's answer."""


class GetReplicaLogInfoMergedRequest(StrictDecoding, ApiMessage, load_json=__package__):
    """The merged request."""


class GetReplicaLogInfoMergedResponse(StrictDecoding, ApiMessage, load_json=__package__):
    """The merged answer."""


class GetReplicaLogInfoKip966Request(StrictDecoding, ApiMessage, load_json=__package__):
    """KIP-966's request."""


class GetReplicaLogInfoKip966Response(StrictDecoding, ApiMessage, load_json=__package__):
    """KIP-966's answer."""


_CLASSES: dict[LogInfoSchema, tuple[Any, Any]] = {
    LogInfoSchema.KIP: (GetReplicaLogInfoKipRequest, GetReplicaLogInfoKipResponse),
    LogInfoSchema.MERGED: (GetReplicaLogInfoMergedRequest, GetReplicaLogInfoMergedResponse),
    LogInfoSchema.KIP966: (GetReplicaLogInfoKip966Request, GetReplicaLogInfoKip966Response),
}


@dataclass(frozen=True, slots=True)
class ReplicaLogInfoMessages:
    """The two message classes of one form under one api key."""

    form: LogInfoSchema
    api_key: int
    request_class: Any
    response_class: Any

    def request(self, partitions: Mapping[UUID, Iterable[int]], broker_id: int = NO_BROKER) -> Any:
        """A request for *partitions* by topic id; *broker_id* goes where the form has one."""
        topics = [
            self.request_class.TopicPartitions(topic_id=topic_id, partitions=list(numbers))
            for topic_id, numbers in partitions.items()
        ]
        if self.form is LogInfoSchema.KIP966:
            return self.request_class(broker_id=broker_id, topic_partitions=topics)
        return self.request_class(topic_partitions=topics)


@functools.cache
def replica_log_info(form: LogInfoSchema, api_key: int = DEFAULT_API_KEY) -> ReplicaLogInfoMessages:
    """The messages of *form*, whose headers carry *api_key*."""
    request_class, response_class = _CLASSES[form]
    return ReplicaLogInfoMessages(
        form, api_key, _keyed(request_class, api_key), _keyed(response_class, api_key)
    )


def _keyed(message_class: Any, api_key: int) -> Any:
    """The same schema under another api key (kafka-python takes the key from the schema)."""
    members = {"API_KEY": api_key, "__slots__": (), "__module__": __name__}
    return type(message_class)(message_class.__name__, (message_class,), members, init=False)
