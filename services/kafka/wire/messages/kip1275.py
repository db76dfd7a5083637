"""The messages of KIP-1275: GetReplicaLogInfo v0 in each of its forms, and ElectLeaders v0-3.

All forms of GetReplicaLogInfo are version 0, so only the answers tell them apart: an entry takes 19
bytes in KIP-1275's form, 23 in the merged form, 24 or more in KIP-966's, and decoding is exact.
ElectLeaders v3 designates the leader of each partition (KIP-966, KIP-1275).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, ClassVar
from uuid import UUID

from breakglass.services.errors import UnsupportedByCluster
from breakglass.services.kafka.wire.messages.message import ApiMessage, StrictDecoding
from breakglass.services.model import TopicPartition

DESIGNATED_SINCE = 3
"""The first version of ElectLeaders that carries DesignatedLeaders."""
DEFAULT_API_KEY = 93
"""GetReplicaLogInfo's in the merged form. KIP-1275 leaves it open, and Kafka's trunk gives 93 to
StreamsGroupTopologyDescriptionUpdate (KIP-1331): an advertised 93 proves nothing."""
MAX_PARTITIONS = 1_000
"""Limit of a GetReplicaLogInfo; a broker serves the first ones of a larger request."""


class ElectionType(IntEnum):
    """What an election may choose."""

    PREFERRED = 0
    UNCLEAN = 1
    DESIGNATED = 2
    """KIP-1275 leaves the number open; apache/kafka pull request 15876 gave it 2."""


class ElectLeadersRequest(StrictDecoding, ApiMessage, load_json=__package__):
    """Refuses to encode a request that would elect more, or other, partitions than meant (R23)."""

    TopicPartitions: ClassVar[Any]

    def encode(
        self, version: int | None = None, header: bool = False, framed: bool = False
    ) -> bytes:
        """The request's bytes.

        Raises:
            ValueError: no partitions (null means every partition of the cluster), or
                designated leaders that are not one broker id for each partition.
            UnsupportedByCluster: designated leaders in a version without them, which would
                silently make it an unclean election by assignment order.
        """
        self._refuse_unmeant(self.API_VERSION if version is None else version)
        return bytes(super().encode(version=version, header=header, framed=framed))

    def _refuse_unmeant(self, version: int) -> None:
        if not self.topic_partitions:
            raise ValueError("an election without partitions would mean every partition")
        designated = self.election_type == ElectionType.DESIGNATED
        for topic in self.topic_partitions:
            if not topic.partitions:
                raise ValueError(f"an election names no partition of topic {topic.topic}")
            if designated or topic.designated_leaders is not None:
                designees = topic.designated_leaders or ()
                if len(designees) != len(topic.partitions) or min(designees) < 0:
                    raise ValueError(
                        f"not every partition of topic {topic.topic} has its designated leader"
                    )
                if version < DESIGNATED_SINCE:
                    raise UnsupportedByCluster(
                        f"ElectLeaders v{version} cannot designate a leader: use --native-rpc off"
                    )


class ElectLeadersResponse(StrictDecoding, ApiMessage, load_json=__package__):
    """One result for each partition, in ``replica_election_results``."""

    ReplicaElectionResult: ClassVar[Any]


def designated_election(
    leaders: Mapping[TopicPartition, int], timeout_ms: int
) -> ElectLeadersRequest:
    """A request that elects exactly *leaders* (broker ids); it can only be sent as version 3."""
    topics: dict[str, dict[int, int]] = {}
    for one, leader in leaders.items():
        topics.setdefault(one.topic, {})[one.partition] = leader
    return ElectLeadersRequest(
        election_type=ElectionType.DESIGNATED,
        topic_partitions=[
            ElectLeadersRequest.TopicPartitions(
                topic=topic, partitions=list(designees), designated_leaders=list(designees.values())
            )
            for topic, designees in topics.items()
        ],
        timeout_ms=timeout_ms,
    )


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
        """Whether an answer has the last written epoch, by which replicas are ranked (R8)."""
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
