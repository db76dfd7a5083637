"""The list: what cannot wait first, groups that open, a cursor that stays on its partition."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import Input

from breakglass.screens.offline import partition_list
from breakglass.screens.terminal import Terminal
from breakglass.services.errors import TimedOut
from breakglass.services.incident.incident import Incident
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
from tests.screens.consoles import watch_of
from tests.screens.offline.offline_console import listed, names, opened, shown_list, under_cursor
from tests.screens.turns import lines, text, until

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


async def test_time_bombs_are_first_then_internal_topics_and_the_verdict_leads() -> None:
    async with opened(every_verdict(), size=(120, 40)) as (_, console):
        assert listed(console) == GROUPS
        assert under_cursor(console).split()[:5] == [">", "BOMB", "stop", "b4", "NOW"]


async def test_heard_and_who_is_unread_are_whole_at_80_columns() -> None:
    async with opened(every_verdict(), size=(80, 24)) as (_, console):
        shown = lines(console)
        assert " Unread  Heard" in shown[3]
        assert any("orders-0..3" in line and " b3 >= 100  2 of 3" in line for line in shown)
        assert sum(line.endswith((" 2 of 3", " 1 of 2")) for line in shown) == len(GROUPS)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_every_size_shows_verdict_action_name_and_loss(size: tuple[int, int]) -> None:
    async with opened(every_verdict(), size=size) as (pilot, console):
        await pilot.press("down", "down", "down", "down", "down")
        line = under_cursor(console)
        assert line.startswith("> LOSS  elect b1")
        assert "ledger-3" in line
        assert " 50" in line


async def test_enter_opens_a_group_and_closes_it_again() -> None:
    async with opened(incident_of(bomb(0), bomb(1), LEDGER)) as (pilot, console):
        await pilot.press("enter")
        assert listed(console) == ["▾carts-0..1 (2)", "carts-0", "carts-1", "ledger-3"]
        assert listed(console)[0] in under_cursor(console)
        await pilot.press("enter")
        assert listed(console) == ["▸carts-0..1 (2)", "ledger-3"]


async def test_right_opens_and_left_closes_from_within() -> None:
    async with opened(incident_of(bomb(0), bomb(1), LEDGER)) as (pilot, console):
        await pilot.press("right", "down", "down")
        assert "carts-1" in under_cursor(console)
        await pilot.press("left")
        assert "▸carts-0..1 (2)" in under_cursor(console)


async def test_the_replicas_of_what_the_cursor_is_on_stand_below() -> None:
    async with opened(incident_of(LEDGER)) as (_, console):
        shown = text(console)
        assert "ledger-3  leader epoch 9  assignment 2,3,1  b1 and b2 diverge at 100" in shown
        assert "> 1       stale      0  100  125  0 2     would be elected" in shown
        assert "adds 50 past 100, uncommitted" in shown
        assert "3       stale  ?: fenced, b3 does not answer (connection refused)" in shown
        assert "- electing b1 loses 50 records" in shown


async def test_they_stand_beside_the_list_where_there_is_room() -> None:
    async with opened(incident_of(LEDGER), size=(180, 40)) as (pilot, console):
        await until(
            pilot,
            lambda: any(
                "Topic-partition" in line and "ledger-3" in line for line in lines(console)
            ),
            "both side by side",
        )


async def test_the_cursor_stays_on_its_partition_when_others_come_and_it_moves() -> None:
    before = incident_of(LEDGER, lossless(1))
    after = incident_of(LEDGER, lossless(1), bomb(0), bomb(1), waiting(7))
    async with opened(before, after) as (pilot, console):
        await pilot.press("down")
        assert "payments-1" in under_cursor(console)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "orders-7" in text(console), "the others")
        assert "payments-1" in under_cursor(console)


async def test_the_cursor_stays_on_its_partition_when_it_joins_a_group() -> None:
    before = incident_of(lossless(1))
    after = incident_of(lossless(0), lossless(1), lossless(2))
    async with opened(before, after) as (pilot, console):
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "(3)" in text(console), "the group")
        assert "payments-1" in under_cursor(console)


async def test_a_partition_that_is_left_alone_of_its_group_stands_where_groups_stand() -> None:
    async with opened(incident_of(lossless(1), lossless(2)), incident_of(lossless(1))) as (
        pilot,
        console,
    ):
        await pilot.press("right", "down", "ctrl+r")
        await until(pilot, lambda: "(2)" not in text(console), "the one that is left")
        assert next(iter(names(console))).startswith(" payments-1 ")


async def test_sorting_goes_round_and_keeps_the_cursor_on_its_partition() -> None:
    async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
        await pilot.press("end")
        assert "payments-1" in under_cursor(console)
        seen = []
        for _ in RowOrder:
            await pilot.press("s")
            seen.append(shown_list(console).view.order)
            assert "payments-1" in under_cursor(console)
        assert seen == [*list(RowOrder)[1:], RowOrder.URGENCY]
        assert listed(console) == GROUPS


async def test_sorted_by_loss_the_unknown_and_the_largest_are_first() -> None:
    async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
        await pilot.press("s", "s")
        assert "by loss" in text(console)
        assert listed(console)[:3] == ["users-6", "__consumer_offsets-7", "ledger-3"]
        await pilot.press("S")
        assert "by topic" in text(console)
        assert listed(console)[0] == "__consumer_offsets-7"


async def test_what_is_not_read_yet_is_listed_and_says_so() -> None:
    async with opened(unread(5), every_verdict()) as (pilot, console):
        assert listed(console) == ["▸orders-0..4 (5)"]
        assert "reading: 0 of 5" in text(console)
        assert "its replicas have not been read yet" in text(console)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "BOMB" in under_cursor(console), "the verdicts")


async def test_until_all_is_judged_the_cursor_stays_on_what_cannot_wait() -> None:
    judged = every_verdict()
    first = replace(judged, rows=tuple(IncidentRow(row.state) for row in judged.rows), carried=None)
    async with opened(first, judged) as (pilot, console):
        assert "__consumer_offsets-7" in under_cursor(console)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "carts-0..2" in under_cursor(console), "the time bomb")


async def test_who_is_silent_and_who_is_waited_for_are_told_apart() -> None:
    async with opened(half_heard()) as (_, console):
        assert "waiting for b2  no answer from b3" in text(console)


async def test_a_missing_acl_is_named_and_others_are_counted() -> None:
    others = ("DESCRIBE on group billing", "READ on topic users")
    async with opened(replace(half_heard(), missing_acls=others), size=(120, 24)) as (_, console):
        assert "missing ACL: DESCRIBE on group billing and 1 more" in lines(console)[2]


async def test_when_nothing_is_offline_it_says_so() -> None:
    async with opened(incident_of(LEDGER), nothing_offline()) as (pilot, console):
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "Nothing is offline." in text(console), "the good news")
        assert "ledger" not in text(console)
        await pilot.press("e", "d", "y", "space", "enter", "right", "left", "asterisk", "p")


async def test_a_reading_that_fails_leaves_the_list_as_it_was() -> None:
    failure = TimedOut("no broker answers: check the address", "silence")
    async with opened(every_verdict(), failure) as (pilot, console):
        before = list(names(console))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "no broker answers" in text(console), "the failure")
        assert list(names(console))[: len(before)] == before


async def test_before_anything_is_read_the_list_says_why_it_is_empty() -> None:
    from tests.screens.consoles import console_on

    console = console_on(TimedOut("no broker answers: check the address", "silence"))
    async with console.run_test(size=(80, 24)) as pilot:
        await until(
            pilot, lambda: "The cluster has not been read yet." in text(console), "the reason"
        )


async def test_hostile_names_are_shown_and_do_nothing() -> None:
    async with opened(hostile_names(), size=(120, 40)) as (pilot, console):
        assert text(console).replace("\n", "").isprintable()
        await pilot.press("down")
        assert r"orders\x1b[2J[red]x[/]\u202e注文-ä-0" in text(console)
        assert "\x1b]0;owned" not in text(console)
        assert r"\x1b]0;owned\x07 [bold]b3[/bold]" in text(console)


async def test_in_ascii_groups_and_rules_have_signs_of_their_own() -> None:
    terminal = Terminal(ascii_only=True)
    async with opened(every_verdict(), terminal=terminal, theme="breakglass-monochrome") as (
        pilot,
        console,
    ):
        await pilot.press("enter")
        assert text(console).isascii()
        assert "vcarts-0..2 (3)" in text(console)
        assert ">orders-0..3 (4)" in text(console)


async def test_a_long_list_is_made_in_a_thread_and_ends_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_list, "AT_ONCE", 2)
    async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
        assert listed(console) == GROUPS
        await pilot.press("s", "s")
        await until(pilot, lambda: listed(console)[0] == "users-6", "the order")
        await pilot.press("asterisk", "ctrl+r")
        await until(pilot, lambda: "13 marked" in text(console), "the marks")


@pytest.mark.parametrize("written", ["", "orders", "partition:<9"])
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
    async with opened(*readings, size=(120, 40)) as (pilot, console):
        console.screen.query_one("#filter", Input).value = written
        await until(pilot, lambda: "▸orders-0..3 (4)" in listed(console), "the list")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(watch_of(console).asked) == 2, "a quiet reading")
        assert "orders-2" not in listed(console)
        await until(pilot, lambda: not console.context.known.reading, "its end")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "orders-2" in listed(console), "the change")
        assert "▸orders-* (3)" in listed(console)


async def test_nothing_moves_while_a_filter_is_typed_in_place_of_the_keys() -> None:
    async with opened(every_verdict()) as (pilot, console):
        height, keys = shown_list(console).size.height, lines(console)[-1]
        assert keys.endswith("? help")
        await pilot.press("slash", *"ledger")
        await until(pilot, lambda: listed(console) == ["ledger-3"], "what the filter keeps")
        assert lines(console)[-1].rstrip() == "ledger"
        assert shown_list(console).size.height == height
        await pilot.press("enter")
        await until(pilot, lambda: shown_list(console).size.height < height, "room for replicas")
        assert lines(console)[-1] == keys


async def test_a_hundred_thousand_partitions_are_listed_opened_and_walked_through() -> None:
    incident: Incident = many_offline(100_000, topics=10)
    async with opened(incident, size=(120, 40)) as (pilot, console):
        await until(pilot, lambda: len(shown_list(console).rows) == 40, "the groups")
        for _ in range(10):
            await pilot.press("down")
        await pilot.press("right")
        assert len(shown_list(console).rows) > 9_000
        await pilot.press("end", "home", "pagedown", "down")
        assert "leader epoch" in text(console)


@pytest.mark.parametrize(("seconds", "told"), [(59, False), (150, True)])
async def test_figures_older_than_the_metadata_are_told_by_their_age(
    seconds: int, told: bool
) -> None:
    """A log may have changed without a word in the metadata; 2 s ago would be untrue of it."""
    incident = diverged_incident()
    later = replace(
        incident.snapshot, observed_at_ms=incident.snapshot.observed_at_ms + 1000 * seconds
    )
    async with opened(replace(incident, snapshot=later)) as (_, console):
        assert ("figures up to 2 min old (ctrl+r)" in lines(console)[2]) == told


async def test_a_group_is_opened_in_one_layout_and_one_for_the_bar() -> None:
    """Each layout paints the screen: in more of them, opening is the slowest of all keys."""
    async with opened(many_offline(2_000, topics=2), size=(120, 40)) as (pilot, console):
        await pilot.press("down", "down")
        await pilot.pause()
        laid_out: list[object] = []
        console.screen.screen_layout_refresh_signal.subscribe(console.screen, laid_out.append)
        await pilot.press("enter")
        await until(pilot, lambda: len(shown_list(console).rows) > 24, "the group")
        await pilot.pause()
        assert shown_list(console).show_vertical_scrollbar
        assert 1 <= len(laid_out) <= 2
