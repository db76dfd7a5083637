"""The tree of backups: every key, each branch looked up when it is opened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from breakglass.console.app import BreakglassApp
from breakglass.screens.browse import RecordsScreen
from breakglass.screens.help import HelpScreen
from breakglass.screens.messages import BrowseAsked, CopyAsked
from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.browse.tree import TopicNode
from breakglass.services.topic_backup.layout import segment_prefix
from breakglass.services.topic_backup.manifest import TopicIdentity
from tests.kit import waiting
from tests.screens.browse.opened import a_place, browser, idle, orders, under, within
from tests.screens.every_key import press_every_key
from tests.screens.test_journal import heard, notices
from tests.screens.turns import lines, text, until
from tests.unit.topic_backup.backups import back_up


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with within(tmp_path):
        yield a_place(Path("backups"))


@pytest.fixture
def console(place: Path) -> BreakglassApp:
    return browser(place)


def shows(console: Any, words: str) -> Callable[[], bool]:
    return lambda: words in text(console)


def under_cursor(console: Any) -> str:
    """The name on the line of the cursor."""
    line = next((line for line in lines(console) if line.startswith(">")), "")
    words = line.removeprefix(">").replace("▸", " ").replace("▾", " ").split()
    return " ".join(words[:2]) if words[:1] in (["partition"], ["from"]) else "".join(words[:1])


async def test_enter_leads_from_the_place_to_records(console: BreakglassApp, place: Path) -> None:
    async with console.run_test(size=(120, 40)) as pilot:
        await under(pilot, str(place), "orders", "0", segment_prefix(0, 93))
        await until(pilot, shows(console, "offsets 93 to 184, 92 records, 12 kB"), "its facts")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(console.screen, RecordsScreen), "the records")
        await idle(pilot)
        assert any("▌" in line and " 93 " in line for line in lines(console))
        await pilot.press("escape", "left", "left")
        await until(pilot, lambda: "partition 0" not in text(console), "the topic alone")
        assert under_cursor(console) == "orders"


async def test_r_shows_the_records_of_a_partition(console: BreakglassApp, place: Path) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await under(pilot, str(place), "old", "0")
        await pilot.press("r")
        await until(pilot, lambda: isinstance(console.screen, RecordsScreen), "the records")
        await until(pilot, shows(console, "offsets 0 to 19"), "where they end")


async def test_a_topic_that_cannot_be_read_has_its_reason(
    console: BreakglassApp, place: Path
) -> None:
    async with console.run_test(size=(120, 40)) as pilot:
        await under(pilot, str(place), "torn")
        await pilot.press("enter")
        await until(pilot, shows(console, "Expecting"), "the reason")
        await pilot.press("r", "d", "y", "right", "left")
        assert not isinstance(console.screen, RecordsScreen)


async def test_two_partitions_are_marked_and_compared(
    console: BreakglassApp, place: Path, tmp_path: Path
) -> None:
    async with console.run_test(size=(120, 40)) as pilot:
        await under(pilot, str(place), "old", "0")
        await pilot.press("d")
        await until(pilot, shows(console, "d or o on another compares"), "the mark")
        await pilot.press("d")
        await until(pilot, lambda: "on another compares" not in text(console), "no mark")
        await pilot.press("d", "escape")
        await until(pilot, lambda: "on another compares" not in text(console), "no mark")
        await pilot.press("d")
        copy = back_up(tmp_path / "copy", orders(0, 20), identity=TopicIdentity("old"))
        await pilot.press("o")
        await until(pilot, lambda: isinstance(console.screen, Prompt), "the question")
        field = console.screen.query_one(Input)
        field.value = f"backup:{copy}/0"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(console.screen, RecordsScreen), "both")
        await until(pilot, shows(console, "No differences."), "the totals")


async def test_partitions_that_have_no_offsets_in_common_are_refused(
    console: BreakglassApp, place: Path
) -> None:
    async with console.run_test(size=(120, 40), notifications=True) as pilot:
        await under(pilot, str(place), "old", "0")
        await pilot.press("d")
        await under(pilot, str(place), "orders", "0")
        await pilot.press("d")
        await until(pilot, lambda: "no offsets in common" in notices(console), "why not")


async def test_an_address_that_is_none_is_told_of_at_once(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shows(console, "orders"), "the topics")
        await pilot.press("o", *"orders/0", "enter")
        await until(pilot, shows(console, "names no kind of source"), "what is wrong")
        await pilot.press("escape", "escape")


async def test_a_filter_keeps_topics_and_esc_gives_the_rest_back(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shows(console, "torn"), "the topics")
        await pilot.press("slash", *"ord", "enter")
        await until(pilot, lambda: "torn" not in text(console), "what fits")
        await pilot.press("escape")
        await until(pilot, shows(console, "torn"), "all of it")
        await pilot.press("slash", "escape", "down")
        assert under_cursor(console) == "old"


async def test_the_address_is_copied(console: BreakglassApp, place: Path) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await under(pilot, str(place), "old", "0")
        with heard(console, CopyAsked) as asked:
            await pilot.press("y")
            await until(pilot, lambda: asked, "the copy")
        assert asked[0].text == f"backup:{place}/old/0"


async def test_reading_again_shows_what_has_come(console: BreakglassApp, place: Path) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shows(console, "torn"), "the topics")
        back_up(place, orders(0, 3), identity=TopicIdentity("newer"))
        await pilot.press("ctrl+r")
        await until(pilot, shows(console, "newer"), "the new one")


async def test_a_branch_that_hangs_keeps_neither_keys_nor_the_end(
    console: BreakglassApp, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hang(_: TopicNode) -> Any:
        released.wait(30.0)

    monkeypatch.setattr("breakglass.screens.browse.screen.partitions_in", hang)
    try:
        async with console.run_test(size=(120, 40)) as pilot:
            await under(pilot, str(place), "orders")
            await pilot.press("enter")
            await until(pilot, shows(console, "reading"), "the word on it")
            began = time.monotonic()
            await pilot.press("up", "down")
            assert under_cursor(console) == "orders"
        assert time.monotonic() - began < waiting.within(2.0)
    finally:
        released.set()


async def test_without_a_place_it_says_how_to_open_something() -> None:
    console = browser()
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shows(console, "o opens a source"), "the sentence")
        await pilot.press("enter", "r", "d", "y", "left", "right")


async def test_a_key_leads_here_and_the_help_names_the_others(console: BreakglassApp) -> None:
    async with console.run_test(size=(100, 40)) as pilot:
        await until(pilot, shows(console, "orders"), "the topics")
        await pilot.press("1", "6")
        assert console.current_mode == "browse"
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(console.screen, HelpScreen), "the help")
        for words in ("Mark a partition; on a second one", "Open a source by its address"):
            await until(pilot, shows(console, words), words)


async def test_a_partition_of_the_backups_leads_to_its_records(place: Path) -> None:
    console = browser(place)
    async with console.run_test(size=(120, 40)) as pilot:
        with heard(console, BrowseAsked) as asked:
            await pilot.press("5")
            await until(pilot, shows(console, "▸orders"), "the topics")
            for _ in range(20):
                if under_cursor(console) == "orders":
                    break
                await pilot.press("down")
            assert under_cursor(console) == "orders"
            await pilot.press("right", "down", "enter")
            await until(pilot, lambda: asked, "the records")
        assert str(asked[0].left) == f"backup:{place}/orders/0"


@pytest.mark.timeout(120)
async def test_every_key_can_be_pressed(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shows(console, "orders"), "the topics")
        pressed = await press_every_key(pilot, "browse")
        assert "BrowseScreen" in pressed
