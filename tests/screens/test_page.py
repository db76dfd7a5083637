"""What every screen has: the status on top, the keys below, help, the palette, ages."""

import gc
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from textual.app import App
from textual.binding import Binding
from textual.command import CommandPalette
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from breakglass.console.memory import put_off_collecting, resume_collecting
from breakglass.screens.context import Known
from breakglass.screens.help import LEGEND, HelpScreen, LegendScreen, help_lines
from breakglass.screens.messages import CopyAsked, MutationBegan, MutationEnded
from breakglass.screens.screenshot import self_contained
from breakglass.screens.widgets.key_bar import KeyBar
from breakglass.services.errors import TimedOut
from tests.kit.clock import Clock
from tests.kit.incidents import diverged_incident, every_verdict, nothing_offline
from tests.screens.bare_page import BarePage
from tests.screens.consoles import console_on, watch_of
from tests.screens.drawing import at_rest, stopped_clock
from tests.screens.turns import hides, lines, opens, shows, text, until

pytestmark = pytest.mark.usefixtures("bare_pages")

NO_ANSWER = TimedOut("no broker answers: check the address, the tunnel and the brokers", "silence")


@asynccontextmanager
async def page(
    *readings: Any, size: tuple[int, int] = (80, 24), first: str = "1 offline", **options: Any
) -> AsyncIterator[Pilot[Any]]:
    """A bare page, once its status says *first*."""
    console = console_on(*(readings or (diverged_incident(),)), **options)
    async with console.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: first in lines(console)[0], first)
        await until(pilot, lambda: not console.context.known.reading, "the end of the refresh")
        yield pilot


def known_of(pilot: Pilot[Any]) -> Known:
    known: Known = pilot.app.context.known  # type: ignore[attr-defined]
    return known


def asked_of(pilot: Pilot[Any]) -> list[bool]:
    """The refreshes: whether everything was to be read."""
    return watch_of(pilot.app).asked  # type: ignore[arg-type]


async def test_the_status_copies_ctrl_c_digits_and_screenshots_are_those_of_every_screen(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "screenshots"
    async with page(clock=stopped_clock, state_folder=tmp_path) as pilot:
        assert lines(pilot.app)[0].split("  ") == [
            " prod-eu-1",
            "READ-ONLY",
            "quorum ok",
            "4 brokers, 1 fenced",
            "1 offline",
            "0 s ago",
        ]
        await until(pilot, lambda: "Elect" in lines(pilot.app)[1], "the headline")
        before = lines(pilot.app)
        assert before[-1].endswith(" ^r refresh ? help")

        pilot.app.post_message(CopyAsked("one\ntwo", "the timeline"))
        await until(pilot, lambda: pilot.app.clipboard == "one\ntwo", "the copy")
        await until(pilot, lambda: "no receipt" in lines(pilot.app)[-1], "the sentence")
        assert "the timeline (2 lines)" in lines(pilot.app)[-1]
        assert lines(pilot.app)[1:-1] == before[1:-1]
        pilot.app.screen.query_one(KeyBar)._fall_silent()
        await until(pilot, lambda: lines(pilot.app)[-1] == before[-1], "the keys")

        exported = pilot.app.export_screenshot()
        await pilot.press("ctrl+s")
        await until(pilot, lambda: folder.is_dir() and any(folder.iterdir()), "the file")
        await pilot.press("ctrl+c")
        await shows(pilot, "q quits")
        assert "Do you want to quit" not in text(pilot.app)
        for key, mode in (("1", "overview"), ("2", "offline"), ("3", "plan"), ("4", "journal")):
            await pilot.press(key)
            await until(pilot, lambda mode=mode: pilot.app.current_mode == mode, mode)  # type: ignore[misc]
    (file,) = folder.iterdir()
    assert "prod-eu-1" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o077 == 0
    assert 'url("http' in exported
    svg = self_contained(exported)
    assert set(re.findall(r"\w+://[^\s\"<]+", svg)) == {"http://www.w3.org/2000/svg"}
    drawn = ElementTree.fromstring(svg)  # noqa: S314
    texts = [element for element in drawn.iter() if element.tag.endswith("}text")]
    blanks = {element.get("{http://www.w3.org/XML/1998/namespace}space") for element in texts}
    assert blanks == {"preserve"}
    assert any((element.text or "").startswith("  quorum ok") for element in texts)


async def test_a_time_bomb_is_told_before_anything_else_in_every_size() -> None:
    async with page(every_verdict(), first="13 offline") as pilot:
        await until(pilot, lambda: "FIRST stop b4 NOW" in lines(pilot.app)[1], "the alarm")
        for size in ((60, 20), (40, 10), (200, 60)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: lines(pilot.app)[-1].endswith("? help"), "the keys")
            await shows(pilot, "BOMB")


async def test_a_refresh_that_fails_keeps_the_last_truth_and_none_is_made_during_a_change() -> None:
    """Who quits during a change waits for the request that was sent."""
    clock = Clock()
    readings = NO_ANSWER, diverged_incident(), NO_ANSWER, nothing_offline(), NO_ANSWER
    async with page(*readings, first="not connected", clock=clock) as pilot:
        assert "no broker answers" in lines(pilot.app)[1]
        await pilot.press("ctrl+r")
        await shows(pilot, "1 offline")
        await pilot.press("ctrl+r")
        await shows(pilot, "no broker answers")
        await shows(pilot, "1 offline. It said:")
        assert "? offline" in lines(pilot.app)[0]
        await pilot.press("ctrl+r")
        await shows(pilot, "0 offline")
        await hides(pilot, "no broker answers")
        asked = asked_of(pilot)
        assert asked == [True] * 4, "ctrl+r reads everything"

        pilot.app.post_message(MutationBegan())
        await shows(pilot, "refresh paused")
        await pilot.press("ctrl+r")
        await pilot.pause()
        assert len(asked) == 4
        pilot.app.post_message(MutationEnded())
        await until(pilot, lambda: len(asked) == 5, "a refresh afterwards")
        known_of(pilot).interval = 2.0
        clock.advance(14)
        await until(pilot, lambda: "STALE 1" in lines(pilot.app)[0], "the mark")
        await shows(pilot, "none offline.")

        pilot.app.post_message(MutationBegan())
        await until(pilot, lambda: known_of(pilot).paused, "the change")
        await pilot.press("q")
        await pilot.pause()
        assert pilot.app.context.stopping.is_set()  # type: ignore[attr-defined]
        assert pilot.app.is_running
        pilot.app.post_message(MutationEnded())
        await until(pilot, lambda: watch_of(pilot.app).closed, "the end")  # type: ignore[arg-type]
    assert pilot.app.return_code == 0


async def test_help_and_the_palette_have_each_word_and_each_key_and_none_of_textuals() -> None:
    class Scrolled(BarePage):
        def body(self) -> Iterator[Widget]:
            yield VerticalScroll(Static("much to read"))

    async with page(size=(80, 40)) as pilot:
        told = {line.does: line.keys for line in help_lines(pilot.app.screen)}
        assert {"^q q", "tab"} <= set(told.values())
        await pilot.press("question_mark")
        await opens(pilot, HelpScreen)
        for words in ("Nothing but what every", "Read everything again", "Offline partitions"):
            await shows(pilot, words)
        shown = [line.strip("│ ").split(maxsplit=1) for line in lines(pilot.app)[2:]]
        first = shown.index([LEGEND[0].word, LEGEND[0].meaning])
        expected = [[term.word, term.meaning] for term in LEGEND]
        assert shown[first : first + len(LEGEND)] == expected
        await pilot.press("escape")
        await opens(pilot, BarePage)

        for term in (LEGEND[0], LEGEND[-1]):
            await pilot.press("colon")
            await opens(pilot, CommandPalette)
            await pilot.press(*term.word.lower())
            await shows(pilot, term.meaning[:40])
            await pilot.press("enter", "enter")
            await opens(pilot, LegendScreen)
            found = lines(pilot.app)
            assert any(f"> {term.word}" in line and term.meaning in line for line in found)
            await pilot.press("escape")
            await opens(pilot, BarePage)
        await pilot.press("colon")
        await opens(pilot, CommandPalette)
        await pilot.press(*"journal")
        await shows(pilot, "key 4")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: pilot.app.current_mode == "journal", "the journal")

        await pilot.app.push_screen(Scrolled(pilot.app.context))  # type: ignore[attr-defined]
        await pilot.press("tab")
        assert isinstance(pilot.app.screen.focused, VerticalScroll)
        scrolled = [line.does for line in help_lines(pilot.app.screen)]
    bindings = [
        one for owner in (App, Screen) for one in owner.BINDINGS if isinstance(one, Binding)
    ]
    textuals = {words for one in bindings for words in (one.description, one.tooltip) if words}
    assert not told.keys() & textuals
    assert scrolled
    assert not [one for one in scrolled if "croll" in one]


@pytest.fixture
def nothing_left_out() -> Iterator[None]:
    """Garbage is looked for everywhere, whatever consoles this process has had."""
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.enable()


async def test_garbage_that_was_not_looked_for_is_once_the_cluster_was_read(
    nothing_left_out: None,
) -> None:
    resume_collecting()
    assert not gc.get_freeze_count(), "it was looked for all the time"
    put_off_collecting()
    async with console_on(every_verdict()).run_test() as pilot:
        await at_rest(pilot)
        assert gc.isenabled()
        assert gc.get_freeze_count()
