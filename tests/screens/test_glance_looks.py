"""What every page, the overview, the journal and the ledger look like in both sizes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.screens.journal import LedgerScreen, MadeLedger
from breakglass.screens.overview import BrokerDetails
from breakglass.services.incident.incident import Incident
from breakglass.services.model import Unknown
from breakglass.services.recovery.ledger.page import ledger_page
from tests.kit.incidents import READ_AT_MS, diverged_incident, every_verdict, nothing_offline
from tests.screens.canned_access import REFUSED, CannedAccess
from tests.screens.consoles import console_on
from tests.screens.drawing import LOOKS, Drawn, DrawnInSizes, Look, at_rest, stopped_clock
from tests.screens.turns import line_with, opens, shows, text, until
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.timeline import journals

MINUTE = 60_000


class Clock:
    """Goes on by a minute at each refresh."""

    now = READ_AT_MS

    def __call__(self) -> int:
        return self.now


@asynccontextmanager
async def glance(
    start: str,
    *readings: Incident,
    minutes: Clock | None = None,
    size: tuple[int, int] = (80, 24),
    **options: Any,
) -> AsyncIterator[Pilot[Any]]:
    told = readings or (nothing_offline(),)
    console = console_on(*told, start=start, clock=stopped_clock, **options)
    console.context.health.now_ms = minutes or Clock()
    async with console.run_test(size=size) as pilot:
        yield pilot


@pytest.mark.usefixtures("bare_pages")
@pytest.mark.parametrize("look", LOOKS)
async def test_a_page_and_its_help_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with glance("offline", diverged_incident(), size=look.size) as pilot:
        await shows(pilot, "1 offline")
        await pilot.press("?")
        await shows(pilot, "every page has")
        await at_rest(pilot)
        drawn_as_before(pilot.app)


async def test_the_overview_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    access = CannedAccess(
        broken_dirs={2: ("/mnt/b",)},
        silent={3: REFUSED},
        settings={"advertised.listeners": "PLAINTEXT://kafka-1:9092", "process.roles": "broker"},
    )
    late = replace(every_verdict().snapshot, quorum=Unknown("the answer is late"))
    untold = replace(every_verdict(), snapshot=late)
    readings = [nothing_offline(), diverged_incident(), every_verdict(), untold]
    clock, brokers = Clock(), access.as_access
    async with glance("overview", *readings, minutes=clock, access=brokers) as pilot:
        for total in (3, 1, 23):
            await shows(pilot, f"Of {total} partitions")
            clock.now += MINUTE
            await pilot.press("ctrl+r")
        await shows(pilot, "since then: the answer")
        await shows(pilot, "FENCED, connection refused")
        told = partial(line_with, pilot.app, "Brokers ")
        await until(pilot, lambda: told().endswith("0 s ago"), "the brokers' last word")
        await pilot.press("tab")
        await until(pilot, lambda: "\n>b" in text(pilot.app), "the cursor")
        await sizes_as_before(pilot)


async def test_a_broker_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    settings: dict[str, str | None] = {"advertised.listeners": "PLAINTEXT://kafka-2:9092"}
    access = CannedAccess(broken_dirs={2: ("/mnt/b",)}, silent={}, settings=settings)
    async with glance("overview", access=access.as_access) as pilot:
        await shows(pilot, "LOG DIR OFFLINE")
        await pilot.press("tab", "home", "enter")
        await opens(pilot, BrokerDetails)
        await shows(pilot, "kafka-2:9092")
        await sizes_as_before(pilot)


async def test_the_journal_and_the_ledger_look_as_before(
    sizes_as_before: DrawnInSizes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.services.guard.journal.operator", lambda: "ops@bastion")
    made = (journals.group_reset, journals.hostile, journals.interrupted, journals.recovery)
    for number, make in enumerate(made):
        journals.timed(make(tmp_path), begin_ms=journals.BEGIN_MS + number * MINUTE)
    page = ledger_page(incidents.shown_ledger(tmp_path / "made"))
    async with glance("journal", state_folder=tmp_path) as pilot:
        await shows(pilot, "ledger-3")
        await shows(pilot, "u asks the cluster again")
        await sizes_as_before(pilot, "journal")
        context = pilot.app.context  # type: ignore[attr-defined]
        await pilot.app.push_screen(LedgerScreen(context, MadeLedger(page, ""), print))
        await shows(pilot, "The sums add up")
        await sizes_as_before(pilot, "ledger")
