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
from breakglass.services.model import TopicPartition
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


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_time_bombs_are_first_and_every_size_shows_verdict_action_name_and_loss(
    size: tuple[int, int],
) -> None:
    async with opened(every_verdict(), size=size) as page:
        assert page.names == GROUPS or size[0] < 120
        assert page.under_cursor.split()[:5] == [">", "BOMB", "stop", "b4", "NOW"]
        if size[0] >= 80:
            assert any(" Unread  Heard" in line for line in page.lines[3:5])
            heard = [line for line in page.lines if line.endswith((" 2 of 3", " 1 of 2"))]
            assert len(heard) == len(GROUPS)
        await page.press(*["down"] * 5)
        assert page.under_cursor.startswith("> LOSS  elect b1")
        assert "ledger-3" in page.under_cursor
        assert " 50" in page.under_cursor


async def test_enter_opens_a_group_and_closes_it_again_as_right_and_left_do() -> None:
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


async def test_the_replicas_of_what_the_cursor_is_on_stand_below() -> None:
    async with opened(incident_of(LEDGER)) as page:
        await page.shows("assignment 2,3,1", "would be elected", "adds 50 past 100")
        await page.shows("?: fenced, b3 does not", "b1 loses 50 records")


async def test_they_stand_beside_the_list_where_there_is_room() -> None:
    async with opened(incident_of(LEDGER), size=(180, 40)) as page:
        await page.until(
            lambda: any("Topic-partition" in line and "ledger-3" in line for line in page.lines),
            "both side by side",
        )


async def test_the_cursor_stays_on_its_partition_when_others_come_and_when_it_joins_a_group() -> (
    None
):
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


async def test_sorting_goes_round_and_keeps_the_cursor_on_its_partition() -> None:
    async with opened(every_verdict(), size=(120, 40)) as page:
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


async def test_what_is_not_read_yet_is_listed_and_says_so() -> None:
    async with opened(unread(5), every_verdict()) as page:
        assert page.names == ["▸orders-0..4 (5)"]
        await page.shows("reading: 0 of 5", "have not been read yet")
        await page.press("ctrl+r")
        await page.until(lambda: "BOMB" in page.under_cursor, "the verdicts")


async def test_until_all_is_judged_the_cursor_stays_on_what_cannot_wait() -> None:
    judged = every_verdict()
    first = replace(judged, rows=tuple(IncidentRow(row.state) for row in judged.rows), carried=None)
    async with opened(first, judged) as page:
        assert "__consumer_offsets-7" in page.under_cursor
        await page.press("ctrl+r")
        await page.until(lambda: "carts-0..2" in page.under_cursor, "the time bomb")


async def test_who_is_silent_who_is_waited_for_and_which_acl_lacks_are_shown() -> None:
    others = ("DESCRIBE on group billing", "READ on topic users")
    async with opened(replace(half_heard(), missing_acls=others), size=(120, 24)) as page:
        await page.shows("waiting for b2", "no answer from b3", "group billing and 1 more")


async def test_when_nothing_is_offline_it_says_so_and_every_key_is_harmless() -> None:
    async with opened(incident_of(LEDGER), nothing_offline()) as page:
        await page.press("ctrl+r")
        await page.shows("Nothing is offline.")
        assert "ledger" not in page.text
        await page.press("e", "d", "y", "space", "enter", "right", "left", "asterisk", "p")


async def test_a_reading_that_fails_leaves_the_list_as_it_was() -> None:
    async with opened(every_verdict(), SILENCE) as page:
        before = list(page.rows())
        await page.press("ctrl+r")
        await page.shows("no broker answers")
        assert list(page.rows())[: len(before)] == before


async def test_before_anything_is_read_the_list_says_why_it_is_empty() -> None:
    async with console_on(SILENCE).run_test(size=(80, 24)) as pilot:
        await shows(pilot, "has not been read yet")


async def test_hostile_names_are_shown_and_do_nothing() -> None:
    async with opened(hostile_names(), size=(120, 40)) as page:
        await page.press("down")
        await page.shows(r"orders\x1b[2J[red]x[/]\u202e注文-ä-0")
        await page.shows(r"\x1b]0;owned\x07 [bold]b3[/bold]")
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


@pytest.mark.parametrize("written", ["", "orders"])
async def test_a_change_after_a_reading_without_one_is_seen_in_a_long_list(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """What is the same is not listed again; the partition that is judged otherwise is."""
    monkeypatch.setattr(partition_list, "AT_ONCE", 2)
    quiet = every_verdict()
    orders, safe = quiet.row(TopicPartition("orders", 2)), quiet.row(TopicPartition("payments", 1))
    assert orders is not None
    assert safe is not None
    rows = [replace(row, judged=safe.judged) if row is orders else row for row in quiet.rows]
    readings = quiet, replace(quiet), replace(quiet, rows=tuple(rows))
    async with opened(*readings, size=(120, 40)) as page:
        page.console.screen.query_one("#filter", Input).value = written
        await page.until(lambda: "▸orders-0..3 (4)" in page.names, "the list")
        await page.press("ctrl+r")
        await page.until(lambda: len(watch_of(page.console).asked) == 2, "a quiet reading")
        assert "orders-2" not in page.names
        await page.until(lambda: not page.console.context.known.reading, "its end")
        await page.press("ctrl+r")
        await page.until(lambda: "orders-2" in page.names, "the change")
        assert "▸orders-* (3)" in page.names


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
        assert page.lines[-1] == keys


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
        assert page.table.show_vertical_scrollbar
        assert 1 <= len(laid_out) <= 2
        await page.press("end", "home", "pagedown", "down")
        await page.shows("leader epoch")


@pytest.mark.parametrize(("seconds", "told"), [(59, False), (150, True)])
async def test_figures_older_than_the_metadata_are_told_by_their_age(
    seconds: int, told: bool
) -> None:
    """A log may have changed without a word in the metadata; 2 s ago would be untrue of it."""
    incident = diverged_incident()
    later = replace(
        incident.snapshot, observed_at_ms=incident.snapshot.observed_at_ms + 1000 * seconds
    )
    async with opened(replace(incident, snapshot=later)) as page:
        assert ("figures up to 2 min old" in page.lines[2]) == told
