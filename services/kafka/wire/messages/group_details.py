"""The messages that describe groups of the protocols that kafka-python does not know.

Their schemas are Kafka's, reduced to version 0, which every broker with these protocols speaks.
"""

from __future__ import annotations

from typing import Any, ClassVar

from breakglass.services.kafka.wire.messages.message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):
    """The members of groups of the consumer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):
    """Each member with the partitions that it owns."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__package__):
    """The progress of share groups (KIP-932)."""

    DescribeShareGroupOffsetsRequestGroup: ClassVar[Any]


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__package__):
    """Where the progress of each group begins in each partition."""
