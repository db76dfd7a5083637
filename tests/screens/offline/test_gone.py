"""Declaring brokers gone: asked for in words, told to the watch, shown above the list."""

from __future__ import annotations

import pytest

from breakglass.screens.offline.gone import fault_in
from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.words.broker_ids import brokers_in
from tests.kit.incidents import every_verdict
from tests.screens.consoles import watch_of
from tests.screens.offline.offline_console import opened
from tests.screens.turns import lines, text, until


async def test_b_declares_brokers_gone_and_the_list_says_so() -> None:
    async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
        await pilot.press("b")
        await until(pilot, lambda: isinstance(console.screen, Prompt), "the question")
        await pilot.press(*"b4 3", "enter")
        await until(pilot, lambda: "declared gone: b4, b3" in text(console), "the line")
        assert watch_of(console).gone == (4, 3)
        assert watch_of(console).asked == [True, True]


async def test_an_empty_line_takes_it_back() -> None:
    async with opened(every_verdict()) as (pilot, console):
        watch_of(console).declare_gone([4])
        await pilot.press("b")
        await until(pilot, lambda: isinstance(console.screen, Prompt), "the question")
        await until(pilot, lambda: any("4" in line for line in lines(console)), "what is declared")
        await pilot.press("ctrl+u", "enter")
        await until(pilot, lambda: watch_of(console).gone == (), "nothing declared")


async def test_what_is_no_broker_is_refused_with_what_to_write() -> None:
    async with opened(every_verdict()) as (pilot, console):
        await pilot.press("b")
        await until(pilot, lambda: isinstance(console.screen, Prompt), "the question")
        await pilot.press(*"four", "enter")
        await until(pilot, lambda: "by their ids: 4 7" in text(console), "the fault")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: not isinstance(console.screen, Prompt), "the list")
        assert watch_of(console).asked == [True]


@pytest.mark.parametrize(
    ("text", "brokers"), [("4", (4,)), ("b4, b7", (4, 7)), (" 0 12 ", (0, 12)), ("", ())]
)
def test_ids_are_read_as_they_are_written(text: str, brokers: tuple[int, ...]) -> None:
    assert brokers_in(text) == brokers
    assert fault_in(text) == ""


@pytest.mark.parametrize("text", ["four", "4;5", "-1", "b", "4.5"])
def test_what_is_no_id_has_a_fault(text: str) -> None:
    assert fault_in(text)
