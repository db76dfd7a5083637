"""Draw the pictures of docs/screens from canned incidents; ``--check`` says if they are current.

Clocks stand still and no network is asked: the same screens make the same files.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.console.look import colors_left_to_the_theme
from breakglass.screens.context import REFRESH_SECONDS
from breakglass.screens.guard import ActPage
from breakglass.screens.journal import LedgerScreen, MadeLedger
from breakglass.screens.messages import Seen
from breakglass.screens.plan.asking import LeaderDialog
from breakglass.screens.screenshot import self_contained
from breakglass.services.incident.incident import Incident
from breakglass.services.recovery.ledger.page import ledger_page
from tests.kit.incidents import (
    LEDGER,
    READ_AT_MS,
    every_verdict,
    incident_of,
    lossless,
    nothing_offline,
)
from tests.screens.backups import held as places
from tests.screens.browse import opened as browsing
from tests.screens.bundle_consoles import bundle_console
from tests.screens.canned_access import REFUSED, CannedAccess
from tests.screens.checkpoints import guarding
from tests.screens.checkpoints import held as stores
from tests.screens.consoles import console_on, watch_of
from tests.screens.diff import opened as replicas
from tests.screens.diff.test_looks import logs
from tests.screens.drawing import Look, at_rest, stopped_clock
from tests.screens.elect import test_looks as elections
from tests.screens.metastore import canned as services
from tests.screens.offline import offline_console
from tests.screens.plan import plan_consoles
from tests.screens.test_glance_looks import MINUTE, Clock
from tests.screens.test_quorum import lost_quorum
from tests.screens.turns import text, until
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.timeline import journals

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "screens"
SIZE = (80, 24)
DARK, MONOCHROME = "breakglass-dark", "breakglass-monochrome"
_ID = re.compile(r"terminal-\d+")
"""What Rich names the parts of a picture by: a sum over all that is in it."""

Scene = Callable[[], AbstractAsyncContextManager[BreakglassApp]]
"""Opens a console and brings it to what a picture is to show."""


@asynccontextmanager
async def overview() -> AsyncIterator[BreakglassApp]:
    """Ten quiet minutes, then everything at once."""
    looks = [*[nothing_offline()] * 10, every_verdict()]
    access = CannedAccess(broken_dirs={2: ("/mnt/b",)}, silent={3: REFUSED}).as_access
    console = console_on(*looks, access=access, start="overview", clock=stopped_clock)
    clock = console.context.health.now_ms = Clock()
    async with console.run_test(size=SIZE) as pilot:
        for number in range(1, len(looks)):
            await until(pilot, partial(_looked, console, number), "a look")
            clock.now += MINUTE
            await pilot.press("ctrl+r")
        await until(pilot, lambda: "Of 23 partitions" in text(console), "the last look")
        await until(pilot, lambda: "FENCED, connection refused" in text(console), "the brokers")
        console.context.known.interval = REFRESH_SECONDS
        console.screen.post_message(Seen())
        await until(pilot, lambda: "every 2 s" in text(console), "the interval of every day")
        await at_rest(pilot)
        yield console


def _looked(console: BreakglassApp, times: int) -> bool:
    """Whether the cluster has been looked at so often, and no look is under way."""
    return len(watch_of(console).asked) == times and not console.context.known.reading


@asynccontextmanager
async def offline(theme: str = DARK) -> AsyncIterator[BreakglassApp]:
    """The cursor on a partition whose election has a price."""
    how = {"theme": theme, "clock": stopped_clock}
    async with offline_console.opened(every_verdict(), size=SIZE, **how) as page:
        while "ledger-3" not in page.under_cursor:
            await page.press("down")
        await page.shows("50 past 100")
        await at_rest(page.pilot)
        yield page.console


@asynccontextmanager
async def bundle() -> AsyncIterator[BreakglassApp]:
    """Everything at once, as it was captured."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("breakglass.services.bundle.capture.now_ms", lambda: READ_AT_MS),
    ):
        console = bundle_console(every_verdict(), Path(folder))
        async with console.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: "carts-0..2" in text(console), "the partitions")
            await at_rest(pilot)
            yield console


@asynccontextmanager
async def plan() -> AsyncIterator[BreakglassApp]:
    """A plan with a leader chosen by hand."""
    async with plan_consoles.planned(size=SIZE, clock=stopped_clock) as page:
        await page.press("ctrl+r", says="read again and checked")
        await page.at(plan_consoles.LEDGER_3)
        await page.choose("l", LeaderDialog, "down", "enter")
        await at_rest(page.pilot)
        yield page.console


def six_partitions() -> Incident:
    """One election with a price, five without."""
    return incident_of(LEDGER, *(lossless(number) for number in range(5)))


@asynccontextmanager
async def elect() -> AsyncIterator[BreakglassApp]:
    """The phrase is being typed."""
    async with elections.opened(six_partitions(), Look(DARK, SIZE)) as screen:
        await screen.press("tab", *"6 partitions l")
        await screen.shows("> 6 partitions l")
        await screen.settles()
        yield screen.console


@asynccontextmanager
async def electing() -> AsyncIterator[BreakglassApp]:
    """Some partitions are told, some are under way, some wait."""
    async with elections.opened(six_partitions(), Look(DARK, SIZE)) as screen:
        elections.run_half(screen)
        await screen.until(lambda: "[ Cancel ]" not in screen.text, "the layout of a run")
        await screen.settles()
        yield screen.console


@asynccontextmanager
async def diff() -> AsyncIterator[BreakglassApp]:
    """Around the offset where two replicas diverge."""
    async with replicas.opened(logs(), size=SIZE, clock=stopped_clock) as shown:
        await shown.at_offset(100)
        await shown.until(lambda: "Then ! 23 offsets hold" in shown.text, "the totals")
        await shown.settled()
        yield shown.console


@asynccontextmanager
async def journal() -> AsyncIterator[BreakglassApp]:
    """A recovery of which one outcome is unknown, and what was done before it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("breakglass.services.guard.journal.operator", _operator),
    ):
        for number, make in enumerate((journals.group_reset, journals.recovery)):
            begin_ms = journals.BEGIN_MS + number * MINUTE
            journals.timed(make(Path(folder)), begin_ms=begin_ms)
        console = console_on(
            nothing_offline(), start="journal", state_folder=Path(folder), clock=stopped_clock
        )
        async with console.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: "ledger-3" in text(console), "the partitions")
            await at_rest(pilot)
            yield console


@asynccontextmanager
async def ledger() -> AsyncIterator[BreakglassApp]:
    """Every record of an incident accounted for, of which one partition still waits."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("breakglass.services.guard.journal.operator", _operator),
    ):
        page = ledger_page(incidents.shown_ledger(Path(folder)))
        console = console_on(nothing_offline(), start="journal", clock=stopped_clock)
        async with console.run_test(size=SIZE) as pilot:
            await console.push_screen(LedgerScreen(console.context, MadeLedger(page, ""), print))
            await until(pilot, lambda: "The sums add up" in text(console), "the ledger")
            await at_rest(pilot)
            yield console


@asynccontextmanager
async def backups() -> AsyncIterator[BreakglassApp]:
    """A job under way, and a topic of which something is lost."""
    watch = places.CannedBackups(
        places.Places({places.MAIN: places.every_state()}), [places.seen(places.job())]
    )
    access = CannedAccess().as_access
    with patch("breakglass.screens.backups.read_ends", lambda *_: places.ENDS):
        console = places.backups_of(watch, access=access, clock=stopped_clock)
        async with console.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: "refunds" in text(console), "the topics")
            await until(pilot, lambda: " 500 " in text(console), "the lags")
            await pilot.press("down", "down", "down", "right", "down", "down")
            await until(pilot, lambda: "12 lost" in text(console), "the gaps")
            await at_rest(pilot)
            yield console


@asynccontextmanager
async def _browsing(to: Callable[[Pilot[Any]], Awaitable[None]]) -> AsyncIterator[BreakglassApp]:
    """The tree of a place that is always called so, and where *to* leads from there."""
    with tempfile.TemporaryDirectory() as folder, browsing.within(folder):
        browsing.a_place(Path("backups"))
        browsing.edited(Path("copies"))
        console = browsing.browser("backups", clock=stopped_clock)
        async with console.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: "orders" in text(console), "the topics")
            await to(pilot)
            yield console


@asynccontextmanager
async def metastore() -> AsyncIterator[BreakglassApp]:
    """A ksqlDB service after an accident, the cursor on the command that its backup has not."""
    look, words = services.accident, "Line"
    async with services.at_view(look, ("n",), words, SIZE) as pilot:
        assert isinstance(pilot.app, BreakglassApp)
        yield pilot.app


@asynccontextmanager
async def checkpoints() -> AsyncIterator[BreakglassApp]:
    """One that is being copied, opened to its partitions."""
    with tempfile.TemporaryDirectory() as folder:
        seen = stores.seen(stores.bank(Path(folder)))
    console = stores.checkpoints_of(stores.canned(seen), clock=stopped_clock)
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "ongoing" in text(console), "the checkpoints")
        await pilot.press("down", "right", "down", "down")
        await until(pilot, lambda: "tellers resumes at" in text(console), "the partition")
        await at_rest(pilot)
        yield console


@asynccontextmanager
async def checkpoint_take() -> AsyncIterator[BreakglassApp]:
    """A checkpoint is about to be taken, its phrase half typed."""
    console = guarding.armed_on(stores.canned(), clock=stopped_clock)
    async with console.run_test(size=SIZE) as pilot:
        await console.push_screen(ActPage(console.context, guarding.CannedAct()))
        await until(pilot, lambda: guarding.PHRASE in text(console), "the phrase")
        await pilot.press(*"write 3 mar")
        await at_rest(pilot)
        yield console


@asynccontextmanager
async def quorum() -> AsyncIterator[BreakglassApp]:
    """Two of three controllers do not answer."""
    async with lost_quorum(SIZE) as page:
        yield page.console


def _operator() -> str:
    return "ops@bastion"


SCENES: dict[str, Scene] = {
    "overview": overview,
    "offline": offline,
    "offline-monochrome": partial(offline, MONOCHROME),
    "bundle": bundle,
    "plan": plan,
    "elect": elect,
    "electing": electing,
    "diff": diff,
    "journal": journal,
    "ledger": ledger,
    "backups": backups,
    "browse": partial(_browsing, browsing.to_segments),
    "records": partial(_browsing, browsing.to_records),
    "sides": partial(_browsing, browsing.to_sides),
    "metastore": metastore,
    "checkpoints": checkpoints,
    "checkpoint-take": checkpoint_take,
    "quorum": quorum,
}
"""By the name of the file."""


async def draw(name: str) -> str:
    """Return the picture *name* as SVG."""
    async with SCENES[name]() as console:
        return _ID.sub(name, self_contained(console.export_screenshot()))


@contextmanager
def away_from_home() -> Iterator[None]:
    """While entered, a console finds no journals of whoever draws, nor their wish for no colour."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, {"XDG_STATE_HOME": folder}),
        colors_left_to_the_theme(),
    ):
        yield


def main(arguments: list[str]) -> int:
    """Write every picture, or with ``--check`` compare; returns the exit code."""
    with away_from_home():
        drawn = {FOLDER / f"{name}.svg": asyncio.run(draw(name)) for name in SCENES}
    there = set(FOLDER.glob("*.svg"))
    stale = sorted(
        path.name
        for path in there | drawn.keys()
        if path not in drawn or path not in there or path.read_text(encoding="utf-8") != drawn[path]
    )
    if "--check" in arguments:
        if stale:
            print(f"docs/screens is not what screens look like: {', '.join(stale)}; `make docs`.")
        return bool(stale)
    FOLDER.mkdir(exist_ok=True)
    for path in there - drawn.keys():
        path.unlink()
    for path, svg in drawn.items():
        path.write_text(svg, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
