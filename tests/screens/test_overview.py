"""The overview: all of a cluster at a glance, each figure with its age, nothing to break."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.screens.messages import IntervalChanged, OfflineAsked
from breakglass.screens.overview.broker_rows import ASK_EVERY_SECONDS
from breakglass.screens.overview.screen import (
    INTERVALS,
    BrokerDetails,
    OverviewScreen,
    TroubledScreen,
)
from breakglass.screens.terminal import Terminal
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.errors import TimedOut
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.monitor import Monitor
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, Silent, Unknown
from breakglass.services.snapshot import Quorum, Voter
from tests.kit.clock import Clock
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
from tests.kit.work import calls_of
from tests.screens.canned_access import REFUSED, CannedAccess
from tests.screens.consoles import Asked, console_on
from tests.screens.turns import is_inert, line_with, lines, opens, shows, text, until

NO_ANSWER = TimedOut("no broker answers: check the address, the tunnel and the brokers", "silence")
NO_QUORUM = Silent("the controller quorum does not answer")
WIDE = (120, 40)


@asynccontextmanager
async def overview(
    *readings: Any,
    access: CannedAccess | None = None,
    size: tuple[int, int] = (80, 24),
    **options: Any,
) -> AsyncIterator[Pilot[Any]]:
    """The overview, as soon as the brokers have told of themselves, if they can be asked."""
    brokers = access or CannedAccess()
    console = console_on(*readings, access=brokers.as_access, start="overview", **options)
    async with console.run_test(size=size) as pilot:
        if brokers.failure is None and readings[0] is not NO_ANSWER:
            await until(pilot, lambda: told(console), "what brokers tell")
        yield pilot


def told(console: BreakglassApp) -> bool:
    return "asked yet" not in text(console) and "Log dirs" in text(console)


def short_of(number: int, *isr: int, topic: str = "orders") -> PartitionState:
    """A partition of b1, b2 and b4 with that ISR."""
    return replace(online_partition(topic, number, isr[0]), isr=isr)


ROWS = ("offline ", "under min ISR", "under-replicated", "Quorum", "Reassigning")


def has_every_broker_and_count(console: BreakglassApp) -> bool:
    brokers = {line.lstrip("> ")[:2] for line in lines(console)}
    return all(line_with(console, words) for words in ROWS) and brokers >= {"b1", "b2", "b3", "b4"}


async def test_everything_is_on_a_small_terminal_at_once_and_enter_shows_all_of_a_broker() -> None:
    settings: dict[str, str | None] = {"advertised.listeners": "PLAINTEXT://kafka-1:9092"}
    access = CannedAccess({2: ("/mnt/b",)}, {3: REFUSED}, settings)
    async with overview(every_verdict(), access=access) as pilot:
        line_of = partial(line_with, pilot.app)
        assert line_of("BOMB on 3")
        assert line_of("offline   ").split()[:3] == [">offline", "13", "13"]
        assert line_of("under min ISR").split()[3:5] == ["0", "0"]
        for words in ("Of 23 partitions", "leader 101, epoch 4", "102 lag 2"):
            assert words in text(pilot.app)
        assert "1 fenced, 1 silent, 1 with" in text(pilot.app)
        assert "stock 1" in line_of("Reassigning")
        shown = [line.split() for line in lines(pilot.app)[-12:]]
        rows = [row for row in shown if row and row[0].lstrip(">").startswith("b")]
        assert [row[0].lstrip(">") for row in rows] == ["b2", "b3", "b1", "b4"]
        assert " ".join(rows[0][1:]).startswith("LOG DIR OFFLINE 1 of 2 off")
        assert " ".join(rows[1][1:]).startswith("FENCED, connection refused")

        for key in ("escape", "enter", "q"):
            await pilot.press("tab", "home", "enter")
            await shows(pilot, "PLAINTEXT://kafka-1:9092")
            assert "LOG DIR OFFLINE" in line_of("Broker 2")
            assert "KAFKA_STORAGE_ERROR" in line_of("/mnt/b OFFLINE")
            assert "120.0 GiB of 500.0 GiB" in line_of("/var/kafka")
            await pilot.press(key)
            await opens(pilot, OverviewScreen)
            await pilot.press("tab")
        await pilot.press("tab", "down", "enter")
        await shows(pilot, "Broker 3")
        await shows(pilot, "? b3 refuses connections")
        assert "until it is unfenced" in line_of("Fenced")
        await pilot.press("escape")
        await pilot.resize_terminal(*WIDE)
        await until(pilot, lambda: has_every_broker_and_count(pilot.app), "a wide terminal")  # type: ignore[arg-type]
        assert not text(pilot.app).isascii()
    how: dict[str, Any] = {"terminal": Terminal(ascii_only=True), "theme": "breakglass-monochrome"}
    async with overview(every_verdict(), size=(60, 20), **how) as pilot:
        assert has_every_broker_and_count(pilot.app)  # type: ignore[arg-type]
        assert text(pilot.app).isascii()


async def test_figures_are_unknown_at_first_then_drawn_over_time_and_marked_when_they_are_old() -> (
    None
):
    looks = nothing_offline(), every_verdict(), diverged_incident()
    async with overview(NO_ANSWER, *looks, NO_ANSWER) as pilot:
        await shows(pilot, "not connected")
        assert line_with(pilot.app, ">offline").split()[:3] == [">offline", "?", "?"]
        await pilot.press("ctrl+r")
        await shows(pilot, "Of 3 partitions")
        await pilot.press("4", "ctrl+r", "1")
        await shows(pilot, "Of 23 partitions")
        await pilot.press("ctrl+r")
        await shows(pilot, "Of 1 partitions")
        offline = line_with(pilot.app, ">offline").split()
        assert offline[:3] == [">offline", "1", "13"]
        assert "█" in offline[3], "whichever screen was up"
        await pilot.press("ctrl+r")
        await shows(pilot, "STALE")
        assert "STALE" in line_with(pilot.app, "Quorum")
        assert "STALE" in line_with(pilot.app, "Refresh")
        assert line_with(pilot.app, ">offline").split()[1] == "1"
        await shows(pilot, "no broker answers")
        assert text(pilot.app).count("no broker answers") == 1


async def test_a_quorum_says_its_trouble_and_enter_on_a_count_lists_its_partitions_by_topic() -> (
    None
):
    slow = Quorum(101, 4, 9, (Voter(101, 9, 0, 0), Voter(102, 9, 0, 200_000)))
    told: dict[str, Quorum | Unknown] = {
        "? not allowed": Unknown("not allowed: needs DESCRIBE on CLUSTER"),
        "NO LEADER, epoch 4": replace(QUORUM, leader=None),
        "SILENT 3 min": slow,
        "leader 101": QUORUM,
        "NO QUORUM: the": NO_QUORUM,
    }
    states = [short_of(number, 1) for number in range(5)] + [short_of(9, 1, 2, topic="[b]x[/]")]
    readings = [incident_of(LEDGER, online=states, quorum=quorum) for quorum in told.values()]
    async with overview(*readings, size=WIDE) as pilot:
        for words in told:
            await shows(pilot, words)
            await pilot.press("ctrl+r")
        assert "before: leader 101" in line_with(pilot.app, "NO QUORUM: the")
        await pilot.press("down", "down", "enter")
        await opens(pilot, TroubledScreen)
        await shows(pilot, "0-4")
        rows = pilot.app.screen.query_one(LineTable).rows
        assert [(row.topic, row.in_sync, row.partitions) for row in rows] == [
            ("orders", 1, (0, 1, 2, 3, 4)),
            ("[b]x[/]", 2, (9,)),
        ]
        await pilot.press("escape")
        await opens(pilot, OverviewScreen)


async def test_why_a_minimum_and_brokers_are_not_known_is_told_beside_a_lower_bound() -> None:
    why = "not allowed: needs it"
    incident = incident_of(LEDGER, online=[short_of(1, 1), short_of(2, 1, 2)])
    denied = replace(incident.snapshot.settings["ledger"], min_insync_replicas=Unknown(why))
    incident.snapshot.settings["orders"] = denied
    async with overview(incident, access=CannedAccess(failure=REFUSED), size=WIDE) as pilot:
        await shows(pilot, why)
        assert line_with(pilot.app, "under min ISR ").split()[3] == ">=0"
        await shows(pilot, "2 more are possible")
        await shows(pilot, "asked: b3 refuses")


class Backups:
    """A kind of backup."""

    name = "topics"

    def glance(self, deadline: Deadline) -> BackupGlance:
        return BackupGlance("12 of 12 topics", 1_700_000_000_000, "the last run failed")


async def test_brokers_and_backups_are_not_asked_while_something_is_changed() -> None:
    access = CannedAccess()
    canned = console_on(diverged_incident(), access=access.as_access, start="overview")
    context = replace(canned.context, health=Monitor([Backups()]))
    context.known.paused = True
    context.health.seen(diverged_incident().snapshot)
    console = BreakglassApp(context, theme="breakglass-dark", start="overview")
    async with console.run_test(size=WIDE) as pilot:
        await shows(pilot, "not asked yet")
        await pilot.pause()
        assert not access.asked
        context.known.paused = False
        await pilot.press("ctrl+r")
        await shows(pilot, "12 of 12 topics")
        assert "22:13:20Z; the last run" in line_with(console, "Topics")


async def test_keys_ask_brokers_anew_and_for_partitions_and_change_the_interval() -> None:
    """By itself it asks brokers now and then."""
    access, clock = CannedAccess(), Clock()
    async with overview(diverged_incident(), access=access, clock=clock) as pilot:
        assert "ackup" not in text(pilot.app), "nothing makes any"
        count = len(access.asked)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(access.asked) == 2 * count, "the second time")
        screen = pilot.app.screen
        assert isinstance(screen, OverviewScreen)
        screen.tick()
        assert len(access.asked) == 2 * count
        clock.advance(ASK_EVERY_SECONDS)
        await until(pilot, lambda: len(access.asked) == 3 * count, "the third time")

        asked = Asked(pilot.app, OfflineAsked)
        await pilot.press("enter", "tab")
        await until(pilot, lambda: line_with(pilot.app, ">b"), "the cursor of the other list")
        assert sum(line.startswith(">") for line in lines(pilot.app)) == 1
        await pilot.press("end", "enter")
        await opens(pilot, BrokerDetails)
        await pilot.press("o")
        await until(pilot, lambda: len(asked.messages) == 2, "those of the broker")
        assert [message.wanted for message in asked.messages] == ["", "broker:4"]
        await pilot.press("escape")
        await opens(pilot, OverviewScreen)

        pilot.app.post_message(IntervalChanged(2.0))
        await shows(pilot, "every 2 s")
        for keys, seconds in (
            (["plus"], 5),
            (["equals_sign"], 10),
            (["minus"] * 5, 1),
            (["plus"] * len(INTERVALS), 300),
        ):
            await pilot.press(*keys)
            await shows(pilot, f"every {seconds} s")


async def test_hostile_names_and_paths_are_inert() -> None:
    path = "/mnt/\x1b[2J[red]x[/]\u202e" + 900 * "y"
    access = CannedAccess(broken_dirs={1: (path,)}, settings={"log.dirs": path})
    async with overview(hostile_names(), access=access) as pilot:
        await pilot.press("tab", "enter")
        await shows(pilot, "log.dirs")
        assert is_inert(pilot.app)
        assert "[red]x[/]" in text(pilot.app)


async def test_a_tick_of_the_screen_does_nothing_for_each_partition() -> None:
    async with overview(many_offline(5_000, topics=100)) as pilot:
        await shows(pilot, "Of 5,000 partitions")
        screen = pilot.app.screen
        assert isinstance(screen, OverviewScreen)
        assert calls_of(screen.tick) < 5_000
