"""M6: what ksqlDB servers answer by /info, whatever answers there; over real sockets."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.metastore.ksql_server import (
    MOST_BYTES,
    MOST_INFO_BYTES,
    AskedServers,
    KsqlServer,
    ServerAccepted,
    ServerNeedless,
    ServerRejected,
    ServerReply,
    ServerSilent,
    ask_servers,
    server_url,
)
from tests.kit.waiting import DEADLINE_SECONDS

INFO = {
    "KsqlServerInfo": {
        "version": "0.29.0",
        "kafkaClusterId": "cluster",
        "ksqlServiceId": "default_",
        "serverStatus": "RUNNING",
    }
}


@contextmanager
def speaking(say: Callable[[socket.socket], None]) -> Iterator[str]:
    """A socket on which *say* has the word once somebody connects."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                connected, _ = listener.accept()
            except OSError:
                return
            with connected, suppress(OSError):
                say(connected)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            with socket.create_connection(listener.getsockname()):
                pass
            thread.join()


def answer(connected: socket.socket, status: int, body: bytes, at: str = "") -> None:
    """Answer so to what is asked, at another path than *at* with 404."""
    code = status if f" {at}".encode() in connected.recv(65_536).partition(b"\r\n")[0] else 404
    head = f"HTTP/1.1 {code} X\r\nLocation: http://127.0.0.1:1/elsewhere\r\n"
    connected.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


@contextmanager
def answering(status: int, body: bytes, *, at: str = "/info ") -> Iterator[str]:
    """A server that answers so; its address."""
    with speaking(lambda connected: answer(connected, status, body, at)) as address:
        yield f"http://{address}"


def ask(*urls: str, seconds: float = DEADLINE_SECONDS) -> AskedServers:
    return ask_servers([server_url(url) for url in urls], "default_", "cluster", seconds)


def body(**changed: object) -> bytes:
    return json.dumps({"KsqlServerInfo": INFO["KsqlServerInfo"] | changed}).encode()


def test_m6_a_server_of_the_service_is_seen() -> None:
    with answering(200, body()) as url:
        told = ask(url)
    (seen,) = told.seen
    assert all(text in seen for text in (url, "0.29.0", "RUNNING"))
    assert told.unknown == ()
    with answering(200, body(), at="/ksql/info") as url:
        assert ask(f"{url}/ksql/").seen
    with answering(401, b"") as url:
        assert "401" in ask(url).seen[0], "one that wants credentials runs"


@pytest.mark.parametrize("changed", [{"ksqlServiceId": "other"}, {"kafkaClusterId": "elsewhere"}])
def test_m6_a_server_of_another_service_or_cluster_is_told_and_no_evidence(
    changed: dict[str, object],
) -> None:
    with answering(200, body(**changed)) as url:
        told = ask(url)
    assert told.seen == ()
    assert str(*changed.values()) in told.unknown[0]


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (503, b"", "HTTP 503"),
        (302, body(), "HTTP 302"),
        (200, b"<html>", "no JSON"),
        (200, b"[" * 60_000, "no JSON"),
        (200, b"[]", "not as a ksqlDB server does"),
        (200, b'{"KsqlServerInfo":3}', "not as a ksqlDB server does"),
        (200, b" " * (MOST_INFO_BYTES + 1), "more than 65,536 bytes"),
        (200, b"\xff\xfe", "no JSON"),
    ],
)
def test_m6_an_answer_that_is_none_is_said_as_unknown(status: int, answer: bytes, why: str) -> None:
    with answering(status, answer) as url:
        told = ask(url)
    assert told.seen == ()
    assert why in told.unknown[0]


def test_m6_what_a_server_says_of_itself_cannot_act_on_a_terminal() -> None:
    with answering(200, body(version="\x1b[2J" + "9" * 500, serverStatus=7)) as url:
        (told,) = ask(url).seen
    assert "\x1b" not in told
    assert "\\x1b[2J999" in told
    assert len(told) < 200


def drip(connected: socket.socket) -> None:
    """A header that never ends."""
    connected.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connected.sendall(b"X: y\r\n")
        threading.Event().wait(0.05)


def stay(connected: socket.socket) -> None:
    """Take everything, and say nothing."""
    while connected.recv(1000):
        pass


def test_m6_where_nothing_or_no_server_listens_is_said_as_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with speaking(drip) as slow, speaking(stay) as mute:
        told = ask(slow, mute, f"127.0.0.1:{port}", seconds=0.2)
    assert (told.seen, len(told.unknown)) == ((), 3)
    with speaking(lambda one: one.sendall(b"220 mail\r\n")) as url:
        told = ask(url)
    assert (told.seen, len(told.unknown)) == ((), 1)


def test_m6_what_is_no_address_is_refused_without_naming_a_password() -> None:
    wrong = ("ftp://b1:8088", "http://", "http://b1:notaport", "http://[::1")
    for text in (*wrong, "http://admin:secret@b1:8088"):
        with pytest.raises(UsageError) as refused:
            server_url(text)
        assert "secret" not in str(refused.value)


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
    with speaking(lambda connected: answer(connected, code, body)) as address:
        return submitted(address, DEADLINE_SECONDS)


def submitted(address: str, seconds: float) -> ServerReply:
    server = KsqlServer(server_url(address))
    with server.connected(seconds) as connection:
        return server.submit(connection, "CREATE STREAM A AS SELECT * FROM B;")


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
