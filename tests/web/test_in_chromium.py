"""The dashboard in a real browser: it shows what is offline, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from breakglass.console.web.access import Access
from breakglass.console.web.listener import HttpListener
from tests.web.browser import Page
from tests.web.conftest import ServeDashboard
from tests.web.test_session import SHOWN

HERE = Access(HttpListener("127.0.0.1", 0), "a-token-of-the-operators")
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


async def test_with_the_token_a_browser_may_look_at_all_screens_and_change_nothing(
    serve_dashboard: ServeDashboard, page: Page
) -> None:
    port = await serve_dashboard(HERE)
    await page.open(f"http://127.0.0.1:{port}/")
    await page.until_true("document.body.innerText.includes('with the token')", "the advice")

    await page.open(HERE.url(port))
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
