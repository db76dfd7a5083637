"""The messages that read a cluster: parsed without others, and the same as kafka-python's own."""

import pytest
from kafka.protocol import admin, consumer

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire.messages import reading
from breakglass.services.kafka.wire.messages.message import decode_exactly

MESSAGES = [name for name in vars(reading) if name.endswith(("Request", "Response"))]
CHANGED_BY_KAFKA_PYTHON = {"DescribeClusterResponse", "ListOffsetsRequest"}
"""A field has another name there, or a default; here neither is used."""


def test_an_array_that_cannot_be_null_is_refused_where_it_is() -> None:
    kind = reading.ListGroupsResponse
    for version, head in ((0, b"\0\0"), (4, bytes(6))):
        null, empty = (b"\xff" * 4, bytes(4)) if version == 0 else (b"\0\0", b"\1\0")
        assert decode_exactly(kind, head + empty, version).groups == []
        with pytest.raises(MalformedMessage):
            decode_exactly(kind, head + null, version)


def test_each_message_is_the_one_of_kafka_python() -> None:
    for name in MESSAGES:
        ours, theirs = getattr(reading, name), {**vars(admin), **vars(consumer)}[name]
        assert (ours.API_KEY, ours.valid_versions) == (theirs.API_KEY, theirs.valid_versions)
        assert name in CHANGED_BY_KAFKA_PYTHON or ours.json == theirs.json, name
