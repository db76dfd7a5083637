"""Frames of another client's requests: their headers, and whether an answer comes."""

import struct

import pytest
from kafka.protocol.producer import ProduceRequest

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire.passing import expects_answer, parse_head


def request_frame(
    body: bytes = b"body",
    *,
    api_key: int = 3,
    api_version: int = 0,
    correlation_id: int = 1,
    client_id: str | None = "test",
) -> bytes:
    raw = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(raw)
    return struct.pack(">hhih", api_key, api_version, correlation_id, length) + raw + body


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\3\0\0",
        request_frame(b"")[:-1],
        b"\xff\xff" + request_frame()[2:],
        request_frame(client_id="x").replace(b"x", b"\xff"),
    ],
    ids=["nothing", "half", "client id cut short", "negative api key", "client id no text"],
)
def test_what_is_no_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse_head(frame)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize("transaction", [None, "t" * 200])
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_only_records_sent_without_acks_are_not_answered(
    version: int, transaction: str | None, acks: int
) -> None:
    request = ProduceRequest(
        transactional_id=transaction, acks=acks, timeout_ms=1000, topic_data=[]
    )
    request.API_VERSION = version
    request.with_header(correlation_id=1, client_id="test")
    frame = bytes(request.encode(header=True))
    assert expects_answer(parse_head(frame), frame) is (acks != 0)
