"""Who gets an answer from the dashboard's server, and who does not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, CookieJar, WSServerHandshakeError

from console.web.access import Access, is_loopback
from console.web.server import SESSIONS
from services.errors import UsageError
from tests.web.conftest import ServeDashboard

ANY = "0.0.0.0"  # noqa: S104 - the address that takes a token
TOKEN = "a-token-of-the-operators"
ANYWHERE = Access("127.0.0.1", TOKEN)
HERE = Access("127.0.0.1")


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    """A browser's way with cookies, and nothing else of it."""
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield session


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_this_machine_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    assert Access.for_host(host).token is None


@pytest.mark.parametrize("host", [ANY, "::", "10.1.2.3", "kafka.example", "localhost.evil"])
def test_any_other_address_takes_a_token(host: str) -> None:
    first, second = Access.for_host(host).token, Access.for_host(host).token

    assert first is not None
    assert len(first) >= 32
    assert first != second


def test_a_token_of_the_operators_own_is_taken_on_this_machine_too() -> None:
    assert Access.for_host("127.0.0.1", TOKEN).token == TOKEN


def test_a_token_that_keeps_nobody_out_is_refused() -> None:
    with pytest.raises(UsageError, match="the token has 5 characters, and needs 16"):
        Access.for_host(ANY, "short")


@pytest.mark.parametrize(
    ("access", "url"),
    [
        (HERE, "http://127.0.0.1:8417/"),
        (Access("::1"), "http://[::1]:8417/"),
        (Access(ANY, "a/b c"), "http://0.0.0.0:8417/?token=a%2Fb+c"),
    ],
)
def test_the_address_to_open_holds_the_token(access: Access, url: str) -> None:
    assert access.url(8417) == url


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js", "/nowhere"])
@pytest.mark.parametrize("query", ["", "?token=", "?token=a-token-of-the-operator"])
async def test_without_the_token_there_is_nothing(
    client: ClientSession, serve_dashboard: ServeDashboard, path: str, query: str
) -> None:
    port = await serve_dashboard(ANYWHERE)

    async with client.get(f"http://127.0.0.1:{port}{path}{query}") as answer:
        assert answer.status == 403
        assert "token included" in await answer.text()


async def test_the_token_opens_the_page_and_leaves_the_address(
    client: ClientSession, serve_dashboard: ServeDashboard
) -> None:
    port = await serve_dashboard(ANYWHERE)

    async with client.get(f"http://127.0.0.1:{port}/?token={TOKEN}") as answer:
        assert answer.status == 200
        assert str(answer.url) == f"http://127.0.0.1:{port}/"
        (moved,) = answer.history
        cookie = moved.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "<title>Breakglass &lt;canned&gt;</title>" in await answer.text()
        assert answer.headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    async with client.get(f"http://127.0.0.1:{port}/static/js/textual.js") as answer:
        assert answer.status == 200


async def test_the_page_needs_nothing_from_elsewhere(
    client: ClientSession, serve_dashboard: ServeDashboard
) -> None:
    port = await serve_dashboard(HERE)

    async with client.get(f"http://127.0.0.1:{port}/") as answer:
        page = await answer.text()
    assert "http://" not in page
    assert "https://" not in page
    assert f'"ws://127.0.0.1:{port}/ws"' in page


async def test_behind_tls_the_page_asks_for_tls(
    client: ClientSession, serve_dashboard: ServeDashboard
) -> None:
    port = await serve_dashboard(HERE)

    headers = {"X-Forwarded-Proto": "https"}
    async with client.get(f"http://127.0.0.1:{port}/", headers=headers) as answer:
        assert f'"wss://127.0.0.1:{port}/ws"' in await answer.text()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[", ""])
async def test_a_name_that_was_led_here_is_not_answered(
    client: ClientSession, serve_dashboard: ServeDashboard, host: str
) -> None:
    port = await serve_dashboard(HERE)

    headers = {"Host": host}
    async with client.get(f"http://127.0.0.1:{port}/", headers=headers) as answer:
        assert answer.status in (400, 403)


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null", ""])
async def test_a_page_of_another_site_gets_no_console(
    client: ClientSession, serve_dashboard: ServeDashboard, origin: str
) -> None:
    port = await serve_dashboard(HERE)

    with pytest.raises(WSServerHandshakeError) as refused:
        await client.ws_connect(f"http://127.0.0.1:{port}/ws", headers={"Origin": origin})
    assert refused.value.status == 403


async def test_only_so_many_consoles_are_started(
    client: ClientSession, serve_dashboard: ServeDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SESSIONS > 1
    monkeypatch.setattr("console.web.server.SESSIONS", 1)
    port = await serve_dashboard(HERE)
    own = {"Origin": f"http://127.0.0.1:{port}"}

    async with client.ws_connect(f"http://127.0.0.1:{port}/ws", headers=own):
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(f"http://127.0.0.1:{port}/ws", headers=own)
    assert refused.value.status == 503


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "{}",
        "[]",
        "3",
        '["stdin"]',
        '["stdin", 3]',
        '["resize", []]',
        '["resize", {"width": 1}]',
    ],
)
async def test_a_browser_that_sends_nonsense_loses_its_console(
    client: ClientSession, serve_dashboard: ServeDashboard, sent: str
) -> None:
    port = await serve_dashboard(HERE)
    own = {"Origin": f"http://127.0.0.1:{port}"}

    async with client.ws_connect(f"http://127.0.0.1:{port}/ws", headers=own) as socket:
        await socket.send_str(sent)
        async for _ in socket:
            continue
        assert socket.closed
