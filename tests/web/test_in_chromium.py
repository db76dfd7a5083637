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
TOUCHING = ("e", "h", "ctrl+s")
"""One of each kind; `test_session` presses all of them."""


def shows(*words: str) -> Callable[[list[str]], bool]:
    """Whether one line has all of these *words*."""
    return lambda lines: any(all(word in line for word in words) for line in lines)


def only(shown: str, gone: str) -> Callable[[list[str]], bool]:
    """Whether *shown* is there and *gone* is not, in the same frame."""
    return lambda lines: shown in "\n".join(lines) and gone not in "\n".join(lines)


def answers(lines: list[str]) -> int:
    """How often it is said that the dashboard is read-only."""
    return "\n".join(lines).count("read-only:")


async def test_a_browser_shows_what_is_offline_and_keys_that_touch_are_answered(
    serve_dashboard: ServeDashboard, page: Page
) -> None:
    await page.open(HERE.url(await serve_dashboard(HERE)))

    lines = await page.wait_for("13 offline")
    assert "READ-ONLY" in lines[0]
    await page.until(shows("LOSS  elect b1", "ledger-3"), "the partition that loses records")
    await page.until(shows("SAFE  elect b2", "payments-1"), "the partition that loses none")
    for key in TOUCHING:
        await page.press(key)
        await page.until(answers, f"an answer to {key}")
        await page.until(lambda lines: not answers(lines), "the answer to go")
    assert any("BOMB" in line for line in (await page.lines())[4:6]), "still the same screen"


async def test_with_the_token_a_browser_may_look_filter_and_use_the_palette(
    serve_dashboard: ServeDashboard, page: Page
) -> None:
    await page.open(HERE.url(await serve_dashboard(HERE)))
    await page.wait_for("13 offline")

    await page.press("/", *"ledger", "Enter")
    await page.until(only("ledger-3", "payments-1"), "the one that is looked for, alone")
    await page.press("1")
    await page.wait_for("Log dirs")
    await page.press("2")
    await page.wait_for("ledger-3")
    await page.press(":")
    await page.wait_for("Search")
    await page.press(*"elect", "Enter")
    await page.until(answers, "an answer to the palette")


async def test_a_browser_shows_all_eight_screens_and_changes_nothing_on_them(
    serve_dashboard: ServeDashboard, page: Page
) -> None:
    await page.open(HERE.url(await serve_dashboard(HERE)))
    await page.wait_for("13 offline")

    for key, words in SHOWN.items():
        await page.press(key)
        await page.wait_for(words)
    for key in ("t", "R", "x"):
        await page.press(key)
        await page.until(answers, f"an answer to {key}")
        await page.until(lambda lines: not answers(lines), "the answer to go")
    await page.press("3", "p")
    await page.until(shows("BOMB", "carts-0"), "a plan to look at")
    await page.press("a")
    await page.until(answers, "an answer to an approval")


async def test_a_page_says_that_its_session_has_ended(
    serve_dashboard: ServeDashboard, page: Page
) -> None:
    await page.open(HERE.url(await serve_dashboard(HERE)))
    await page.wait_for("13 offline")

    await page.press("q")

    await page.until_true(f"document.body.innerText.includes({ENDED!r})", ENDED)


async def test_without_the_token_a_browser_is_told_what_to_open(
    serve_dashboard: ServeDashboard, page: Page
) -> None:
    port = await serve_dashboard(HERE)

    await page.open(f"http://127.0.0.1:{port}/")

    await page.until_true("document.body.innerText.includes('with the token')", "the advice")
