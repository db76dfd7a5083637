"""What is made of a ksqlDB server's answer, whatever answers there; over real sockets."""

from __future__ import annotations

import json
import socket

import pytest

from breakglass.services.metastore.ksql_server import (
    MOST_BYTES,
    KsqlServer,
    ServerAccepted,
    ServerNeedless,
    ServerRejected,
    ServerReply,
    ServerSilent,
)
from breakglass.services.metastore.restore.server_info import server_url
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.metastore.restore.test_server_info import drip, speaking, stay

STATEMENT = "CREATE STREAM A AS SELECT * FROM B;"


def status(**changed: object) -> bytes:
    entity = {
        "@type": "currentStatus",
        "commandId": "stream/`A`/create",
        "commandSequenceNumber": 4,
        "commandStatus": {"status": "SUCCESS", "message": "Created\x1b[2J"},
    }
    return json.dumps([entity | changed]).encode()


def replied(code: int, body: bytes) -> ServerReply:
    """What is made of that answer to a statement."""

    def say(connected: socket.socket) -> None:
        connected.recv(65_536)
        connected.sendall(f"HTTP/1.1 {code} X\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        connected.sendall(body)

    with speaking(say) as address:
        return submitted(address, DEADLINE_SECONDS)


def submitted(address: str, seconds: float) -> ServerReply:
    server = KsqlServer(server_url(address))
    with server.connected(seconds) as connection:
        return server.submit(connection, STATEMENT)


@pytest.mark.parametrize(
    ("code", "body", "reply"),
    [
        (200, status(), ServerAccepted("stream/`A`/create", 4, "SUCCESS", "Created\\x1b[2J")),
        (200, b'[{"@type":"warning_entity","message":"there"}]', ServerNeedless("there")),
        (400, b'{"error_code":40001,"message":"Line: 1\\nno"}', ServerRejected(400, "Line: 1 no")),
        (503, b"<html>", ServerRejected(503, "HTTP 503")),
    ],
)
def test_an_answer_is_read(code: int, body: bytes, reply: ServerReply) -> None:
    assert replied(code, body) == reply


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"[7]",
        b"{",
        b"[" * 100_000,
        status(commandId=None),
        status(commandSequenceNumber=-1),
        status(commandSequenceNumber="4"),
        status(commandStatus=[]),
        status(**{"@type": "queries"}),
        b"[" + b" " * MOST_BYTES + b"]",
    ],
    ids=range(11),
)
def test_an_answer_that_says_nothing_of_the_statement_is_no_answer(body: bytes) -> None:
    assert isinstance(replied(200, body), ServerSilent)


def test_m14_a_server_that_answers_too_slowly_or_never_leaves_the_outcome_unknown() -> None:
    for say in (drip, stay):
        with speaking(say) as address:
            assert isinstance(submitted(address, 0.2), ServerSilent)


@pytest.mark.parametrize(
    ("code", "message", "nothing"),
    [
        (400, "no viable alternative", True),
        (400, "Could not write the statement into the command topic.", False),
        (500, "no viable alternative", False),
        (302, "elsewhere", False),
    ],
)
def test_m14_only_a_refusal_before_the_transaction_wrote_nothing(
    code: int, message: str, nothing: bool
) -> None:
    assert ServerRejected(code, message).wrote_nothing is nothing
