"""The dashboard in a real browser: it shows what is offline, and changes nothing."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from breakglass.console.web.listener import HttpListener
from breakglass.console.web.server import Access
from tests.kit.waiting import wait_until
from tests.web.browser import Page, browser
from tests.web.conftest import ServeDashboard
from tests.web.test_session import SHOWN

LOOPBACK = HttpListener("127.0.0.1", 0)
TOKEN = "a-token-of-the-operators"
ENDED = "This session has ended."


def shows(*words: str) -> Callable[[list[str]], bool]:
    return lambda lines: any(all(word in line for word in words) for line in lines)


def only(shown: str, gone: str) -> Callable[[list[str]], bool]:
    """Whether *shown* is there and *gone* is not, in the same frame."""
    return lambda lines: shown in "\n".join(lines) and gone not in "\n".join(lines)


def answers(lines: list[str]) -> int:
    return "\n".join(lines).count("read-only:")


async def answered(page: Page, *keys: str) -> None:
    """Press keys that touch something; to each it is said that the dashboard is read-only."""
    for key in keys:
        await page.press(key)
        await page.until(answers, f"an answer to {key}")
        await page.until(lambda lines: not answers(lines), "the answer to go")


async def test_s01_what_listens_beside_hears_no_secret_and_the_browser_keeps_no_token(
    serve_dashboard: ServeDashboard, tmp_path: Path
) -> None:
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # A browser connects before it asks.
            heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbait")
        writer.close()

    dashboard = f"http://127.0.0.1:{await serve_dashboard(Access(LOOPBACK, TOKEN))}/"
    beside = await asyncio.start_server(hear, "127.0.0.1")
    port = beside.sockets[0].getsockname()[1]
    kept = "sessionStorage.length + document.cookie.length"
    async with beside, browser(tmp_path / "browser") as page:
        await page.open(dashboard)
        await page.enter(TOKEN)
        await page.wait_for("13 offline")
        assert await page.evaluate(kept) == 1
        await page.open(f"http://127.0.0.1:{port}/")
        await page.until_true("document.body.innerText === 'bait'", "the page beside")
        assert await page.evaluate(kept) == 0
        for _ in range(3):
            await page.open(dashboard)
            await page.wait_for("13 offline")
        # The browser writes it every few seconds.
        history = tmp_path / "browser" / "Default" / "History"
        visited = str(port).encode()
        await asyncio.to_thread(
            wait_until, lambda: history.exists() and visited in history.read_bytes(), "the history"
        )
    assert heard
    assert not any(b"cookie" in one.lower() or TOKEN.encode() in one for one in heard)
    files = [path for path in (tmp_path / "browser").rglob("*") if path.is_file()]
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []


async def test_with_the_token_a_browser_may_look_at_all_screens_and_change_nothing(
    serve_dashboard: ServeDashboard, page: Page
) -> None:
    port = await serve_dashboard(Access(LOOPBACK, TOKEN))
    await page.open(f"http://127.0.0.1:{port}/")
    await page.enter("a-token-of-the-operator")
    await page.until_true("document.body.innerText.includes('Type the token')", "the refusal")
    await page.enter(TOKEN)
    lines = await page.wait_for("13 offline")
    hidden = "getComputedStyle(document.querySelector('.connecting')).display === 'none'"
    await page.until_true(hidden, "that it is connected")
    assert "READ-ONLY" in lines[0]
    await page.until(shows("LOSS  elect b1", "ledger-3"), "the partition that loses records")
    await page.until(shows("SAFE  elect b2", "payments-1"), "the partition that loses none")
    said = await page.lines()
    assert not any(words in line for line in said for words in (" e elect ", "press W"))
    await answered(page, "e")
    assert any("BOMB" in line for line in (await page.lines())[4:6]), "still the same screen"

    await page.press("/", *"ledger", "Enter")
    await page.until(only("ledger-3", "payments-1"), "the one that is looked for, alone")
    for key, words in SHOWN.items():
        await page.press(key)
        await page.wait_for(words)
    await answered(page, "x")
    await page.press("3", "p")
    await page.until(shows("BOMB", "carts-0"), "a plan to look at")
    await answered(page, "a")
    await page.press("2", ":")
    await page.wait_for("Search")
    await page.press(*"elect", "Enter")
    await page.until(answers, "an answer to the palette")

    await page.press("q")
    await page.until_true(f"document.body.innerText.includes({ENDED!r})", ENDED)
