"""The screen of backups: every key, every failure, and real folders behind it."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.screens.backups import line_facts
from breakglass.screens.help import HelpScreen
from breakglass.screens.messages import BrowseAsked
from breakglass.services.backup_watch.job import Life, announced, read_jobs
from breakglass.services.backup_watch.location import BackupState, LocationHeld
from breakglass.services.backup_watch.watch import BackupWatch, TopicLine
from breakglass.services.errors import ClusterError, StorageError
from breakglass.services.model import Unknown
from breakglass.services.pipeline.backup_context import CopyProgress
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import FoundFiles, FoundPartition
from breakglass.services.topic_backup.notes import note_verified
from tests.screens.backups.conftest import SetEnds
from tests.screens.backups.held import (
    ENDS,
    FAR,
    MAIN,
    CannedBackups,
    Places,
    backups_of,
    ends_of,
    every_state,
    job,
    partition,
    screen_of,
    seen,
    topic,
)
from tests.screens.canned_access import CannedAccess
from tests.screens.consoles import Asked
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.turns import hides, is_inert, line_with, lines, opens, shows, text, until
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run

pytestmark = pytest.mark.usefixtures("live_ends")

TOPICS = ["torn", "clicks", "orders", "payments", "audit", "refunds", "orders~2"]
STALE = StorageError("/mnt/far: Stale file handle; check the disk and the kernel's log.")


@pytest.fixture
def places() -> Places:
    """A place with a topic in every state, and one that cannot be read."""
    return Places({MAIN: every_state(), FAR: STALE})


@pytest.fixture
def watch(places: Places) -> CannedBackups:
    return CannedBackups(places, [seen(job())])


@asynccontextmanager
async def opened(
    watch: BackupWatch, words: str = " 500 ", size: tuple[int, int] = (80, 24), **how: Any
) -> AsyncIterator[Pilot[Any]]:
    console = backups_of(watch, access=CannedAccess().as_access, **how)
    async with console.run_test(size=size, notifications=True) as pilot:
        await shows(pilot, words)
        yield pilot


def rows(pilot: Pilot[Any]) -> list[str]:
    table = screen_of(pilot.app).query_one("#backups")  # type: ignore[arg-type]
    top, height = table.region.y, table.region.height
    shown = [line.replace(">", " ", 1).split() for line in lines(pilot.app)[top + 1 : top + height]]
    return [words[0].lstrip("▸▾") for words in shown if words]


async def has_rows(pilot: Pilot[Any], *names: str) -> None:
    await until(pilot, lambda: rows(pilot) == [*names], f"{names}")


async def at(pilot: Pilot[Any], name: str) -> None:
    await pilot.press("home")
    for _ in range(40):
        line = line_with(pilot.app, ">").replace("▸", " ").replace("▾", " ")
        if line.split()[1] == name:
            return
        await pilot.press("down")
    pytest.fail(f"the cursor never came to {name}")


async def test_a_person_sees_the_worst_first_drills_down_copies_filters_and_sorts(
    watch: CannedBackups,
) -> None:
    async with opened(watch) as pilot:
        assert rows(pilot) == [MAIN, *TOPICS, FAR]
        assert line_with(pilot.app, "refunds").split() == [
            "▸refunds", "unverified", "500", "49", "h", "1.1", "MB", "2", "0",
        ]  # fmt: skip
        await shows(pilot, "60% of 2,000,000 offsets")
        assert line_with(pilot.app, f"▾{FAR}").split()[1:] == ["?", "-", "-"]
        await at(pilot, FAR)
        await shows(pilot, "Stale file handle")

        await pilot.resize_terminal(120, 40)
        await at(pilot, "orders")
        await pilot.press("enter", "down", "down")
        await shows(pilot, "40 control, 12 lost")
        await shows(pilot, "offsets 0 to 999")
        asked = Asked(pilot.app, BrowseAsked)
        await pilot.press("enter")
        await until(pilot, lambda: asked.messages, "its records")
        assert str(asked.messages[0].left) == f"backup:{MAIN}/orders/1"
        await pilot.press("left")
        await hides(pilot, "orders-1")
        assert "orders " in line_with(pilot.app, ">")
        await pilot.press("home", "enter")
        await has_rows(pilot, MAIN, FAR)
        await pilot.press("enter")
        await has_rows(pilot, MAIN, *TOPICS, FAR)
        await at(pilot, "payments")
        await pilot.press("right")
        await shows(pilot, "payments-2")
        await pilot.press("down", "left")
        await hides(pilot, "payments-2")
        assert "payments" in line_with(pilot.app, ">")
        await pilot.press("home", "slash", *"orders", "enter")
        await has_rows(pilot, MAIN, "orders", "orders~2", FAR)
        await pilot.press("escape")
        await has_rows(pilot, MAIN, *TOPICS, FAR)
        await pilot.press("slash", "x", "escape", "escape", "home", "down")
        assert "torn" in line_with(pilot.app, ">")
        await pilot.press("s")
        await shows(pilot, "by name")
        assert rows(pilot)[1:3] == ["audit", "clicks"]
        await pilot.press("S", "S")
        await until(pilot, lambda: rows(pilot)[1] == "payments", "sizes")

        for name in (MAIN, "torn", FAR, "refunds"):
            await at(pilot, name)
            await pilot.press("y")
        await pilot.press("right", "down", "y")
        await until(pilot, lambda: '"partition"' in (pilot.app.clipboard or ""), "the copy")
        told = json.loads(pilot.app.clipboard)
        assert (told["topic"], told["last_offset"], told["lag"]) == ("refunds", 999, 500)
        for key in "1234":
            await pilot.press(key, "5")
            assert pilot.app.current_mode == "backups"
        await pilot.press("question_mark")
        await opens(pilot, HelpScreen)
        for words in ("filter", "Sort topics", "as JSON"):
            await shows(pilot, words)


async def test_without_a_place_it_says_how_to_name_one() -> None:
    async with opened(BackupWatch(jobs=lambda _: []), "No place of backups") as pilot:
        await pilot.press("enter", "right", "left", "y", "s", "ctrl+r")


async def test_what_cannot_be_read_again_stays_marked_with_its_reason_and_jobs_come_and_go(
    places: Places, watch: CannedBackups, live_ends: SetEnds
) -> None:
    live_ends(ClusterError("b1 is gone"))
    async with opened(watch, "refunds") as pilot:
        await at(pilot, "clicks")
        await shows(pilot, "? b1 is gone")
        live_ends(ENDS)
        await pilot.press("ctrl+r")
        await shows(pilot, " 500 ")
        live_ends(ClusterError("b1 hangs"))
        await pilot.press("ctrl+r")
        await shows(pilot, "since then: b1 hangs")
        assert " 500 " in line_with(pilot.app, "refunds")

        await pilot.resize_terminal(120, 40)
        starting = job(done=0, total=0, bytes=0, seconds=0.0, topic="")
        many = tuple(seen(job(pid=number)) for number in range(5))
        dead = (seen(job(), Life.DEAD), seen(job("restore", FAR), Life.SILENT))
        for jobs, *words in (
            ((seen(starting),), "starting"),
            ((seen(job(done=1_900_000)),), "95% of 2,000,000"),
            (many, "and 2 more jobs"),
            (dead, "DEAD: process 4711", "SILENT for 1 s"),
        ):
            watch.jobs = jobs
            for one in words:
                await shows(pilot, one)
        watch.jobs = ()
        await hides(pilot, "DEAD")

        places.held[MAIN] = STALE
        watch.at_ms += 120_000
        await pilot.press("ctrl+r", "home")
        await until(pilot, lambda: "STALE" in line_with(pilot.app, f"▾{MAIN}"), "the mark")
        assert "refunds" in text(pilot.app)
        await shows(pilot, "since then: /mnt/far")


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set after the test, and never before: who waits for it waits for the whole test."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_place_that_hangs_keeps_neither_keys_nor_the_end(released: threading.Event) -> None:
    def hang() -> LocationHeld:
        released.wait()
        return every_state()

    watch = CannedBackups(Places({FAR: hang, MAIN: every_state()}))
    async with opened(watch) as pilot:
        watch.at_ms += 40_000
        await pilot.press("home", "down", "down", "up", "home")
        await shows(pilot, "not answered for 40 s")


HOSTILE = "/mnt/\x1b[2J[red]x[/]\u202e" + 900 * "y"


async def test_hostile_places_jobs_and_reasons_are_inert(live_ends: SetEnds) -> None:
    live_ends(ClusterError(HOSTILE))
    held = LocationHeld((topic("a" * 249, partition(0)), topic("[red]b", partition(0))))
    places = Places({HOSTILE: held, FAR: StorageError(HOSTILE)})
    hostile = CannedBackups(places, [seen(job(url=HOSTILE, topic=HOSTILE, who=HOSTILE))])
    async with opened(hostile, "[red]b") as pilot:
        for _ in range(4):
            await pilot.press("down", "y", "enter")
            await pilot.pause()
            assert is_inert(pilot.app)


async def test_a_real_backup_is_seen_with_a_real_job(tmp_path: Path, live_ends: SetEnds) -> None:
    live_ends(ends_of(("orders", 0, 40)))
    places, state = tmp_path / "backups", tmp_path / "state"
    folder = LocalFolder(back_up(places, run(0, 30)))
    note_verified(folder, 1, "content", "orders", whole=True)
    watch = BackupWatch([str(places)], jobs=lambda now: read_jobs(now, state))
    async with opened(watch, "▸orders", size=(160, 40)) as pilot:
        await until(pilot, lambda: "verified" in line_with(pilot.app, "▸orders"), "the topic")
        with announced("backup", str(places), state) as tell:
            assert tell is not None
            tell(CopyProgress("orders", 5, 10, 500, 1.0))
            await shows(pilot, "orders, 50% of 10")
            await until(pilot, lambda: "running" in line_with(pilot.app, "▸orders"), "its state")
        await hides(pilot, "50% of 10")
        await pilot.press("down", "right", "down")
        await shows(pilot, "backed up before 30")


@pytest.mark.parametrize(("records", "shown"), [(30, "40"), (Unknown("no index"), "?")])
def test_a_folder_of_kafka_backup_shows_what_its_files_say(
    records: int | Unknown, shown: str
) -> None:
    parts = (
        FoundPartition(0, 0, 9, 10, 400, 1, ()),
        FoundPartition(1, 0, 29, records, 1_200, 2, ()),
    )
    bare = topic("audit", commit=None)
    assert bare.status is not None
    held = replace(bare, status=replace(bare.status, found=FoundFiles(parts, 0)))
    line = TopicLine(MAIN, held, BackupState.BARE, None, opened=False)
    said = "".join(part.text for part in next(line_facts(line, 0)).parts)
    assert f"2 partitions, {shown} records" in said


@pytest.mark.parametrize("look", LOOKS)
async def test_the_backups_look_as_before(
    look: Look, watch: CannedBackups, drawn_as_before: Drawn
) -> None:
    dead = seen(job("restore", FAR, pid=99, topic="refunds"), Life.DEAD)
    watch.jobs = (*watch.jobs, dead)
    async with opened(watch, size=look.size, theme=look.theme, clock=stopped_clock) as pilot:
        await pilot.press("down", "down", "down", "right", "down", "down")
        await shows(pilot, "12 lost")
        await at_rest(pilot)
        drawn_as_before(pilot.app)
