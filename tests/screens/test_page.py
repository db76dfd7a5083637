"""What every screen has: the status on top, the keys below, help, the palette, ages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from textual.app import App
from textual.binding import Binding
from textual.command import CommandPalette
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.help import HelpScreen, help_lines
from breakglass.screens.legend import LegendScreen
from breakglass.screens.messages import CopyAsked, MutationBegan, MutationEnded
from breakglass.screens.screenshot import self_contained
from breakglass.screens.widgets.key_bar import KeyBar
from breakglass.services.errors import TimedOut
from breakglass.services.words.legend import LEGEND, Term
from tests.kit.incidents import diverged_incident, every_verdict, hostile_names, nothing_offline
from tests.screens.bare_page import BarePage
from tests.screens.consoles import console_on, watch_of
from tests.screens.turns import lines, text, until

pytestmark = pytest.mark.usefixtures("bare_pages")

NO_ANSWER = TimedOut("no broker answers: check the address, the tunnel and the brokers", "silence")


async def test_the_first_line_names_cluster_power_quorum_brokers_offline_and_age() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "offline" in lines(console)[0], "what is known")
        assert lines(console)[0].split("  ") == [
            " prod-eu-1",
            "READ-ONLY",
            "quorum ok",
            "4 brokers, 1 fenced",
            "1 offline",
            "0 s ago",
        ]


async def test_the_second_line_says_what_helps_most() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Elect" in lines(console)[1], "the headline")


async def test_a_time_bomb_is_told_before_anything_else() -> None:
    console = console_on(every_verdict(), NO_ANSWER)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(
            pilot, lambda: "FIRST stop b4 NOW: BOMB on 3." in lines(console)[1], "the alarm"
        )


async def test_before_the_first_answer_it_says_that_it_reads() -> None:
    console = console_on(NO_ANSWER)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "not connected" in lines(console)[0], "the failure")
        assert "no broker answers: check the address" in lines(console)[1]


async def test_a_failed_refresh_keeps_the_last_truth_and_says_why_there_is_no_newer() -> None:
    console = console_on(diverged_incident(), NO_ANSWER, nothing_offline())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1 offline" in lines(console)[0], "the truth")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "no broker answers" in text(console), "the failure")
        assert "1 offline" in lines(console)[0]
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "0 offline" in lines(console)[0], "healed")
        assert "no broker answers" not in text(console)


async def test_what_is_too_old_is_called_stale_and_stays() -> None:
    console = console_on(diverged_incident(), NO_ANSWER)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1 offline" in lines(console)[0], "the truth")
        known = console.context.known
        known.interval = 2.0
        assert known.read_at is not None
        known.read_at -= 14
        await until(pilot, lambda: "STALE 1" in lines(console)[0], "the mark")
        assert "1 offline" in lines(console)[0]


async def test_the_second_refresh_is_cheap_and_ctrl_r_reads_everything() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "the first refresh")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(watch_of(console).asked) == 2, "the second refresh")
        assert watch_of(console).asked == [True, True]


async def test_nothing_is_read_while_something_is_changed() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "the first refresh")
        console.post_message(MutationBegan())
        await until(pilot, lambda: "refresh paused" in lines(console)[0], "the pause")
        await pilot.press("ctrl+r")
        await pilot.pause()
        assert len(watch_of(console).asked) == 1
        console.post_message(MutationEnded())
        await until(pilot, lambda: len(watch_of(console).asked) == 2, "a refresh afterwards")


async def test_quitting_during_a_change_waits_for_the_request_that_was_sent() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        console.post_message(MutationBegan())
        await until(pilot, lambda: console.context.known.paused, "the change")
        await pilot.press("q")
        await pilot.pause()
        assert console.context.stopping.is_set()
        assert console.is_running
        console.post_message(MutationEnded())
        await until(pilot, lambda: watch_of(console).closed, "the end")


async def test_quitting_ends_every_wait() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: watch_of(console).closed, "the end")
    assert console.return_code == 0


async def test_help_lists_the_keys_of_the_screen_from_its_bindings() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 40)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(console.screen, HelpScreen), "help")
        shown = text(console)
        assert "Nothing but what every page has." in shown
        assert "Read everything again" in shown
        assert "Offline partitions" in shown
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(console.screen, HelpScreen), "no help")


async def test_help_begins_with_a_line_for_each_word() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: "What the words mean" in text(console), "help")
        shown = [line.strip("│ ").split(maxsplit=1) for line in lines(console)[2:]]
        assert shown[: len(LEGEND)] == [[term.word, term.meaning] for term in LEGEND]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_help_has_no_words_of_textuals(size: tuple[int, int]) -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=size) as pilot:
        await until(pilot, lambda: "1 offline" in lines(console)[0], "what is known")
        told = {line.does: line.keys for line in help_lines(console.screen)}
    textuals = {
        words
        for owner in (App, Screen)
        for binding in owner.BINDINGS
        if isinstance(binding, Binding)
        for words in (binding.description, binding.tooltip)
        if words
    }
    assert not told.keys() & textuals
    assert told["End Breakglass; a request that was sent is finished first"] == "^q q"
    assert told["The next list or field"] == "tab"


async def test_what_scrolls_a_box_is_not_told_in_textuals_words() -> None:
    class Scrolled(BarePage):
        def body(self) -> Iterator[Widget]:
            yield VerticalScroll(Static("much to read"))

    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await console.push_screen(Scrolled(console.context))
        await pilot.press("tab")
        assert isinstance(console.screen.focused, VerticalScroll)
        told = [line.does for line in help_lines(console.screen)]
    assert told
    assert not [one for one in told if "croll" in one]


@pytest.mark.parametrize("term", LEGEND, ids=lambda term: term.word)
async def test_the_palette_finds_each_word_and_shows_what_it_means(term: Term) -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await pilot.press("colon")
        await until(pilot, lambda: isinstance(console.screen, CommandPalette), "the palette")
        await pilot.press(*term.word.lower())
        await until(pilot, lambda: term.meaning[:40] in text(console), "the word")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(console.screen, LegendScreen), "the words")
        assert any(f"> {term.word}" in line and term.meaning in line for line in lines(console))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(console.screen, LegendScreen), "no words")


async def test_the_last_line_says_how_to_read_again() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1 offline" in lines(console)[0], "what is known")
        assert lines(console)[-1].endswith(" ^r refresh ? help")


async def test_ctrl_c_with_nothing_selected_says_what_quits() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "q quits" in text(console), "the hint")
        assert "Do you want to quit" not in text(console)


async def test_the_palette_opens_by_a_colon_and_runs_what_is_found() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await pilot.press("colon")
        await until(pilot, lambda: isinstance(console.screen, CommandPalette), "the palette")
        await pilot.press(*"journal")
        await until(pilot, lambda: "key 4" in text(console), "the command")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: console.current_mode == "journal", "the journal")


@pytest.mark.parametrize(
    ("key", "mode"), [("1", "overview"), ("2", "offline"), ("3", "plan"), ("4", "journal")]
)
async def test_a_digit_shows_a_screen(key: str, mode: str) -> None:
    console = console_on(diverged_incident(), start="overview" if key != "1" else "offline")
    async with console.run_test(size=(80, 24)) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: console.current_mode == mode, mode)


async def test_a_copy_claims_no_more_than_that_it_was_sent() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24), notifications=True) as pilot:
        console.post_message(CopyAsked("one\ntwo", "the timeline"))
        await until(pilot, lambda: console.clipboard == "one\ntwo", "the copy")
        await until(pilot, lambda: "no receipt" in lines(console)[-1], "why")
        assert "the timeline (2 lines)" in lines(console)[-1]


async def test_what_was_copied_covers_nothing_but_the_keys_and_they_come_back() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "1 offline" in lines(console)[0], "what is known")
        before = lines(console)
        console.post_message(CopyAsked("one\ntwo", "the timeline"))
        await until(pilot, lambda: "no receipt" in lines(console)[-1], "the sentence")
        assert lines(console)[1:-1] == before[1:-1]
        console.screen.query_one(KeyBar)._fall_silent()
        await until(pilot, lambda: lines(console)[-1] == before[-1], "the keys")


async def test_a_screenshot_goes_into_a_file_of_its_owner(tmp_path: Path) -> None:
    console = console_on(diverged_incident(), state_folder=tmp_path)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1 offline" in lines(console)[0], "what is known")
        await pilot.press("ctrl+s")
        folder = tmp_path / "screenshots"
        await until(pilot, lambda: folder.is_dir() and any(folder.iterdir()), "the file")
        (file,) = folder.iterdir()
        assert "prod-eu-1" in file.read_text(encoding="utf-8")
        assert file.stat().st_mode & 0o077 == 0


async def test_a_screenshot_fetches_nothing_and_keeps_its_blanks() -> None:
    console = console_on(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1 offline" in lines(console)[0], "what is known")
        exported = console.export_screenshot()
    assert 'url("http' in exported
    svg = self_contained(exported)
    addresses = set(re.findall(r"\w+://[^\s\"<]+", svg))
    assert addresses == {"http://www.w3.org/2000/svg"}
    drawn = ElementTree.fromstring(svg)  # noqa: S314
    texts = [element for element in drawn.iter() if element.tag.endswith("}text")]
    assert {element.get("{http://www.w3.org/XML/1998/namespace}space") for element in texts} == {
        "preserve"
    }
    assert any((element.text or "").startswith("  quorum ok") for element in texts)


async def test_hostile_names_are_inert_in_the_status() -> None:
    console = console_on(hostile_names())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "2 offline" in lines(console)[0], "what is known")
        assert "\x1b" not in text(console)


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (40, 10), (200, 60)])
async def test_it_draws_itself_in_every_size(size: tuple[int, int]) -> None:
    console = console_on(every_verdict())
    async with console.run_test(size=size) as pilot:
        await until(pilot, lambda: "BOMB" in text(console), "the alarm")
        assert lines(console)[-1].endswith("? help")
