"""The line about elections that cost records: on every screen, until somebody takes note."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from breakglass.console.app import MODES
from breakglass.console.web.session import WebConsole
from breakglass.services.incident.elections_seen import ElectionSeen, LogFate, ReplicaAhead
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.observations import Observation, Observations
from breakglass.services.model import TopicPartition
from tests.kit.incidents import every_verdict, nothing_offline
from tests.screens.canned_access import CannedAccess
from tests.screens.consoles import console_on
from tests.screens.drawing import at_rest
from tests.screens.turns import flat, hides, lines, shows, text, until

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
            assert "And 1 more: 4 shows all." in text(console), mode
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
