"""The screen of backups: every key, every failure, and real folders behind it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.screens.backups.facts import line_facts
from breakglass.screens.help import HelpScreen
from breakglass.screens.messages import BrowseAsked
from breakglass.services.backup_watch.job import Life, announced, read_jobs
from breakglass.services.backup_watch.lines import TopicLine
from breakglass.services.backup_watch.location import BackupState, LocationHeld
from breakglass.services.backup_watch.watch import BackupWatch
from breakglass.services.errors import ClusterError, StorageError
from breakglass.services.model import Unknown
from breakglass.services.pipeline.report import CopyProgress
from breakglass.services.topic_backup import verified
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.originals import FoundFiles, FoundPartition
from tests.kit.waiting import within
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
from tests.screens.test_journal import heard
from tests.screens.turns import lines, text, until
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
    """Two places, a job that runs."""
    return CannedBackups(places, [seen(job())])


@pytest.fixture
def console(watch: CannedBackups) -> BreakglassApp:
    return console_with(watch)


def console_with(watch: BackupWatch, **options: Any) -> BreakglassApp:
    return backups_of(watch, access=CannedAccess().as_access, **options)


def rows(console: BreakglassApp) -> list[str]:
    """The first words of the table's lines."""
    table = screen_of(console).query_one("#backups")
    top, height = table.region.y, table.region.height
    shown = [line.replace(">", " ", 1).split() for line in lines(console)[top + 1 : top + height]]
    return [words[0].lstrip("▸▾") for words in shown if words]


def line_with(console: BreakglassApp, words: str) -> str:
    return next((line for line in lines(console) if words in line), "")


def shows(console: BreakglassApp, words: str) -> Callable[[], bool]:
    return lambda: words in text(console)


async def opened(pilot: Pilot[Any]) -> None:
    """Wait for the topics and their lags."""
    await until(pilot, shows(pilot.app, "refunds"), "the topics")  # type: ignore[arg-type]
    await until(pilot, lambda: " 500 " in line_with(pilot.app, "refunds"), "the lags")  # type: ignore[arg-type]


async def at(pilot: Pilot[Any], name: str) -> None:
    """Put the cursor on the line of *name*."""
    await pilot.press("home")
    for _ in range(40):
        if line_with(pilot.app, ">").replace("▸", " ").replace("▾", " ").split()[1] == name:  # type: ignore[arg-type]
            return
        await pilot.press("down")
    pytest.fail(f"the cursor never came to {name}")


async def test_the_worst_comes_first_with_lag_age_and_size(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert rows(console) == [MAIN, *TOPICS, FAR]
        assert line_with(console, "refunds").split() == [
            "▸refunds", "unverified", "500", "49", "h", "1.1", "MB", "2", "0",
        ]  # fmt: skip
        assert "payments, 60% of 2,000,000 offsets, 110 MB/s, 13 s left" in text(console)


async def test_enter_drills_from_place_to_topic_to_partition(console: BreakglassApp) -> None:
    async with console.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await at(pilot, "orders")
        await pilot.press("enter")
        await until(pilot, shows(console, "orders-1"), "the partitions")
        await pilot.press("down", "down")
        await until(pilot, shows(console, "3 aborted, 40 control, 12 lost"), "the gaps")
        assert "offsets 0 to 999, backed up before 1,000" in text(console)
        with heard(console, BrowseAsked) as asked:
            await pilot.press("enter")
            await until(pilot, lambda: asked, "its records")
        assert str(asked[0].left) == f"backup:{MAIN}/orders/1"
        await pilot.press("left")
        await until(pilot, lambda: "orders-1" not in text(console), "the topic alone")
        assert "orders " in line_with(console, ">")
        await pilot.press("home", "enter")
        await until(pilot, lambda: rows(console) == [MAIN, FAR], "the places alone")
        await pilot.press("enter")
        await until(pilot, lambda: len(rows(console)) == 9, "the topics again")


async def test_arrows_open_and_close(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await at(pilot, "payments")
        await pilot.press("right")
        await until(pilot, shows(console, "payments-2"), "the partitions")
        await pilot.press("down", "left")
        await until(pilot, lambda: "payments-2" not in text(console), "the topic alone")
        assert "payments" in line_with(console, ">")


async def test_a_filter_keeps_what_fits_and_esc_gives_the_rest_back(
    console: BreakglassApp,
) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("slash", *"orders", "enter")
        await until(pilot, lambda: rows(console) == [MAIN, "orders", "orders~2", FAR], "two topics")
        assert "filter: orders" in text(console)
        await pilot.press("escape")
        await until(pilot, lambda: len(rows(console)) == 9, "all of them")
        await pilot.press("slash", "x", "escape", "escape", "down")
        assert "torn" in line_with(console, ">")


async def test_sorting_goes_through_the_figures_and_back(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("s")
        await until(pilot, lambda: rows(console)[1:3] == ["audit", "clicks"], "names")
        assert "by name" in text(console)
        await pilot.press("S", "S")
        await until(pilot, lambda: rows(console)[1] == "payments", "sizes")


async def test_what_is_known_of_a_line_is_copied_as_json(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        for name in (MAIN, "torn", "refunds", FAR):
            await at(pilot, name)
            await pilot.press("y")
        await at(pilot, "refunds")
        await pilot.press("right", "down", "y")
        await until(pilot, lambda: '"partition"' in (console.clipboard or ""), "the copy")
        told = json.loads(console.clipboard)
        assert (told["topic"], told["last_offset"], told["lag"]) == ("refunds", 999, 500)


async def test_the_help_names_every_key(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 40)) as pilot:
        await opened(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(console.screen, HelpScreen), "the help")
        for words in ("filter", "Sort topics by the next figure", "as JSON"):
            assert words in text(console)


async def test_a_key_leads_here_from_every_screen(watch: CannedBackups) -> None:
    console = console_with(watch)
    async with console.run_test(size=(80, 24)) as pilot:
        for key in "1234":
            await pilot.press(key, "5")
            assert console.current_mode == "backups"


async def test_without_a_place_it_says_how_to_name_one() -> None:
    console = console_with(BackupWatch(jobs=lambda _: []))
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shows(console, "No place of backups is named"), "the sentence")
        await pilot.press("enter", "right", "left", "y", "s", "ctrl+r")


async def test_a_place_that_cannot_be_read_has_its_reason(console: BreakglassApp) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await at(pilot, FAR)
        await until(pilot, shows(console, "Stale file handle"), "the reason")
        assert line_with(console, f"▾{FAR}").split()[1:] == ["?", "-", "-"]


async def test_what_was_read_stays_marked_as_stale(
    console: BreakglassApp, places: Places, watch: CannedBackups
) -> None:
    async with console.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        places.held[MAIN] = STALE
        watch.at_ms += 120_000
        await pilot.press("ctrl+r", "home")
        await until(pilot, lambda: "STALE" in line_with(console, f"▾{MAIN}"), "the mark")
        assert "refunds" in text(console)
        await until(pilot, shows(console, "since then: /mnt/far: Stale"), "the reason")


async def test_lags_that_cannot_be_counted_have_a_reason(
    console: BreakglassApp, live_ends: SetEnds
) -> None:
    live_ends(ClusterError("b1 does not answer (connection refused): start it"))
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shows(console, "refunds"), "the topics")
        await at(pilot, "clicks")
        await until(pilot, shows(console, "? b1 does not answer"), "the reason")
        live_ends(ENDS)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: " 500 " in line_with(console, "refunds"), "the lags")
        live_ends(ClusterError("b1 hangs: look at it"))
        await pilot.press("ctrl+r")
        await until(pilot, shows(console, "since then: b1 hangs"), "the mark")
        assert " 500 " in line_with(console, "refunds")


async def test_a_job_that_died_or_fell_silent_is_told_so(watch: CannedBackups) -> None:
    watch.jobs = (seen(job(), Life.DEAD), seen(job("restore", FAR), Life.SILENT))
    console = console_with(watch)
    async with console.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        assert "DEAD: process 4711 died at 60% of 2,000,000 offsets" in text(console)
        assert "SILENT for 1 s" in text(console)
        watch.jobs = ()
        await until(pilot, lambda: "DEAD" not in text(console), "the end of the jobs")


async def test_jobs_are_drawn_while_they_go_on(watch: CannedBackups) -> None:
    watch.jobs = (seen(job(done=0, total=0, bytes=0, seconds=0.0, topic="")),)
    console = console_with(watch)
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, shows(console, "starting"), "the beginning")
        watch.jobs = (seen(job(done=1_900_000)),)
        await until(pilot, shows(console, "95% of 2,000,000 offsets"), "the progress")
        watch.jobs = tuple(seen(job(pid=number)) for number in range(5))
        await until(pilot, shows(console, "and 2 more jobs"), "the rest")


async def test_a_place_that_hangs_keeps_neither_keys_nor_the_end(places: Places) -> None:
    released = threading.Event()

    def hang() -> LocationHeld:
        released.wait(30.0)
        return every_state()

    hung = Places({FAR: hang, MAIN: every_state()})
    watch = CannedBackups(hung)
    console = console_with(watch)
    try:
        async with console.run_test(size=(80, 24)) as pilot:
            await opened(pilot)
            watch.at_ms += 40_000
            await pilot.press("home")
            began = time.monotonic()
            await pilot.press("down", "down", "up")
            assert time.monotonic() - began < within(1.0)
            await pilot.press("home")
            await until(pilot, shows(console, "it has not answered for 40 s"), "the word on it")
            began = time.monotonic()
        assert time.monotonic() - began < within(1.0)
    finally:
        released.set()


HOSTILE = "/mnt/\x1b[2J[red]x[/]\u202e" + 900 * "y"


def acting(shown: str) -> set[str]:
    return {one for one in shown if not one.isprintable() and one != "\n"}


async def test_hostile_places_jobs_and_reasons_are_inert(live_ends: SetEnds) -> None:
    live_ends(ClusterError(HOSTILE))
    held = LocationHeld((topic("a" * 249, partition(0)), topic("[red]b", partition(0))))
    far = StorageError(HOSTILE)
    watch = CannedBackups(
        Places({HOSTILE: held, FAR: far}), [seen(job(url=HOSTILE, topic=HOSTILE, who=HOSTILE))]
    )
    console = console_with(watch)
    async with console.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, shows(console, "[red]b"), "the topic, as it is")
        for _ in range(4):
            await pilot.press("down", "y", "enter")
            await pilot.pause()
            assert not acting(text(console))


async def test_a_real_backup_is_seen_with_a_real_job(tmp_path: Path, live_ends: SetEnds) -> None:
    live_ends(ends_of(("orders", 0, 40)))
    places, state = tmp_path / "backups", tmp_path / "state"
    folder = LocalFolder(back_up(places, run(0, 30)))
    verified.note(folder, 1, "content", "orders", whole=True)
    watch = BackupWatch([str(places)], jobs=lambda now: read_jobs(now, state))
    console = console_with(watch)
    async with console.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: "verified" in line_with(console, "▸orders"), "the topic")
        with announced("backup", str(places), state) as tell:
            assert tell is not None
            tell(CopyProgress("orders", 5, 10, 500, 1.0))
            await until(pilot, shows(console, "orders, 50% of 10 offsets"), "the job")
            await until(pilot, lambda: "running" in line_with(console, "▸orders"), "its state")
        await until(pilot, lambda: "50% of 10" not in text(console), "its end")
        assert line_with(console, "▸orders").split()[2] in ("-", "10", "?")
        await pilot.press("down", "right", "down")
        await until(pilot, shows(console, "offsets 0 to 29, backed up before 30"), "the partition")


@pytest.fixture
def many() -> CannedBackups:
    """A place with 5,000 topics of 20 partitions."""
    parts = tuple(partition(number) for number in range(20))
    topics = tuple(topic(f"topic-{number}", *parts) for number in range(5_000))
    return CannedBackups(Places({MAIN: LocationHeld(topics)}))


async def test_thousands_of_topics_stay_fluid(many: CannedBackups) -> None:
    console = console_with(many)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shows(console, "topic-1"), "the topics")
        await pilot.pause(0.5)
        began = time.monotonic()
        for _ in range(20):
            await pilot.press("down")
        assert time.monotonic() - began < within(4.0)
        await pilot.press("slash", *"4999")
        await until(pilot, lambda: rows(console) == [MAIN, "topic-4999"], "one of them")


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
    assert said.endswith(f"no manifest; 2 partitions, {shown} records, 1.6 kB in 3 segments")
