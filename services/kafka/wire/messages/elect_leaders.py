"""ElectLeaders v0-3: version 3 designates the leader of each partition (KIP-966, KIP-1275)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, ClassVar

from breakglass.services.errors import UnsupportedByCluster
from breakglass.services.kafka.wire.messages.message import ApiMessage, StrictDecoding
from breakglass.services.kafka.wire.messages.native import DESIGNATED_SINCE
from breakglass.services.model import TopicPartition


class ElectionType(IntEnum):
    """What an election may choose."""

    PREFERRED = 0
    UNCLEAN = 1
    DESIGNATED = 2
    """KIP-1275 leaves the number open; apache/kafka pull request 15876 gave it 2."""


class ElectLeadersRequest(StrictDecoding, ApiMessage, load_json=__package__):
    """Refuses to be sent where it would elect more, or other, than was meant (R23)."""

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
                _refuse_mismatch(topic, version)


def _refuse_mismatch(topic: Any, version: int) -> None:
    designees = topic.designated_leaders or ()
    if len(designees) != len(topic.partitions) or min(designees) < 0:
        raise ValueError(f"not every partition of topic {topic.topic} has its designated leader")
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
    return ElectLeadersRequest(
        election_type=ElectionType.DESIGNATED,
        topic_partitions=[
            ElectLeadersRequest.TopicPartitions(
                topic=topic,
                partitions=list(designees),
                designated_leaders=list(designees.values()),
            )
            for topic, designees in _by_topic(leaders).items()
        ],
        timeout_ms=timeout_ms,
    )


def _by_topic(leaders: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    topics: dict[str, dict[int, int]] = {}
    for one, leader in leaders.items():
        topics.setdefault(one.topic, {})[one.partition] = leader
    return topics
