"""The overview: all of a cluster at a glance, each figure with its age, nothing to break."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from breakglass.console.app import BreakglassApp
from breakglass.screens.messages import IntervalChanged, OfflineAsked
from breakglass.screens.overview.broker_details import BrokerDetails
from breakglass.screens.overview.broker_rows import ASK_EVERY_SECONDS
from breakglass.screens.overview.screen import INTERVALS, OverviewScreen, TroubledScreen
from breakglass.screens.terminal import Terminal
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.errors import NotAuthorized, TimedOut
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.monitor import Monitor
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, Silent, Unknown
from breakglass.services.snapshot import Quorum, Voter
from tests.kit.incidents import (
    LEDGER,
    QUORUM,
    diverged_incident,
    every_verdict,
    hostile_names,
    incident_of,
    many_offline,
    nothing_offline,
    online_partition,
)
from tests.screens.canned_access import REFUSED, CannedAccess
from tests.screens.consoles import console_on
from tests.screens.turns import lines, text, until

NO_ANSWER = TimedOut("no broker answers: check the address, the tunnel and the brokers", "silence")


def overview(
    *readings: Incident | Any, access: CannedAccess | None = None, **options: Any
) -> BreakglassApp:
    brokers = (access or CannedAccess()).as_access
    return console_on(*readings, access=brokers, start="overview", **options)


def told(console: BreakglassApp) -> Callable[[], bool]:
    """Whether the brokers have told of themselves."""
    return lambda: "asked yet" not in text(console) and "Log dirs" in text(console)


def line_with(console: BreakglassApp, words: str) -> str:
    return next((line for line in lines(console) if words in line), "")


def short_of(number: int, *isr: int, topic: str = "orders") -> PartitionState:
    """A partition of b1, b2 and b4 with that ISR."""
    return replace(online_partition(topic, number, isr[0]), isr=isr)


def focus(console: BreakglassApp) -> str:
    return (console.focused.id if console.focused is not None else None) or ""


async def test_everything_is_on_a_small_terminal_at_once() -> None:
    access = CannedAccess(broken_dirs={2: ("/mnt/b",)}, silent={3: REFUSED})
    console = overview(every_verdict(), access=access)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, told(console), "what brokers tell")
        assert line_with(console, "BOMB on 3")
        assert line_with(console, "offline   ").split()[:3] == [">offline", "13", "13"]
        assert line_with(console, "under min ISR").split()[3:5] == ["0", "0"]
        assert "Of 23 partitions" in text(console)
        quorum = text(console).split("Quorum")[1]
        assert "leader 101, epoch 4, log end 9,000" in quorum
        assert "102 lag 2" in quorum
        assert "1 partition: stock 1" in line_with(console, "Reassigning")
        assert "4, 1 fenced, 1 silent, 1 with a log dir offline" in text(console)
        rows = [line.split() for line in lines(console)[-12:] if line.lstrip("> ").startswith("b")]
        assert [row[0] for row in rows] == ["b2", "b3", "b1", "b4"]
        assert " ".join(rows[0]).startswith("b2 LOG DIR OFFLINE 1 of 2 off")
        assert " ".join(rows[1]).startswith("b3 FENCED, connection refused")


@pytest.mark.parametrize(
    ("size", "terminal", "theme"),
    [
        ((60, 20), Terminal(ascii_only=True), "breakglass-monochrome"),
        ((120, 40), Terminal(), "breakglass-light"),
    ],
)
async def test_narrow_and_wide_terminals_have_every_broker_and_every_count(
    size: tuple[int, int], terminal: Terminal, theme: str
) -> None:
    console = overview(every_verdict(), terminal=terminal, theme=theme)
    async with console.run_test(size=size) as pilot:
        await until(pilot, told(console), "what brokers tell")
        for words in ("offline ", "under min ISR", "under-replicated", "Quorum", "Reassigning"):
            assert line_with(console, words)
        for broker in ("b1", "b2", "b3", "b4"):
            assert any(line.lstrip("> ").startswith(broker) for line in lines(console))
        if terminal.ascii_only:
            assert text(console).isascii()


async def test_the_course_since_the_start_is_drawn_whichever_screen_was_up() -> None:
    console = overview(nothing_offline(), every_verdict(), diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Of 3 partitions" in text(console), "the first look")
        await pilot.press("4", "ctrl+r", "1")
        await until(pilot, lambda: "Of 23 partitions" in text(console), "the second")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "Of 1 partitions" in text(console), "the third")
        assert line_with(console, ">offline").split()[:3] == [">offline", "1", "13"]
        course = line_with(console, ">offline").split()[3]
        assert "█" in course


async def test_what_cannot_be_read_again_stays_and_is_marked() -> None:
    console = overview(diverged_incident(), NO_ANSWER)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, told(console), "the truth")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "STALE" in text(console), "the mark")
        assert "STALE" in line_with(console, "Quorum")
        assert "STALE" in line_with(console, "Refresh")
        assert line_with(console, ">offline").split()[1] == "1"
        assert text(console).count("no broker answers") == 1


async def test_before_the_first_look_every_figure_is_unknown() -> None:
    console = overview(NO_ANSWER)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "not connected" in lines(console)[0], "the failure")
        assert line_with(console, ">offline").split()[:3] == [">offline", "?", "?"]
        assert "The cluster has not been read yet." in text(console)


@pytest.mark.parametrize(
    ("quorum", "words"),
    [
        (replace(QUORUM, leader=None), "NO LEADER, epoch 4"),
        (Unknown("not allowed: needs DESCRIBE on CLUSTER"), "? not allowed: needs DESCRIBE on"),
        (Silent("the controller quorum does not answer"), "NO QUORUM: the controller quorum does"),
        (
            Quorum(101, 4, 9, (Voter(101, 9, 0, 0), Voter(102, 9, 0, 200_000))),
            "102 lag 0, SILENT 3 min",
        ),
    ],
)
async def test_a_quorum_in_trouble_says_which(quorum: Quorum | Unknown, words: str) -> None:
    console = overview(incident_of(LEDGER, quorum=quorum))
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: words in text(console), words)


async def test_controllers_that_fall_silent_are_told_before_what_they_said_last() -> None:
    silent = incident_of(LEDGER, quorum=Silent("the controller quorum does not answer"))
    console = overview(diverged_incident(), silent)
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "leader 101" in text(console), "the quorum")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "NO QUORUM: the" in text(console), "the loss")
        assert "; before: leader 101" in line_with(console, "NO QUORUM: the")


async def test_a_minimum_that_may_not_be_read_makes_a_lower_bound_with_the_reason() -> None:
    why = "not allowed: needs DESCRIBE_CONFIGS on topic orders"

    incident = incident_of(LEDGER, online=[short_of(1, 1), short_of(2, 1, 2)])
    denied = replace(incident.snapshot.settings["ledger"], min_insync_replicas=Unknown(why))
    incident.snapshot.settings["orders"] = denied
    access = CannedAccess(failure=NotAuthorized("no"))
    console = overview(incident, access=access)
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: why in text(console), "the reason")
        assert line_with(console, "under min ISR ").split()[3] == ">=0"
        assert "under min ISR: 2 more are possible" in text(console)


async def test_why_brokers_cannot_be_asked_is_told() -> None:
    console = overview(diverged_incident(), access=CannedAccess(failure=REFUSED))
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "cannot be asked: b3 refuses" in text(console), "the reason")


async def test_brokers_are_asked_now_and_then_and_at_once_on_ctrl_r() -> None:
    access = CannedAccess()
    console = overview(diverged_incident(), access=access)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, told(console), "what brokers tell")
        asked = len(access.asked)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(access.asked) == 2 * asked, "the second time")
        screen = console.screen
        assert isinstance(screen, OverviewScreen)
        screen.tick()
        assert len(access.asked) == 2 * asked
        assert screen._asked_at is not None
        screen._asked_at -= ASK_EVERY_SECONDS
        await until(pilot, lambda: len(access.asked) == 3 * asked, "the third time")


async def test_nobody_is_asked_while_something_is_changed() -> None:
    access = CannedAccess()
    console = overview(diverged_incident(), access=access)
    console.context.known.paused = True
    console.context.health.seen(diverged_incident().snapshot)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "not asked yet" in text(console), "the brokers")
        await pilot.pause()
        assert not access.asked


class Backups:
    """A kind of backup."""

    name = "topics"

    def glance(self, deadline: Deadline) -> BackupGlance:
        return BackupGlance("12 of 12 topics", 1_700_000_000_000, "the last run failed: run it")


async def test_backups_are_shown_once_something_makes_them() -> None:
    console = overview(diverged_incident())
    plugged = replace(console.context, health=Monitor([Backups()]))
    bare = BreakglassApp(plugged, theme="breakglass-dark", start="overview")
    async with bare.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "12 of 12 topics" in text(bare), "the glance")
        assert "newest 2023-11-14 22:13:20Z; the last run failed" in line_with(bare, "Topics")


async def test_no_placeholder_stands_for_backups_that_nobody_makes() -> None:
    console = overview(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, told(console), "what brokers tell")
        assert "ackup" not in text(console)


async def test_hostile_names_and_paths_are_inert() -> None:
    path = "/mnt/\x1b[2J[red]x[/]\u202e" + 900 * "y"
    access = CannedAccess(broken_dirs={1: (path,)}, settings={"log.dirs": path})
    console = overview(hostile_names(), access=access)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, told(console), "what brokers tell")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "log.dirs" in text(console), "the settings")
        assert all(line.isprintable() for line in lines(console))
        assert "[red]x[/]" in text(console)


class TestKeys:
    async def test_plus_and_minus_change_the_interval_within_bounds(self) -> None:
        console = overview(diverged_incident())
        async with console.run_test(size=(80, 24)) as pilot:
            console.post_message(IntervalChanged(2.0))
            await until(pilot, lambda: "every 2 s" in text(console), "the interval")
            await pilot.press("plus")
            await until(pilot, lambda: "every 5 s" in text(console), "slower")
            await pilot.press("equals_sign")
            await until(pilot, lambda: "every 10 s" in text(console), "slower")
            await pilot.press("minus", "minus", "minus", "minus", "minus")
            await until(pilot, lambda: "every 1 s" in text(console), "the shortest")
            for _ in INTERVALS:
                await pilot.press("plus")
            await until(pilot, lambda: "every 300 s" in text(console), "the longest")

    async def test_tab_goes_between_the_lists_and_only_one_cursor_is_seen(self) -> None:
        console = overview(diverged_incident())
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, told(console), "what brokers tell")
            assert focus(console) == "troubles"
            await pilot.press("tab")
            await until(pilot, lambda: focus(console) == "brokers", "the other list")
            await until(pilot, lambda: line_with(console, ">b"), "its cursor")
            assert sum(line.startswith(">") for line in lines(console)) == 1

    async def test_enter_on_offline_asks_for_the_offline_partitions(self) -> None:
        asked: list[str] = []
        console = overview(diverged_incident())
        hook = console.post_message

        def noting(message: Any) -> bool:
            if isinstance(message, OfflineAsked):
                asked.append(message.wanted)
                return True
            return hook(message)

        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, told(console), "what brokers tell")
            console.post_message = noting  # type: ignore[method-assign]
            await pilot.press("enter")
            await until(pilot, lambda: asked == [""], "the message")
            await pilot.press("tab", "end", "enter")
            await until(pilot, lambda: isinstance(console.screen, BrokerDetails), "the broker")
            await pilot.press("o")
            await until(pilot, lambda: asked == ["", "broker:4"], "those of the broker")

    async def test_enter_on_the_other_counts_lists_their_partitions_by_topic(self) -> None:
        states = [short_of(number, 1) for number in range(5)] + [short_of(9, 1, 2, topic="[b]x[/]")]
        incident = incident_of(LEDGER, online=states)
        console = overview(incident)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, told(console), "what brokers tell")
            await pilot.press("down", "down", "enter")
            await until(pilot, lambda: isinstance(console.screen, TroubledScreen), "the list")
            await until(pilot, lambda: "0-4" in text(console), "its rows")
            rows = console.screen.query_one(LineTable).rows
            assert [(row.topic, row.in_sync, row.partitions) for row in rows] == [
                ("orders", 1, (0, 1, 2, 3, 4)),
                ("[b]x[/]", 2, (9,)),
            ]
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(console.screen, OverviewScreen), "the overview")

    @pytest.mark.parametrize("key", ["escape", "enter", "q"])
    async def test_enter_on_a_broker_shows_all_of_it_until_it_is_closed(self, key: str) -> None:
        settings: dict[str, str | None] = {"advertised.listeners": "PLAINTEXT://kafka-1:9092"}
        access = CannedAccess(broken_dirs={1: ("/mnt/b",)}, settings=settings)
        console = overview(every_verdict(), access=access)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, told(console), "what brokers tell")
            await pilot.press("tab", "home", "enter")
            await until(pilot, lambda: "PLAINTEXT://kafka-1:9092" in text(console), "settings")
            assert "LOG DIR OFFLINE" in line_with(console, "Broker 1")
            assert "/mnt/b OFFLINE: KAFKA_STORAGE_ERROR" in text(console)
            assert "/var/kafka, 120.0 GiB of 500.0 GiB free" in text(console)
            await pilot.press(key)
            await until(pilot, lambda: isinstance(console.screen, OverviewScreen), "the overview")

    async def test_a_broker_that_does_not_answer_says_so_in_its_details(self) -> None:
        console = overview(every_verdict(), access=CannedAccess(silent={3: REFUSED}))
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, told(console), "what brokers tell")
            await pilot.press("tab", "enter")
            await until(pilot, lambda: "Broker 3" in text(console), "the broker")
            await until(pilot, lambda: "? b3 refuses connections" in text(console), "the reason")
            assert "it leads nothing until it is unfenced" in line_with(console, "Fenced")


async def test_a_hundred_thousand_partitions_are_shown_without_holding_up_the_screen() -> None:
    incident = many_offline(100_000, topics=100)
    console = overview(incident)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Of 100,000 partitions" in text(console), "the counts")
        screen = console.screen
        assert isinstance(screen, OverviewScreen)
        began = time.thread_time()
        screen.tick()
        assert time.thread_time() - began < 0.05
