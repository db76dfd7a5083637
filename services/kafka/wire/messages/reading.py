"""The messages that read a cluster, each defined by itself from kafka-python's schemas.

Importing one of kafka-python's own classes parses the schemas of all messages of its package, 60
of them, which takes longer than a screen's first frame may wait.
"""

from __future__ import annotations

from typing import Any, ClassVar

from breakglass.services.kafka.wire.messages.message import ApiMessage


class DescribeClusterRequest(ApiMessage):
    """Which brokers there are, fenced ones included from version 2."""


class DescribeClusterResponse(ApiMessage):
    """Brokers and cluster id."""


class DescribeQuorumRequest(ApiMessage):
    """How the controllers stand."""

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


class DescribeLogDirsRequest(ApiMessage):
    """Where a broker keeps its replicas."""

    DescribableLogDirTopic: ClassVar[Any]


class DescribeLogDirsResponse(ApiMessage):
    """A broker's directories, and the size of each replica there."""


class ListOffsetsRequest(ApiMessage):
    """Where logs begin and end; names the replica that asks, for there is no default of it."""

    ListOffsetsTopic: ClassVar[Any]


class ListOffsetsResponse(ApiMessage):
    """An offset for each partition."""


class FetchRequest(ApiMessage):
    """Records, or where an epoch ended."""

    FetchTopic: ClassVar[Any]


class FetchResponse(ApiMessage):
    """Record batches for each partition, or what does not fit."""


class ListPartitionReassignmentsRequest(ApiMessage):
    """Which partitions are being moved."""


class ListPartitionReassignmentsResponse(ApiMessage):
    """Replicas that come and go."""


class ListGroupsRequest(ApiMessage):
    """The consumer groups that a broker coordinates."""


class ListGroupsResponse(ApiMessage):
    """Groups and their states."""
