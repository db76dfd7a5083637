"""Framing and headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire.passing import expects_answer, parse_head
from tests.unit.lab.proxy.conftest import encoded, request_frame


@given(
    st.binary(max_size=50),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=20),
)
def test_a_header_is_read_back(
    body: bytes, api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> None:
    frame = request_frame(
        body,
        api_key=api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    head = parse_head(frame)
    assert (head.api_key, head.api_version) == (api_key, api_version)
    assert (head.correlation_id, head.client_id) == (correlation_id, client_id)
    assert frame[head.end :] == body


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
@pytest.mark.parametrize("transactional_id", [None, "t" * 200])
@pytest.mark.parametrize(("acks", "answer_comes"), [(0, False), (1, True), (-1, True)])
def test_only_records_sent_without_acks_are_not_answered(
    version: int, transactional_id: str | None, acks: int, answer_comes: bool
) -> None:
    from kafka.protocol.producer import ProduceRequest

    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=[]
    )
    frame = encoded(request, version)
    assert expects_answer(parse_head(frame), frame) is answer_comes
