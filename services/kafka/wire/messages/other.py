"""Messages that a first frame does not wait for: groups of newer protocols, transaction markers.

Apart from `reading`, because kafka-python parses a schema when its class is made. Schemas of groups
are Kafka's, reduced to version 0, which every broker with these protocols speaks. Of
WriteTxnMarkers, which ``kafka-transactions.sh abort`` sends, kafka-python has only the schema.
"""

from __future__ import annotations

from typing import Any, ClassVar

from breakglass.services.kafka.wire.messages.message import ApiMessage, StrictDecoding


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):
    """The members of groups of the consumer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):
    """Each member with the partitions that it owns."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__package__):
    """The progress of share groups (KIP-932)."""

    DescribeShareGroupOffsetsRequestGroup: ClassVar[Any]


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__package__):
    """Where the progress of each group begins in each partition."""


VERSION = 1
"""The version that brokers of 3.9 and 4.3 share. Version 2 adds the transaction version, whose
default means the same as version 1: an epoch not below the partition's own is accepted."""


class WriteTxnMarkersRequest(ApiMessage):
    """Which transactions end how, on which partitions."""

    WritableTxnMarker: ClassVar[Any]


class WriteTxnMarkersResponse(StrictDecoding, ApiMessage):
    """One error code for each partition."""

    WritableTxnMarkerResult: ClassVar[Any]
