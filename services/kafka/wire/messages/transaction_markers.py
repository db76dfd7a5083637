"""WriteTxnMarkers v1, which ends a transaction on single partitions.

Kafka's ``kafka-transactions.sh abort`` sends it; kafka-python has only its schema.
"""

from __future__ import annotations

from typing import Any, ClassVar

from breakglass.services.kafka.wire.messages.message import ApiMessage, StrictDecoding

VERSION = 1
"""The version that brokers of 3.9 and 4.3 share. Version 2 adds the transaction version, whose
default means the same as version 1: an epoch not below the partition's own is accepted."""


class WriteTxnMarkersRequest(ApiMessage):
    """Which transactions end how, on which partitions."""

    WritableTxnMarker: ClassVar[Any]


class WriteTxnMarkersResponse(StrictDecoding, ApiMessage):
    """One error code for each partition."""

    WritableTxnMarkerResult: ClassVar[Any]
