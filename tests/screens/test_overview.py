"""The overview: a cluster at a glance, each figure with its age, nothing to break; on every screen
the line about elections that cost records, and what was seen last.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.console.app import MODES, BreakglassApp
from breakglass.console.web.session import WebConsole
from breakglass.screens.messages import IntervalChanged, OfflineAsked
from breakglass.screens.overview import (
    ASK_EVERY_SECONDS,
    INTERVALS,
    BrokerDetails,
    OverviewScreen,
    TroubledScreen,
)
from breakglass.screens.terminal import Terminal
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.errors import ConnectFailed, TimedOut
from breakglass.services.health.figure import BackupGlance
from breakglass.services.health.monitor import Monitor
from breakglass.services.incident.elections_seen import (
    ElectionSeen,
    LogFate,
    Observation,
    Observations,
    ReplicaAhead,
)
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, Silent, TopicPartition, Unknown
from breakglass.services.snapshot import Quorum, Voter
from tests.kit.clock import Clock
from tests.kit.incidents import (
    LEDGER,
    QUORUM,
    bomb,
    diverged_incident,
    every_verdict,
    hostile_names,
    incident_of,
    nothing_offline,
    online_partition,
)
from tests.screens.canned_access import REFUSED, CannedAccess
from tests.screens.consoles import Asked, console_on
from tests.screens.drawing import at_rest
from tests.screens.turns import flat, hides, is_inert, line_with, lines, opens, shows, text, until

NO_ANSWER = TimedOut("no broker answers: check the address, the tunnel and the brokers", "silence")
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
        "NO QUORUM: the": Silent("the controller quorum does not answer"),
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


SEEN = "22:13:20Z"
"""When canned incidents were read."""
PRESENT = re.compile(
    r"No partition is offline|Nothing is offline|quorum ok|\d+ brokers?\b[^;]*\d offline"
    r"|has no command topic|is not offline any more"
)
"""Sentences that are true of a cluster only while it is known."""
SILENT = ConnectFailed("b1 does not answer")


def console(incident: Incident, clock: Clock, start: str) -> BreakglassApp:
    return console_on(incident, SILENT, start=start, clock=clock)


async def blind(pilot: Pilot[None], clock: Clock) -> None:
    """The next refresh, 84 seconds later, fails."""
    app = pilot.app
    assert isinstance(app, BreakglassApp)
    known = app.context.known
    await until(pilot, lambda: known.incident and not known.reading, "the first reading")
    await pilot.press("ctrl+r")
    await until(pilot, lambda: known.failure and not known.reading, "the failure")
    clock.advance(84)
    app.screen.on_screen_resume()  # type: ignore[attr-defined]
    await shows(pilot, "UNKNOWN for 84 s: b1 does not answer")


@pytest.mark.parametrize("start", MODES)
async def test_r41_no_screen_says_in_the_present_what_was_seen_last(start: str) -> None:
    clock = Clock()
    app = console(incident_of(), clock, start)
    async with app.run_test(size=(80, 24)) as pilot:
        await blind(pilot, clock)
        await shows(pilot, f"Last seen {SEEN}: none offline")
        assert "? offline" in lines(app)[0]
        assert not PRESENT.search(flat(app)), flat(app)


async def test_the_list_a_partition_and_the_forecast_say_when_they_were_seen() -> None:
    clock = Clock()
    app = console(incident_of(bomb(0)), clock, "offline")
    async with app.run_test(size=(80, 24)) as pilot:
        await blind(pilot, clock)
        headline = app.context.known.incident.summary.alarm  # type: ignore[union-attr]
        await shows(pilot, f'Last seen {SEEN}: 1 offline. It said: "{headline}')
        assert f"as last seen {SEEN}" in line_with(app, "as last seen")
        await shows(pilot, f"So it was at {SEEN}; what is so by now is UNKNOWN.")
        await pilot.press("f")
        await shows(pilot, f"as last seen {SEEN}")
        await pilot.press("escape", "enter")
        await shows(pilot, f"What is so by now is UNKNOWN. At {SEEN}")


async def test_a_plan_of_what_was_seen_last_says_so() -> None:
    clock = Clock()
    app = console(incident_of(), clock, "plan")
    async with app.run_test(size=(80, 24)) as pilot:
        await blind(pilot, clock)
        await pilot.press("p")
        await shows(pilot, f"No partition was offline at {SEEN}")


async def test_what_is_read_again_is_said_in_the_present_again() -> None:
    clock, incident = Clock(), incident_of()
    app = console_on(incident, SILENT, incident, clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await blind(pilot, clock)
        await shows(pilot, f"Nothing was offline at {SEEN}.")
        await pilot.press("ctrl+r")
        await shows(pilot, "No partition is offline.")
        assert "UNKNOWN for" not in flat(app)


EMPTY = ElectionSeen(
    TopicPartition("carts3", 0), "an-id", 1, 6, 82_971_000, 0, True, 2, 103, 103, False,
    (ReplicaAhead(2, 103, 0, LogFate.RUNNING), ReplicaAhead(3, 100, 0, LogFate.RUNNING)),
)  # fmt: skip
SHORTER = replace(
    EMPTY, partition=TopicPartition("orders", 3), leader=2, log_end=70, empty=False, best=1,
    missing=33, holders=(ReplicaAhead(1, 103, 0, LogFate.DOWN),),
)  # fmt: skip
ALARM = (
    "b1 was elected EMPTY, seen at 23:02:51Z: carts3-0..2 went from 103 to 0; stop the brokers "
    "that still hold a log: b2, b3."
)


def gone_off(incident: Incident) -> Incident:
    """*incident* after b1 was elected EMPTY, and b2 with a shorter log elsewhere."""
    carts = [replace(EMPTY, partition=TopicPartition("carts3", number)) for number in range(3)]
    seen = tuple([Observation(cart, "ann@ops") for cart in (*carts, SHORTER)])
    return replace(incident, observations=seen)


async def test_r02_every_screen_says_until_it_is_noted_that_an_empty_broker_was_elected(
    tmp_path: Path,
) -> None:
    access = CannedAccess().as_access
    console = console_on(gone_off(nothing_offline()), access=access, state_folder=tmp_path)
    async with console.run_test(size=(80, 24)) as pilot:
        for mode in MODES:
            await console.switch_mode(mode)
            await shows(pilot, ALARM)
            assert lines(console)[1].startswith(" b1 was elected EMPTY, seen at 23:02:51Z"), mode
            assert "And 1 more: press 4." in text(console), mode
            await until(pilot, lambda: "! acknowledge" in lines(console)[-1], "its key")
        await pilot.press("ctrl+r", "2", "1")
        await shows(pilot, ALARM)
        await pilot.press("exclamation_mark")
        await hides(pilot, "EMPTY")
        await until(pilot, lambda: "! acknowledge" not in lines(console)[-1], "its key to go")


async def test_it_stands_above_what_to_do_first_in_every_size_and_is_not_there_without_alarm() -> (
    None
):
    unwritten = replace(gone_off(nothing_offline()), unwritten="no space left in /state")
    console = console_on(gone_off(every_verdict()), every_verdict(), unwritten)
    async with console.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "FIRST stop b4 NOW")
        shown = lines(console)
        place = next(at for at, line in enumerate(shown) if "FIRST stop b4" in line)
        assert 1 < place < 6
        listed = sum("carts-0..2" in line or "orders-0" in line for line in shown)
        assert listed >= 2, "there is room for the list"

        await pilot.resize_terminal(40, 10)
        await until(
            pilot, lambda: lines(console)[1] == " b1 was elected EMPTY, seen at", "its begin"
        )
        await shows(pilot, "FIRST stop b4 NOW")
        await at_rest(pilot)
        assert any(line.replace(" ", "").startswith(">BOMB") for line in lines(console))

        await pilot.resize_terminal(120, 24)
        await pilot.press("ctrl+r")
        await hides(pilot, "elected EMPTY")
        await shows(pilot, "13 offline")
        assert "! acknowledge" not in text(console)
        await pilot.press("ctrl+r")
        await shows(pilot, "not in the journal: no space left")


async def test_the_journal_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    store = Observations(nothing_offline().snapshot.cluster_id, tmp_path)
    store.add([EMPTY, SHORTER])
    store.acknowledge([SHORTER.key])
    console = console_on(nothing_offline(), start="journal", state_folder=tmp_path)
    async with console.run_test(size=(100, 24)) as pilot:
        await shows(pilot, "SEEN")
        assert "acknowledged" in text(console)
        assert "orders-3 was elected by somebody else" in flat(console)
        await shows(pilot, "! acknowledges it")


async def test_a_browser_shows_it_and_cannot_take_note(tmp_path: Path) -> None:
    canned = console_on(gone_off(nothing_offline()), state_folder=tmp_path)
    console = WebConsole(canned.context, theme="breakglass-dark")
    async with console.run_test(size=(80, 24)) as pilot:
        await shows(pilot, ALARM)
        await pilot.press("exclamation_mark")
        await pilot.pause()
        assert ALARM in flat(console)
        assert "! acknowledge" not in text(console)
