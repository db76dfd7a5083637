"""Who gets an answer from the dashboard's server, and who does not."""

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

from breakglass.console.web.listener import HEADERS, HttpListener, serve_until
from breakglass.console.web.server import SESSIONS, Access, Dashboard
from tests.kit.waiting import DEADLINE_SECONDS
from tests.web.conftest import ServeDashboard

TOKEN = "a-token-of-the-operators"
LOOPBACK = HttpListener("127.0.0.1", 0)
IDLE = (sys.executable, "-c", "import signal; signal.pause()")
"""In place of a console."""
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def here(*names: str, behind_tls: bool = False) -> Access:
    return Access(LOOPBACK, TOKEN, names, behind_tls=behind_tls)


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    """A browser's way with cookies, and nothing else of it."""
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield session


async def entered(client: ClientSession, own: str, bearer: str = TOKEN) -> dict[str, str]:
    """What a websocket of the page at *own* sends, once it has exchanged *bearer*."""
    headers = {"Origin": own, "Authorization": f"Bearer {bearer}"}
    async with client.post(f"{own}/session", headers=headers) as answer:
        assert answer.status == 200
        key = (await answer.json())["key"]
    return {"Origin": own, "Sec-WebSocket-Protocol": f"breakglass, {key}"}


async def refusal(client: ClientSession, own: str, headers: dict[str, str]) -> int:
    """The status with which a websocket is refused."""
    with pytest.raises(WSServerHandshakeError) as refused:
        await client.ws_connect(f"{own}/ws", headers=headers)
    return refused.value.status


class Head(NamedTuple):
    status: int
    headers: Message


async def raw(port: int, *lines: bytes, host: str = "127.0.0.1") -> Head:
    """The answer to a request of these lines, once the server has closed the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    named = f"Host: {host}:{port}".encode()
    writer.write(b"\r\n".join((*lines, named, b"Connection: close", b"", b"")))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    first, _, rest = answer.partition(b"\r\n")
    return Head(int(first.split()[1]), message_from_bytes(rest))


async def test_s01_the_page_holds_nothing_and_a_key_takes_the_token_and_the_pages_own_origin(
    client: ClientSession, serve_dashboard: ServeDashboard
) -> None:
    own = f"http://127.0.0.1:{await serve_dashboard(here(), IDLE)}"
    for path in ("/", "/page.js", "/static/js/textual.js"):
        async with client.get(f"{own}{path}?token={TOKEN}") as answer:
            page = await answer.text()
            assert (answer.status, answer.cookies, "canned" in page) == (200, {}, False)
    wrong = ("", "Bearer ", "Bearer a-token-of-the-operator", f"Basic {TOKEN}", "Bearer \xff")
    for origin, authorization, status in (
        *((own, one, 401) for one in wrong),
        *((one, BEARER["Authorization"], 403) for one in ("http://evil.example", "null", "")),
    ):
        headers = {"Origin": origin, "Authorization": authorization}
        async with client.post(f"{own}/session", headers=headers) as answer:
            assert (answer.status, answer.cookies) == (status, {}), headers
            assert answer.headers["Connection"] == "close"
    key = await entered(client, own)
    assert TOKEN not in str(key)
    for headers in (BEARER, {"Cookie": f"breakglass={TOKEN}"}, {"Sec-WebSocket-Protocol": TOKEN}):
        assert await refusal(client, own, {"Origin": own, **headers}) == 403
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null", ""):
        assert await refusal(client, own, {**key, "Origin": origin}) == 403


async def test_s01_a_key_opens_one_console_and_ends_when_its_page_is_loaded_again(
    client: ClientSession, serve_dashboard: ServeDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.console.web.server.KEYS", 2)
    own = f"http://127.0.0.1:{await serve_dashboard(here(), IDLE)}"
    first = await entered(client, own)
    async with client.ws_connect(f"{own}/ws", headers=first):
        assert await refusal(client, own, first) == 409
    again = await entered(client, own, first["Sec-WebSocket-Protocol"].split()[1])
    assert await refusal(client, own, first) == 403
    others = [await entered(client, own) for _ in range(2)]
    assert await refusal(client, own, again) == 403, "older than as many pages as are known"
    assert len({str(key) for key in (first, again, *others)}) == 4


async def test_s02_only_addresses_and_names_of_the_dashboard_are_answered(
    serve_dashboard: ServeDashboard,
) -> None:
    port = await serve_dashboard(here("Dash.prod"))
    for host, status in {
        **dict.fromkeys(("127.0.0.1", "[::1]", "10.1.2.3", "localhost", "dash.prod"), 200),
        **dict.fromkeys(("evil.example", "127.0.0.1.evil.example", "[", "a@b", ""), 421),
    }.items():
        for path in ("/", "/ws", "/session", "/static/js/textual.js"):
            head = await raw(port, f"GET {path} HTTP/1.1".encode(), host=host)
            assert (head.status == 421) == (status == 421), (host, path)


async def test_s03_every_answer_has_the_same_headers_and_tells_no_version(
    serve_dashboard: ServeDashboard, capfd: pytest.CaptureFixture[str]
) -> None:
    port = await serve_dashboard(here())
    get = b"GET / HTTP/1.1"
    for status, lines in (
        *((200, (get, line)) for line in (b"Cookie: a=\xff", b"Content-Type: \xff", b"A: b")),
        (200, (b"GET /static/js/textual.js HTTP/1.1",)),
        (403, (b"GET /ws HTTP/1.1",)),
        (404, (b"GET /nowhere HTTP/1.1",)),
        (404, (b"GET /static/../access.py HTTP/1.1",)),
        (405, (b"DELETE / HTTP/1.1",)),
        (401, (b"POST /session HTTP/1.1", f"Origin: http://127.0.0.1:{port}".encode())),
        *((400, (get, line)) for line in (b"Cookie breakglass", b"Transfer-Encoding: none-such")),
        *((400, (line,)) for line in (b"\x16\x03\x01", b"GET / HTTP/1.1\r\nA: " + b"a" * 9000)),
        (400, (get, *(b"A: b" for _ in range(100)))),
    ):
        head = await raw(port, *lines)
        assert head.status == status, lines
        assert head.headers["Server"] == "breakglass"
        assert {name: head.headers[name] for name in HEADERS} == HEADERS
    assert capfd.readouterr() == ("", "")


async def test_behind_tls_only_a_page_that_came_by_https_gets_a_key(
    client: ClientSession, serve_dashboard: ServeDashboard
) -> None:
    own = f"http://127.0.0.1:{await serve_dashboard(here(behind_tls=True), IDLE)}"
    for origin, status in ((own, 403), (own.replace("http", "https"), 200)):
        # A server that was not told of TLS does not believe a header, nor does one that was.
        headers = {"Origin": origin, "X-Forwarded-Proto": "https", **BEARER}
        async with client.post(f"{own}/session", headers=headers) as answer:
            assert answer.status == status


async def test_only_so_many_consoles_are_started(
    client: ClientSession, serve_dashboard: ServeDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SESSIONS > 1
    monkeypatch.setattr("breakglass.console.web.server.SESSIONS", 1)
    own = f"http://127.0.0.1:{await serve_dashboard(here(), IDLE)}"
    async with client.ws_connect(f"{own}/ws", headers=await entered(client, own)):
        assert await refusal(client, own, await entered(client, own)) == 503


async def test_a_browser_that_sends_nonsense_loses_its_console(
    client: ClientSession, serve_dashboard: ServeDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.console.web.server.END_SECONDS", 0.1)
    own = f"http://127.0.0.1:{await serve_dashboard(here(), IDLE)}"
    for sent in ("", "{}", "3", '["stdin"]', '["stdin", 3]', '["resize", {"width": 1}]'):
        async with client.ws_connect(f"{own}/ws", headers=await entered(client, own)) as socket:
            await socket.send_str(sent)
            async for _ in socket:
                continue
            assert socket.closed, sent


async def test_a_server_that_has_ended_has_waited_for_every_console(
    client: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.console.web.server.END_SECONDS", 0.5)
    busy = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    application = Dashboard(here(), (sys.executable, "-c", busy), {}, "Breakglass").application()
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_until(application, LOOPBACK, stop, port.set_result, 0.01))
    own = f"http://127.0.0.1:{await port}"

    try:
        await client.ws_connect(f"{own}/ws", headers=await entered(client, own))
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
