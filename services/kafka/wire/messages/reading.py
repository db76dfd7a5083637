"""The messages that read a cluster, each defined separately from kafka-python's schemas.

Importing one of kafka-python's own classes parses the schemas of all messages of its package, 60
of them, which takes longer than a screen's first frame may wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from breakglass.services.kafka.wire.messages.message import ApiMessage


class DescribeClusterRequest(ApiMessage):
    """Which brokers exist; from version 2, fenced brokers too."""


class DescribeClusterResponse(ApiMessage):
    """Brokers and cluster id."""


class DescribeQuorumRequest(ApiMessage):
    """The state of the controller quorum."""

    TopicData: ClassVar[Any]


class DescribeQuorumResponse(ApiMessage):
    """The voters of ``__cluster_metadata``."""


class DescribeTopicPartitionsRequest(ApiMessage):
    """A page of partitions."""

    TopicRequest: ClassVar[Any]
    Cursor: ClassVar[Any]


class DescribeTopicPartitionsResponse(ApiMessage):
    """Partitions with their ELR, and where the next page begins."""


class DescribeConfigsRequest(ApiMessage):
    """Settings of topics or brokers."""

    DescribeConfigsResource: ClassVar[Any]


class DescribeConfigsResponse(ApiMessage):
    """The values of settings."""


def settings_request(
    kind: int, names: Iterable[str], keys: Sequence[str] | None = None, *, synonyms: bool = False
) -> DescribeConfigsRequest:
    """Ask for the settings *keys* of each resource of that *kind*; None asks for all settings.

    With *synonyms*, the answer also has the values that a setting would have otherwise.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = None if keys is None else list(keys)
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=wanted)
            for name in names
        ],
        include_synonyms=synonyms,
    )


class DescribeLogDirsRequest(ApiMessage):
    """Where a broker keeps its replicas."""

    DescribableLogDirTopic: ClassVar[Any]


class DescribeLogDirsResponse(ApiMessage):
    """A broker's directories, and the size of each replica there."""


class ListOffsetsRequest(ApiMessage):
    """Where logs begin and end; the replica id that asks has no default."""

    ListOffsetsTopic: ClassVar[Any]


class ListOffsetsResponse(ApiMessage):
    """An offset for each partition."""


class FetchRequest(ApiMessage):
    """Records, or where an epoch ended."""

    FetchTopic: ClassVar[Any]


class FetchResponse(ApiMessage):
    """Record batches for each partition, or the epoch at which the logs diverge."""


class ListPartitionReassignmentsRequest(ApiMessage):
    """Which partitions are being moved."""


class ListPartitionReassignmentsResponse(ApiMessage):
    """Replicas that are being added and removed."""


class ListGroupsRequest(ApiMessage):
    """The consumer groups that a broker coordinates."""


class ListGroupsResponse(ApiMessage):
    """Groups and their states."""
