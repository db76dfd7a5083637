"""Where servers listen, and whose token they take."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection, socket
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientConnectorCertificateError, ClientSession, TCPConnector

from breakglass.console.checkpoint import TOKEN
from breakglass.console.web.listener import (
    PATH,
    SHORTEST,
    HttpListener,
    is_loopback,
    metrics_application,
    serve_until,
    token_of,
)
from breakglass.services import patience
from breakglass.services.checkpoint.zeebe_api import BACKUPS
from breakglass.services.errors import Refused, UsageError
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster
from tests.kit.program import breakglass
from tests.kit.running import running
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.connection.certificates import Identity

SECRET = "a-token-of-the-tests"
BEARER = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def authority() -> Identity:
    return Identity.authority()


@pytest.fixture
def server(tmp_path: Path, authority: Identity) -> tuple[Path, Path]:
    identity = authority.signs("checkpoints", "127.0.0.1")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    certificate.write_text(identity.chain_pem)
    key.write_text(identity.key_pem())
    return certificate, key


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_needs_no_tls(host: str) -> None:
    assert is_loopback(host)
    assert HttpListener.at(host, 9600).url(9600, "/").startswith("http://")


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "192.0.2.7", "", "no-such-host.invalid"],  # noqa: S104 - refused
)
def test_off_loopback_a_server_without_tls_is_refused(host: str) -> None:
    with pytest.raises(Refused):
        HttpListener.at(host, 9600)


def test_with_a_certificate_or_behind_a_proxy_that_ends_tls_it_listens_anywhere(
    server: tuple[Path, Path],
) -> None:
    found = HttpListener.at("::", 9600, *server)
    assert found.tls is not None
    assert found.url(9600, BACKUPS) == "https://[::]:9600/actuator/backups"
    behind = HttpListener.at("192.0.2.7", 8417, behind_tls=True)
    assert (behind.host, behind.tls) == ("192.0.2.7", None)


@pytest.mark.parametrize("command", [("exporter",), ("serve",)])
def test_each_server_refuses_to_send_its_token_without_tls(command: tuple[str, ...]) -> None:
    ended = breakglass(*command, "--bootstrap-server", "127.0.0.1:1", "--host", "192.0.2.7")
    assert ended.code == 3
    assert "token: " not in ended.err


@asynccontextmanager
async def served(listener: HttpListener, answer: Callable[[], bytes]) -> AsyncIterator[int]:
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    application = metrics_application(answer, SECRET)
    serving = asyncio.create_task(serve_until(application, listener, stop, port.set_result))
    try:
        yield await port
    finally:
        stop.set()
        await serving


async def test_over_tls_metrics_are_served_to_who_brings_the_token(
    server: tuple[Path, Path], authority: Identity
) -> None:
    listener = HttpListener.at("127.0.0.1", 0, *server)
    async with served(listener, lambda: b"up 1\n") as port, ClientSession(headers=BEARER) as client:
        url = listener.url(port, PATH)
        async with client.get(url, ssl=authority.trusted()) as answer:
            assert (answer.status, await answer.read()) == (200, b"up 1\n")
        with pytest.raises(ClientConnectorCertificateError):
            await client.get(url)


HALVES = [b"", b"GET /metrics HTTP/1.1\r\nHost: a\r\n", b"\x16\x03\x01\x02\x00\x01"]
UNREAD = b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
"""What peers send that leave a server waiting: nothing, a part of a request, a part of TLS."""


@pytest.mark.parametrize("sent", [*HALVES, UNREAD])
async def test_s04_a_peer_that_sends_no_request_has_no_connection_after_its_deadline(
    server: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(patience, "PEER", 0.05)
    monkeypatch.setattr(patience, "REQUEST", 0.05)
    monkeypatch.setattr("breakglass.console.web.listener.UNREAD_SECONDS", 0.05)
    for listener in (HttpListener("127.0.0.1", 0), HttpListener.at("127.0.0.1", 0, *server)):
        async with served(listener, bytes) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            async with asyncio.timeout(DEADLINE_SECONDS):
                answer = await _to_the_end(reader)
                assert b" 200 " not in answer
            writer.close()


async def _to_the_end(reader: asyncio.StreamReader) -> bytes:
    with suppress(ConnectionError):
        return await reader.read()
    return b""


@pytest.mark.parametrize("sent", HALVES)
async def test_s05_where_too_many_wait_the_longest_waits_end_and_a_request_is_answered(
    server: tuple[Path, Path], authority: Identity, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("breakglass.console.web.listener.WAITING", 8)
    begun, go_on = Event(), Event()

    def answer() -> bytes:
        begun.set()
        assert go_on.wait(DEADLINE_SECONDS)
        return b"up 1\n"

    for listener in (HttpListener("127.0.0.1", 0), HttpListener.at("127.0.0.1", 0, *server)):
        trusted = True if listener.tls is None else authority.trusted()
        each = TCPConnector(force_close=True)
        async with (
            served(listener, answer) as port,
            ClientSession(headers=BEARER, connector=each) as client,
        ):
            url = listener.url(port, PATH)
            early = asyncio.create_task(client.get(url, ssl=trusted))
            assert await asyncio.to_thread(begun.wait, DEADLINE_SECONDS)
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            for _, writer in idle:
                writer.write(sent)
            go_on.set()
            for asked in (early, client.get(url, ssl=trusted)):
                async with await asked as given:
                    assert await given.read() == b"up 1\n"
            async with asyncio.timeout(DEADLINE_SECONDS):
                for reader, _ in idle[:36]:
                    await _to_the_end(reader)
            for _, writer in idle:
                writer.close()
        begun.clear()
        go_on.clear()


async def test_s06_without_descriptors_one_line_a_minute_says_so_and_the_next_peer_is_taken(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    loop = asyncio.get_running_loop()
    accept, left = loop.sock_accept, iter(range(50))

    async def accept_late(listening: socket) -> tuple[socket, Any]:
        if next(left, None) is not None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await accept(listening)

    monkeypatch.setattr(patience, "ALARM", 0)
    monkeypatch.setattr(loop, "sock_accept", accept_late)
    async with (
        served(HttpListener("127.0.0.1", 0), lambda: b"up 1\n") as port,
        ClientSession(headers=BEARER) as client,
        client.get(f"http://127.0.0.1:{port}{PATH}") as answer,
    ):
        assert await answer.read() == b"up 1\n"
    assert next(left, None) is None
    out, err = capfd.readouterr()
    assert (out, err.count("\n"), err.count("ulimit")) == ("", 1, 1)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("command", ["exporter", "serve", "serve checkpoints"])
def test_s05_a_program_with_few_descriptors_answers_beside_hundreds_of_idle_peers(
    tmp_path: Path, stack: ExitStack, command: str
) -> None:
    cluster = stack.enter_context(FakeCluster(1))
    order = TopicPartition("orders", 0)
    cluster.story.states[order] = replace(cluster.story.offline(order, (1,), isr=(1,)), leader=1)
    cluster.hold(1, order, (0, 10))
    server = cluster.brokers[1].endpoint
    words = [*command.split(), "--bootstrap-server", server, "--port", "0"]
    if command == "serve checkpoints":
        words += ["--topics", "orders", "--store", str(tmp_path)]
    few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
    with running(tmp_path, *words, before=few) as program:
        token = program.wait_for("token: ").removeprefix("token: ")
        said = program.wait_for("Open http" if command == "serve" else "Serving http")
        url = urlsplit(said.split()[1])
        peer = (str(url.hostname), int(url.port or 0))
        for _ in range(365):
            stack.enter_context(create_connection(peer))
        client = HTTPConnection(*peer, timeout=DEADLINE_SECONDS)
        client.request("GET", url.path, headers={"Authorization": f"Bearer {token}"})
        assert client.getresponse().status in (200, 502)
        client.close()
        assert not any("Traceback" in line or "ulimit" in line for line in program.said)


def test_half_of_what_tls_needs_and_a_key_that_does_not_fit_are_refused(
    server: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, _ = server
    other, secret = tmp_path / "other.key", tmp_path / "secret.key"
    other.write_text(Identity.authority().key_pem())
    secret.write_text(Identity.authority().key_pem("secret"))
    for given in (
        *((certificate, None), (None, server[1]), (certificate, tmp_path / "none")),
        *((certificate, other), (certificate, secret)),
    ):
        with pytest.raises(UsageError):
            HttpListener.at("127.0.0.1", 9600, *given)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_token_file_that_others_may_use_is_refused(token_file: Path, mode: int) -> None:
    token_file.chmod(mode)
    with pytest.raises(Refused) as refusal:
        token_of(TOKEN, token_file)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    "content",
    [b"short\n", b"", b"two words make no token", b"no-token\x00\xff-at-all", b"x" * 5000],
)
def test_what_is_no_token_is_refused_and_not_shown(token_file: Path, content: bytes) -> None:
    token_file.write_bytes(content)
    with pytest.raises(UsageError) as refusal:
        token_of(TOKEN, token_file)
    assert "two words" not in str(refusal.value)


def test_one_token_is_taken_unprinted_two_are_refused_and_without_one_it_is_made_and_printed(
    token_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    made = token_of(TOKEN)
    assert len(made) >= SHORTEST
    assert capsys.readouterr().err == f"token: {made}\n"
    assert token_of(TOKEN, token_file) == SECRET
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv(TOKEN, SECRET)
    with pytest.raises(UsageError):
        token_of(TOKEN, token_file)
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(UsageError, match=TOKEN):
        token_of(TOKEN)
