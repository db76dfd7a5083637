"""What the overview, the journal and the ledger look like in both sizes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from breakglass.console.app import BreakglassApp
from breakglass.screens.journal.ledger import LedgerScreen
from breakglass.screens.overview.broker_details import BrokerDetails
from breakglass.services.model import Unknown
from breakglass.services.recovery.ledger.page import ledger_page
from tests.kit.incidents import READ_AT_MS, diverged_incident, every_verdict, nothing_offline
from tests.screens.canned_access import REFUSED, CannedAccess
from tests.screens.consoles import console_on
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.turns import lines, text, until
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.timeline import journals

MINUTE = 60_000


class Clock:
    """Goes on by a minute at each refresh."""

    now = READ_AT_MS

    def __call__(self) -> int:
        return self.now


def counted(console: BreakglassApp, partitions: int) -> bool:
    """Whether the last look is shown, which found so many *partitions*."""
    return f"Of {partitions} partitions" in text(console)


def told_now(console: BreakglassApp, fact: str) -> bool:
    """Whether *fact* is as new as the clock."""
    return any(fact in line and line.endswith("0 s ago") for line in lines(console))


@pytest.mark.parametrize("look", LOOKS)
async def test_the_overview_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    access = CannedAccess(
        broken_dirs={2: ("/mnt/b",)},
        silent={3: REFUSED},
        settings={"advertised.listeners": "PLAINTEXT://kafka-1:9092", "process.roles": "broker"},
    )
    untold = replace(
        every_verdict(),
        snapshot=replace(every_verdict().snapshot, quorum=Unknown("the answer is late")),
    )
    readings = [nothing_offline(), diverged_incident(), every_verdict(), untold]
    console = console_on(
        *readings, access=access.as_access, theme=look.theme, start="overview", clock=stopped_clock
    )
    clock = Clock()
    console.context.health.now_ms = clock
    async with console.run_test(size=look.size) as pilot:
        for total in (3, 1, 23):
            await until(pilot, partial(counted, console, total), "a look")
            clock.now += MINUTE
            await pilot.press("ctrl+r")
        await until(pilot, lambda: "since then: the answer" in text(console), "the mark")
        await until(pilot, lambda: "FENCED, connection refused" in text(console), "brokers")
        await until(pilot, lambda: told_now(console, "Brokers "), "the brokers' last word")
        await pilot.press("tab")
        await until(pilot, lambda: "\n>b" in text(console), "the cursor")
        await at_rest(pilot)
        drawn_as_before(console)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_broker_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    settings: dict[str, str | None] = {"advertised.listeners": "PLAINTEXT://kafka-2:9092"}
    access = CannedAccess(broken_dirs={2: ("/mnt/b",)}, silent={}, settings=settings)
    console = console_on(
        nothing_offline(),
        access=access.as_access,
        theme=look.theme,
        start="overview",
        clock=stopped_clock,
    )
    console.context.health.now_ms = Clock()
    async with console.run_test(size=look.size) as pilot:
        await until(pilot, lambda: "LOG DIR OFFLINE" in text(console), "the broken one")
        await pilot.press("tab", "home", "enter")
        await until(pilot, lambda: isinstance(console.screen, BrokerDetails), "the broker")
        await until(pilot, lambda: "kafka-2:9092" in text(console), "its settings")
        await at_rest(pilot)
        drawn_as_before(console)


@pytest.mark.parametrize("look", LOOKS)
async def test_the_journal_looks_as_before(
    look: Look, drawn_as_before: Drawn, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("breakglass.services.guard.journal.operator", lambda: "ops@bastion")
    made = (journals.group_reset, journals.hostile, journals.interrupted, journals.recovery)
    for number, make in enumerate(made):
        journals.timed(make(tmp_path), begin_ms=journals.BEGIN_MS + number * MINUTE)
    console = console_on(
        nothing_offline(),
        theme=look.theme,
        start="journal",
        state_folder=tmp_path,
        clock=stopped_clock,
    )
    async with console.run_test(size=look.size) as pilot:
        await until(pilot, lambda: "ledger-3" in text(console), "the partitions")
        await until(pilot, lambda: "u asks the cluster again" in text(console), "what comes next")
        await at_rest(pilot)
        drawn_as_before(console)


@pytest.mark.parametrize("look", LOOKS)
async def test_the_ledger_looks_as_before(
    look: Look, drawn_as_before: Drawn, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("breakglass.services.guard.journal.operator", lambda: "ops@bastion")
    page = ledger_page(incidents.shown_ledger(tmp_path / "made"))
    console = console_on(
        nothing_offline(),
        theme=look.theme,
        start="journal",
        state_folder=tmp_path,
        clock=stopped_clock,
    )
    async with console.run_test(size=look.size) as pilot:
        await console.push_screen(LedgerScreen(page, lambda: None))
        await until(pilot, lambda: "The sums add up" in text(console), "the ledger")
        await at_rest(pilot)
        drawn_as_before(console)
