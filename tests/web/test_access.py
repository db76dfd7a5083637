"""Who gets an answer from the dashboard's server, and who does not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from email import message_from_bytes
from email.message import Message
from typing import NamedTuple

import psutil
import pytest
from aiohttp import ClientSession, CookieJar, WSServerHandshakeError

from breakglass.console.web.access import Access
from breakglass.console.web.listener import HttpListener
from breakglass.console.web.server import SESSIONS, Dashboard, serve
from breakglass.services.errors import UsageError
from tests.kit.waiting import DEADLINE_SECONDS
from tests.web.conftest import ServeDashboard

ANY = "0.0.0.0"  # noqa: S104 - the address that takes a token
TOKEN = "a-token-of-the-operators"
LOOPBACK = HttpListener("127.0.0.1", 0)
HERE = Access(LOOPBACK, TOKEN)
BEHIND_TLS = Access(LOOPBACK, TOKEN, behind_tls=True)
IDLE = (sys.executable, "-c", "import signal; signal.pause()")
"""In place of a console."""
KNOWN = {"Cookie": f"breakglass={TOKEN}"}
"""Of a browser that has opened the address with the token."""


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    """A browser's way with cookies, and nothing else of it."""
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield session


class Head(NamedTuple):
    status: int
    headers: Message


async def raw(port: int, *lines: bytes) -> Head:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    host = f"Host: 127.0.0.1:{port}".encode()
    writer.write(b"\r\n".join((*lines, host, b"Connection: close", b"", b"")))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    first, _, rest = answer.partition(b"\r\n")
    return Head(int(first.split()[1]), message_from_bytes(rest))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", ANY, "10.1.2.3"])
def test_every_address_takes_a_token_this_machines_own_too(host: str) -> None:
    first, second = Access.to(HttpListener(host, 0)).token, Access.to(HttpListener(host, 0)).token
    assert len(first) >= 32
    assert first != second
    with pytest.raises(UsageError):
        Access.to(HttpListener(host, 0), "short")


@pytest.mark.parametrize(
    ("access", "url"),
    [
        (Access(HttpListener("::1", 0), TOKEN), f"http://[::1]:8417/?token={TOKEN}"),
        (Access(HttpListener(ANY, 0), "a/b c"), "http://0.0.0.0:8417/?token=a%2Fb+c"),
        (Access.to(LOOPBACK, TOKEN), "http://127.0.0.1:8417/?token="),
    ],
    ids=["made here", "made here, to be quoted", "the operator's own is not told"],
)
def test_the_address_to_open_holds_a_token_that_was_made_here(access: Access, url: str) -> None:
    assert access.url(8417) == url


async def test_without_the_token_there_is_nothing(
    client: ClientSession, serve_dashboard: ServeDashboard
) -> None:
    port = await serve_dashboard(HERE)
    for path in ("/", "/ws", "/static/js/textual.js", "/nowhere"):
        for query in ("", "?token=", "?token=a-token-of-the-operator", "?token=%ff"):
            async with client.get(f"http://127.0.0.1:{port}{path}{query}") as answer:
                assert answer.status == 403, path + query
                assert "token" in await answer.text()


async def test_bytes_of_any_kind_are_refused_and_tell_no_version(
    serve_dashboard: ServeDashboard,
) -> None:
    port = await serve_dashboard(HERE)
    for line in (
        b"Cookie: breakglass=\xff\xfe",
        b"Cookie: breakglass=\xed\xa0\x80",
        b"Cookie: \xff=1",
        b"Content-Type: text/plain; charset=none-such",
        b"Content-Type: \xff",
        b"Cookie breakglass",
        b"Transfer-Encoding: none-such",
    ):
        head = await raw(port, b"GET / HTTP/1.1", line)
        assert head.status in (400, 403), line
        assert head.headers["Server"] == "breakglass"


async def test_the_token_leads_to_no_other_place_and_what_else_the_address_says_stays(
    serve_dashboard: ServeDashboard,
) -> None:
    port = await serve_dashboard(HERE)
    elsewhere = ("//evil.example/", "//evil.example", "/\\evil.example/", "/%2fevil.example/")
    for target in (*elsewhere, "/ws"):
        head = await raw(port, f"GET {target}?token={TOKEN} HTTP/1.1".encode())
        assert 400 <= head.status < 500, target
        assert "Location" not in head.headers
        assert "Set-Cookie" not in head.headers
    head = await raw(port, f"GET /?fontsize=20&token={TOKEN} HTTP/1.1".encode())
    assert (head.status, head.headers["Location"]) == (303, "/?fontsize=20")
    assert head.headers["Server"] == "breakglass"


async def test_the_token_opens_a_page_that_needs_nothing_from_elsewhere_and_leaves_the_address(
    client: ClientSession, serve_dashboard: ServeDashboard
) -> None:
    port = await serve_dashboard(HERE)
    address = f"http://127.0.0.1:{port}/"
    async with client.get(f"{address}?token={TOKEN}") as answer:
        assert (answer.status, str(answer.url)) == (200, address)
        (moved,) = answer.history
        cookie = moved.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "Secure" not in cookie
        assert answer.headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    async with client.get(f"{address}static/js/textual.js") as answer:
        assert answer.status == 200
    # A server that was not told of TLS does not believe a header.
    async with client.get(address, headers=KNOWN | {"X-Forwarded-Proto": "https"}) as answer:
        page = await answer.text()
    assert "<title>Breakglass &lt;canned&gt;</title>" in page
    assert "http://" not in page
    assert "https://" not in page
    assert f'"ws://127.0.0.1:{port}/ws"' in page


async def test_behind_tls_cookie_page_and_socket_ask_for_tls(
    client: ClientSession, serve_dashboard: ServeDashboard
) -> None:
    port = await serve_dashboard(BEHIND_TLS, IDLE)
    address = f"http://127.0.0.1:{port}"
    moved = await raw(port, f"GET /?token={TOKEN} HTTP/1.1".encode())
    assert "Secure" in moved.headers["Set-Cookie"]
    async with client.get(f"{address}/", headers=KNOWN) as answer:
        assert f'"wss://127.0.0.1:{port}/ws"' in await answer.text()
    plain = KNOWN | {"Origin": address}
    with pytest.raises(WSServerHandshakeError):
        await client.ws_connect(f"{address}/ws", headers=plain)
    own = KNOWN | {"Origin": f"https://127.0.0.1:{port}"}
    async with client.ws_connect(f"{address}/ws", headers=own) as socket:
        assert not socket.closed


async def test_only_so_many_consoles_are_started_and_none_for_a_page_of_another_site(
    client: ClientSession, serve_dashboard: ServeDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SESSIONS > 1
    monkeypatch.setattr("breakglass.console.web.server.SESSIONS", 1)
    port = await serve_dashboard(HERE, IDLE)

    async def refusal(origin: str) -> int:
        headers = KNOWN | {"Origin": origin}
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(f"http://127.0.0.1:{port}/ws", headers=headers)
        return refused.value.status

    for origin in ("http://evil.example", "http://127.0.0.1:1", "null", ""):
        assert await refusal(origin) == 403
    own = f"http://127.0.0.1:{port}"
    async with client.ws_connect(f"{own}/ws", headers=KNOWN | {"Origin": own}):
        assert await refusal(own) == 503


async def test_a_browser_that_sends_nonsense_loses_its_console(
    client: ClientSession, serve_dashboard: ServeDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.console.web.server.END_SECONDS", 0.1)
    own = f"http://127.0.0.1:{await serve_dashboard(HERE, IDLE)}"
    for sent in ("", "{}", "3", '["stdin"]', '["stdin", 3]', '["resize", {"width": 1}]'):
        async with client.ws_connect(f"{own}/ws", headers=KNOWN | {"Origin": own}) as socket:
            await socket.send_str(sent)
            async for _ in socket:
                continue
            assert socket.closed, sent


async def test_a_server_that_has_ended_has_waited_for_every_console(
    client: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.console.web.server.SHUTDOWN_SECONDS", 0.01)
    monkeypatch.setattr("breakglass.console.web.server.END_SECONDS", 0.5)
    busy = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    dashboard = Dashboard(HERE, (sys.executable, "-c", busy), {}, "Breakglass")
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(dashboard, stop, port.set_result))
    own = KNOWN | {"Origin": f"http://127.0.0.1:{await port}"}

    try:
        await client.ws_connect(f"http://127.0.0.1:{await port}/ws", headers=own)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not (started := consoles(busy)):
                await asyncio.sleep(0.01)
    finally:
        # asyncio never ends a program whose start is cancelled together with all else.
        stop.set()
        await serving

    assert not any(process.is_running() for process in started)


def consoles(script: str) -> list[psutil.Process]:
    """The children of this process that run *script*."""
    found = []
    for child in psutil.Process().children():
        # A broker that other tests stopped and nobody has waited for has no command line.
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            found += [child] if script in child.cmdline() else []
    return found
