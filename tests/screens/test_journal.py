"""The journal: what was done, how it ended, and what is to be done about what is unknown."""

import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from breakglass.screens.journal import JournalScreen, LedgerScreen, StoryScreen
from breakglass.screens.messages import ResumeAsked
from breakglass.screens.terminal import Terminal
from breakglass.services.errors import TimedOut
from breakglass.services.guard.journal import Journal, read
from breakglass.services.guard.lock import operator
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import ELECT
from breakglass.services.recovery.timeline.account import Shelf
from breakglass.services.session import Power, ReadAccess
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.incidents import CLUSTER, nothing_offline
from tests.screens.canned_access import REFUSED, CannedAccess
from tests.screens.consoles import Asked, console_on
from tests.screens.turns import (
    hides,
    is_inert,
    line_with,
    lines,
    notices,
    opens,
    shows,
    text,
    until,
)
from tests.unit.recovery.execution.targets import state
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.timeline import journals

NO_ANSWER = TimedOut("no broker answers: check the address", "silence")
ARMED = cast("Power", object())


@asynccontextmanager
async def journal_of(
    folder: Path, *readings: Any, words: str = "", size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[Pilot[Any]]:
    told = readings or (nothing_offline(),)
    console = console_on(*told, start="journal", state_folder=folder, **options)
    async with console.run_test(size=size) as pilot:
        await shows(pilot, words)
        yield pilot


async def noticed(pilot: Pilot[Any], words: str) -> None:
    await until(pilot, lambda: words in notices(pilot.app), words)


async def test_before_the_cluster_answers_the_journals_of_all_are_there_and_then_its_own(
    tmp_path: Path,
) -> None:
    journals.group_reset(tmp_path, "another")
    async with journal_of(tmp_path, NO_ANSWER, nothing_offline(), words="group offsets") as pilot:
        await pilot.press("ctrl+r")
        await shows(pilot, "Nothing was changed from")
        await pilot.press("u", "r", "c", "w", "enter")
        assert isinstance(pilot.app.screen, JournalScreen)


async def test_journals_are_listed_newest_first_told_partition_by_partition_copied_and_written(
    tmp_path: Path,
) -> None:
    path = journals.recovery(tmp_path)
    timelines = tmp_path / "timelines"
    async with journal_of(tmp_path, words="ledger-3", size=(120, 40), power=ARMED) as pilot:
        recovery = line_with(pilot.app, ">")
        for words in ("partly failed", "3 elected, 1 unknown", operator()):
            assert words in recovery
        await shows(pilot, "digest nusus-babab-babab")
        shown = lines(pilot.app)
        rows = [line.split()[:4] for line in shown if " orders-" in line or " ledger-" in line]
        assert rows == [
            ["orders-2", "unknown", "b1", "0"],
            ["ledger-3", "elected", "b1", "50"],
            ["orders-0", "elected", "b1", "0"],
            ["orders-1", "elected", "b1", "0"],
        ]
        assert journals.TIMED_OUT in line_with(pilot.app, "orders-2")

        await pilot.press("tab")
        await shows(pilot, ">orders-2")
        await pilot.press("tab")
        await hides(pilot, ">orders-2")
        await pilot.press("enter", "down", "enter")
        await opens(pilot, StoryScreen)
        await shows(pilot, "b1, epoch 6, redundant")
        assert "50 records of b2" in line_with(pilot.app, "Rescued")
        await shows(pilot, "order 1,2,3")
        for step in ("rescue", "reorder", "elect", "restore order"):
            assert line_with(pilot.app, f"Z {step}")
        await pilot.press("escape")
        await opens(pilot, JournalScreen)

        await pilot.press("c")
        await shows(pilot, "Sent to the clipboard")
        timelines.write_text("in the way")
        await pilot.press("w")
        await noticed(pilot, "cannot be written")
        timelines.unlink()
        await pilot.press("w")
        written = timelines / f"{path.stem}.txt"
        await noticed(pilot, "Written")
        assert str(written) in notices(pilot.app)
        assert f"{pilot.app.clipboard}\n" == written.read_text()
        assert written.read_text().startswith("Recovery of 4 partitions")
        assert stat.S_IMODE(written.stat().st_mode) == 0o600

        await pilot.press("escape", "shift+tab")
        journals.group_reset(tmp_path)
        await pilot.press("ctrl+r")
        await shows(pilot, "succeeded")
        assert "group offsets" in line_with(pilot.app, "succeeded")
        assert "partly failed" in line_with(pilot.app, ">"), "the cursor stays on its journal"
        await pilot.press("home")
        await shows(pilot, "moved   ")
        assert "Next" not in text(pilot.app), "it has ended well"
        asked, noted = Asked(pilot.app, ResumeAsked), notices(pilot.app)
        await pilot.press("u", "r", "l")
        assert not asked.messages
        assert notices(pilot.app) == noted
        assert isinstance(pilot.app.screen, JournalScreen)


@pytest.mark.parametrize(
    ("size", "how"),
    [
        ((80, 24), {}),
        ((60, 20), {"terminal": Terminal(ascii_only=True), "theme": "breakglass-monochrome"}),
    ],
    ids=["80x24", "60x20 in ASCII"],
)
async def test_small_terminals_show_what_comes_next_and_the_ledgers_sums_first(
    tmp_path: Path, size: tuple[int, int], how: dict[str, Any]
) -> None:
    journals.recovery(tmp_path)
    path = incidents.incident(tmp_path)
    refused = CannedAccess(failure=REFUSED).as_access
    async with journal_of(tmp_path, words="ledger-3", size=size, access=refused, **how) as pilot:
        await pilot.press("l")
        await opens(pilot, LedgerScreen)
        for words in ("The sums add up", "227 records"):
            await shows(pilot, words)
        assert "165" in line_with(pilot.app, "kept ").split()
        assert "50" in line_with(pilot.app, "rescued ").split()
        assert text(pilot.app).isascii() or not how
        while "100-149" not in text(pilot.app):
            await pilot.press("pagedown")
            await pilot.pause()
        assert "rescued" in line_with(pilot.app, "100-149")
        await pilot.press("w")
        await noticed(pilot, "Written")
        await pilot.press("escape", "end")
        await opens(pilot, JournalScreen)
        for words in ("orders-2", "partly failed", "u asks the cluster again"):
            await shows(pilot, words)
        assert text(pilot.app).isascii() or not how
    written = tmp_path / "ledgers" / f"{path.stem}.html"
    assert written.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


async def test_hostile_names_phrases_and_reasons_are_inert_in_the_story_and_the_ledger(
    tmp_path: Path,
) -> None:
    journals.hostile(tmp_path)
    access = CannedAccess(failure=REFUSED).as_access
    async with journal_of(tmp_path, words="[b]refused", access=access) as pilot:
        await pilot.press("enter", "enter")
        await opens(pilot, StoryScreen)
        await shows(pilot, "\\u202egnp.exe")
        assert is_inert(pilot.app)
        await pilot.press("escape", "l")
        await opens(pilot, LedgerScreen)
        assert is_inert(pilot.app)


async def test_what_cannot_be_listed_or_read_says_why_and_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise PermissionError("the folder is not yours")

    path = journals.recovery(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Shelf, "briefs", broken)
        async with journal_of(tmp_path, words="cannot be listed") as pilot:
            patch.undo()
            await pilot.press("ctrl+r")
            await shows(pilot, "orders-2")
            path.write_text("{}\n")
            await pilot.press("ctrl+r")
            await shows(pilot, "unreadable")
            await until(
                pilot, lambda: "line 1" in text(pilot.app).partition("Unreadable")[2], "why"
            )
            await pilot.press("u", "r", "c", "w")
            assert not pilot.app._notifications


async def test_a_journal_that_goes_on_is_shown_as_it_stands(tmp_path: Path) -> None:
    partition = TopicPartition("orders", 0)
    with Journal.open(CLUSTER, tmp_path) as journal:
        journals.plan(journal, {partition: "0"})
        async with journal_of(tmp_path, words="running") as pilot:
            await shows(pilot, "is being written now")
            await shows(pilot, "nothing sent")
            journals.step(journal, ELECT, {partition: journals.elected()})
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "elected" in line_with(pilot.app, "orders-0"), "the outcome")


async def test_r_asks_for_a_resume_where_the_session_may_change_the_cluster(tmp_path: Path) -> None:
    """A cluster that cannot be asked leaves unknown what is."""
    path = journals.interrupted(tmp_path)
    async with journal_of(tmp_path, words="orders-2", power=ARMED) as pilot:
        asked = Asked(pilot.app, ResumeAsked)
        await pilot.press("r")
        await until(pilot, lambda: asked.messages, "the message")
        assert [one.journal for one in asked.messages] == [path]
    refused = CannedAccess(failure=REFUSED).as_access
    async with journal_of(
        tmp_path, words="(with --write)", size=(120, 40), access=refused
    ) as pilot:
        asked = Asked(pilot.app, ResumeAsked)
        await pilot.press("r")
        await noticed(pilot, "read-only")
        assert not asked.messages
        await pilot.press("u")
        await noticed(pilot, "b3 refuses")
        await shows(pilot, "u asks the cluster again")


class OnFakes:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    @contextmanager
    def reading(self, client_id: str | None = None) -> Iterator[ReadClient]:
        client = self._cluster.client()
        try:
            yield client
        finally:
            client.close()


async def test_u_asks_the_cluster_and_the_journal_shows_its_answer(tmp_path: Path) -> None:
    path = journals.interrupted(tmp_path, CLUSTER_ID)
    with FakeCluster(3) as cluster:
        access = cast("ReadAccess", OnFakes(cluster))
        async with journal_of(tmp_path, NO_ANSWER, words="orders-2", access=access) as pilot:
            await pilot.press("u")
            await noticed(pilot, "3 still unknown")
            assert read(path).unsettled
            for order in journals.ORDERS:
                cluster.story.states[order] = state(order, (1, 2, 3), leader=2, leader_epoch=6)
            await pilot.press("u")
            await noticed(pilot, "orders-1 elect: elected")
            await shows(pilot, "3 elected another")
    assert not read(path).unsettled


async def test_another_cluster_is_not_asked_for_the_ledger(tmp_path: Path) -> None:
    incidents.incident(tmp_path)
    with FakeCluster(3) as cluster:
        access = cast("ReadAccess", OnFakes(cluster))
        async with journal_of(tmp_path, words="ledger-3", access=access, size=(120, 50)) as pilot:
            await pilot.press("l")
            await opens(pilot, LedgerScreen)
            for words in ("The sums add up", "was not asked", CLUSTER_ID):
                await shows(pilot, words)
