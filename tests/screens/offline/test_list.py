"""The list: what cannot wait first, groups that open, a cursor that stays on its partition."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import Input

from breakglass.screens.offline import partition_list
from breakglass.screens.terminal import Terminal
from breakglass.services.errors import TimedOut
from breakglass.services.incident.listing import RowOrder
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import Silent, TopicPartition
from tests.kit.incidents import (
    LEDGER,
    bomb,
    diverged_incident,
    every_verdict,
    half_heard,
    hostile_names,
    incident_of,
    lossless,
    many_offline,
    nothing_offline,
    unread,
    waiting,
)
from tests.screens.consoles import console_on, watch_of
from tests.screens.drawing import at_rest
from tests.screens.offline.offline_console import opened
from tests.screens.turns import is_inert, shows

SILENCE = TimedOut("no broker answers: check the address", "silence")
GROUPS = [
    "▸carts-0..2 (3)",
    "__consumer_offsets-7",
    "stock-2",
    "▸orders-0..3 (4)",
    "audit-5",
    "ledger-3",
    "users-6",
    "payments-1",
]


async def test_time_bombs_are_first_and_every_size_shows_verdict_action_name_and_loss() -> None:
    async with opened(every_verdict(), size=(60, 20)) as page:
        for size in ((60, 20), (80, 24), (120, 40)):
            await page.pilot.resize_terminal(*size)
            await page.press("home")
            await at_rest(page.pilot)
            assert page.names == GROUPS or size[0] < 120
            assert page.under_cursor.split()[:5] == [">", "BOMB", "stop", "b4", "NOW"]
            if size[0] >= 80:
                assert any(" Unread  Heard" in line for line in page.lines[3:5])
                heard = [line for line in page.lines if line.endswith((" 2 of 3", " 1 of 2"))]
                assert len(heard) == len(GROUPS)
            await page.press(*["down"] * 5)
            await at_rest(page.pilot)
            assert page.under_cursor.startswith("> LOSS  elect b1")
            assert "ledger-3" in page.under_cursor
            assert " 50" in page.under_cursor


async def test_groups_open_and_close_and_the_replicas_stand_below_or_beside_the_list() -> None:
    async with opened(incident_of(bomb(0), bomb(1), LEDGER)) as page:
        await page.press("enter")
        opened_group = ["▾carts-0..1 (2)", "carts-0", "carts-1", "ledger-3"]
        await page.until(lambda: page.names == opened_group, "the group to be open")
        assert page.names[0] in page.under_cursor
        await page.press("enter")
        closed_group = ["▸carts-0..1 (2)", "ledger-3"]
        await page.until(lambda: page.names == closed_group, "the group to be closed")
        await page.press("right", "down", "down")
        await page.until(lambda: "carts-1" in page.under_cursor, "the cursor on carts-1")
        await page.press("left")
        await page.until(lambda: "▸carts-0..1 (2)" in page.under_cursor, "the cursor on the group")

        await page.press("end")
        await page.shows("assignment 2,3,1", "would be elected", "adds 50 past 100")
        await page.shows("?: fenced, b3 does not", "b1 loses 50 records")
        await page.pilot.resize_terminal(180, 40)
        await page.until(
            lambda: any("Topic-partition" in line and "ledger-3" in line for line in page.lines),
            "both side by side",
        )


async def test_the_cursor_stays_on_its_partition_when_others_come_are_judged_or_join_a_group() -> (
    None
):
    judged = every_verdict()
    first = replace(judged, rows=tuple(IncidentRow(row.state) for row in judged.rows), carried=None)
    before = incident_of(LEDGER, lossless(1))
    after = incident_of(LEDGER, lossless(1), bomb(0), bomb(1), waiting(7))
    grouped = incident_of(*map(lossless, range(3)))
    async with opened(before, after, grouped, before) as page:
        await page.press("down")
        assert "payments-1" in page.under_cursor
        for shown in ("orders-7", "(3)"):
            await page.press("ctrl+r")
            await page.shows(shown)
            assert "payments-1" in page.under_cursor
        await page.press("ctrl+r")
        await page.hides("(3)")
        assert [line for line in page.rows() if line.startswith(" payments-1 ")]
    async with opened(first, judged) as page:
        assert "__consumer_offsets-7" in page.under_cursor
        await page.press("ctrl+r")
        await page.until(lambda: "carts-0..2" in page.under_cursor, "what cannot wait")


async def test_sorting_keeps_the_cursor_and_a_reading_that_fails_keeps_the_list() -> None:
    async with opened(every_verdict(), SILENCE, size=(120, 40)) as page:
        await page.press("end")
        seen = []
        for _ in RowOrder:
            await page.press("s")
            seen.append(page.table.view.order)
            assert "payments-1" in page.under_cursor
        assert seen == [*list(RowOrder)[1:], RowOrder.URGENCY]
        assert page.names == GROUPS
        await page.press("s", "s")
        await page.shows("by loss")
        assert page.names[:3] == ["users-6", "__consumer_offsets-7", "ledger-3"]
        await page.press("S")
        await page.shows("by topic")
        assert page.names[0] == "__consumer_offsets-7"
        before = page.names
        await page.press("ctrl+r")
        await page.shows("no broker answers")
        assert page.names[: len(before)] == before


async def test_what_is_not_read_yet_silent_or_led_again_is_said_and_every_key_is_harmless() -> None:
    others = ("DESCRIBE on group billing", "READ on topic users")
    heard = replace(half_heard(), missing_acls=others)
    well = nothing_offline()
    cut_off = replace(well, snapshot=replace(well.snapshot, quorum=Silent("no answer")))
    readings = unread(5), every_verdict(), heard, cut_off
    async with opened(*readings, size=(120, 24)) as page:
        assert page.names == ["▸orders-0..4 (5)"]
        await page.shows("reading: 0 of 5", "have not been read yet")
        await page.press("ctrl+r")
        await page.until(lambda: "BOMB" in page.under_cursor, "the verdicts")
        await page.press("ctrl+r")
        await page.shows("waiting for b2", "no answer from b3", "group billing and 1 more")
        await page.press("ctrl+r")
        await page.until(lambda: page.text.count("as far as this broker") == 2, "both places")
        assert "ledger" not in page.text
        await page.press("e", "d", "y", "space", "enter", "right", "left", "asterisk", "p")


async def test_before_anything_is_read_the_list_says_why_it_is_empty() -> None:
    async with console_on(SILENCE).run_test(size=(80, 24)) as pilot:
        await shows(pilot, "has not been read yet")


async def test_hostile_names_and_reasons_are_shown_and_do_nothing() -> None:
    async with opened(hostile_names(), size=(120, 50)) as page:
        await page.press("down")
        await page.shows(r"orders\x1b[2J[red]x[/]\u202e注文-ä-0")
        await page.shows(r"\x1b]0;owned\x07 [bold]b3[/bold]")
        assert is_inert(page.console)
        await page.press("enter")
        await page.shows("Each choice", r"\x1b]0;owned\x07 [bold]b3[/bold]")
        assert is_inert(page.console)


async def test_in_ascii_groups_and_rules_have_signs_of_their_own() -> None:
    ascii_only = Terminal(ascii_only=True)
    async with opened(every_verdict(), terminal=ascii_only, theme="breakglass-monochrome") as page:
        await page.press("enter")
        assert page.text.isascii()
        assert "vcarts-0..2 (3)" in page.text
        assert ">orders-0..3 (4)" in page.text


async def test_a_long_list_is_made_in_a_thread_and_ends_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_list, "AT_ONCE", 2)
    async with opened(every_verdict(), size=(120, 40)) as page:
        assert page.names == GROUPS
        await page.press("s", "s")
        await page.lists("users-6")
        await page.press("asterisk", "ctrl+r")
        await page.shows("13 marked")


async def test_a_change_after_a_reading_without_one_is_seen_in_a_long_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is the same is not listed again; the partition that is judged otherwise is."""
    monkeypatch.setattr(partition_list, "AT_ONCE", 2)
    quiet = every_verdict()
    orders, safe = quiet.row(TopicPartition("orders", 2)), quiet.row(TopicPartition("payments", 1))
    assert orders is not None
    assert safe is not None
    rows = [replace(row, judged=safe.judged) if row is orders else row for row in quiet.rows]
    changed = replace(quiet, rows=tuple(rows))
    readings = quiet, replace(quiet), changed, quiet, replace(quiet), changed
    async with opened(*readings, size=(120, 40)) as page:
        asked, known = watch_of(page.console).asked, page.console.context.known
        for written in ("", "orders"):
            page.console.screen.query_one("#filter", Input).value = written
            await page.until(lambda: "▸orders-0..3 (4)" in page.names, "the list")
            done = len(asked)
            await page.press("ctrl+r")
            await page.until(lambda: len(asked) == done + 1, "a quiet reading")  # noqa: B023
            assert "orders-2" not in page.names
            await page.until(lambda: not known.reading, "its end")
            await page.press("ctrl+r")
            await page.until(lambda: "orders-2" in page.names, "the change")
            assert "▸orders-* (3)" in page.names
            await page.until(lambda: not known.reading, "its end")
            await page.press("ctrl+r")


async def test_nothing_moves_while_a_filter_is_typed_in_place_of_the_keys() -> None:
    async with opened(every_verdict()) as page:
        height, keys = page.table.size.height, page.lines[-1]
        assert keys.endswith("? help")
        await page.press("slash", *"ledger")
        await page.until(lambda: page.names == ["ledger-3"], "what the filter keeps")
        assert page.lines[-1].rstrip() == "ledger"
        assert page.table.size.height == height
        await page.press("enter")
        await page.until(lambda: page.table.size.height < height, "room for replicas")
        await page.until(lambda: page.lines[-1] == keys, "the keys of a partition")


async def test_very_many_partitions_are_listed_opened_and_walked_through() -> None:
    """Each layout paints the screen: a group is opened in one, and in one more for the bar."""
    async with opened(many_offline(20_000, topics=10), size=(120, 40)) as page:
        await page.until(lambda: len(page.table.rows) == 40, "the groups")
        await page.press(*["down"] * 10)
        await page.pilot.pause()
        laid_out: list[object] = []
        screen = page.console.screen
        screen.screen_layout_refresh_signal.subscribe(screen, laid_out.append)
        await page.press("right")
        await page.until(lambda: len(page.table.rows) > 1_900, "the group")
        await page.until(lambda: laid_out and page.table.show_vertical_scrollbar, "the bar")
        await at_rest(page.pilot)
        assert len(laid_out) <= 2
        await page.press("end", "home", "pagedown", "down")
        await page.shows("leader epoch")


async def test_figures_older_than_the_metadata_are_told_by_their_age() -> None:
    """A log may have changed without a word in the metadata; 2 s ago would be untrue of it."""
    incident = diverged_incident()
    at_ms = incident.snapshot.observed_at_ms
    readings = [
        replace(incident, snapshot=replace(incident.snapshot, observed_at_ms=at_ms + later))
        for later in (59_000, 150_000)
    ]
    async with opened(*readings) as page:
        assert "figures up to" not in page.lines[2]
        await page.press("ctrl+r")
        await page.until(lambda: "figures up to 2 min old" in page.lines[2], "their age")
