"""The journal: what was done, how it ended, and what is to be done about what is unknown."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from breakglass.console.app import BreakglassApp
from breakglass.screens.journal.ledger import LedgerScreen
from breakglass.screens.journal.screen import JournalScreen
from breakglass.screens.journal.story import StoryScreen
from breakglass.screens.messages import ResumeAsked
from breakglass.screens.terminal import Terminal
from breakglass.services.errors import TimedOut
from breakglass.services.guard.journal import Journal, read
from breakglass.services.guard.lock import operator
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.routes import ELECT
from breakglass.services.recovery.timeline.shelf import Shelf
from breakglass.services.session import Power, ReadAccess
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.incidents import CLUSTER, nothing_offline
from tests.screens.canned_access import REFUSED, CannedAccess
from tests.screens.consoles import console_on
from tests.screens.turns import lines, text, until
from tests.unit.recovery.execution.targets import state
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.timeline import journals

NO_ANSWER = TimedOut("no broker answers: check the address", "silence")
ARMED = cast("Power", object())


def journal_of(folder: Path, *readings: Any, **options: Any) -> BreakglassApp:
    return console_on(
        *(readings or (nothing_offline(),)), start="journal", state_folder=folder, **options
    )


def line_with(console: BreakglassApp, words: str) -> str:
    return next((line for line in lines(console) if words in line), "")


def shown(console: BreakglassApp, words: str) -> Any:
    return lambda: words in text(console)


def notices(console: BreakglassApp) -> str:
    return " ".join(notification.message for notification in console._notifications)


@contextmanager
def heard(console: BreakglassApp, kind: type[Any]) -> Iterator[list[Any]]:
    """Messages of that *kind* that reach the console, kept from it."""
    kept: list[Any] = []
    hook = console.post_message

    def noting(message: Any) -> bool:
        if isinstance(message, kind):
            kept.append(message)
            return True
        return hook(message)

    console.post_message = noting  # type: ignore[method-assign]
    try:
        yield kept
    finally:
        console.post_message = hook  # type: ignore[method-assign]


async def test_without_a_journal_it_says_that_nothing_was_changed(tmp_path: Path) -> None:
    console = journal_of(tmp_path)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shown(console, "Nothing was changed from here"), "the sentence")
        await pilot.press("u", "r", "c", "w", "enter")
        assert isinstance(console.screen, JournalScreen)


async def test_journals_are_listed_newest_first_and_the_first_is_open(tmp_path: Path) -> None:
    journals.group_reset(tmp_path)
    journals.recovery(tmp_path)
    console = journal_of(tmp_path)
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, shown(console, "ledger-3"), "its partitions")
        recovery, reset = line_with(console, ">"), line_with(console, "succeeded")
        assert "partly failed" in recovery
        assert "3 elected, 1 unknown" in recovery
        assert "group offsets of 1 partition" in reset
        assert operator() in recovery
        await until(pilot, shown(console, "loses 50, digest nusus-babab-babab"), "the price")
        rows = [
            line.split()[:4] for line in lines(console) if " orders-" in line or " ledger-" in line
        ]
        assert rows == [
            ["orders-2", "unknown", "b1", "0"],
            ["ledger-3", "elected", "b1", "50"],
            ["orders-0", "elected", "b1", "0"],
            ["orders-1", "elected", "b1", "0"],
        ]
        assert journals.TIMED_OUT in line_with(console, "orders-2")


@pytest.mark.parametrize(
    ("size", "terminal", "theme"),
    [
        ((80, 24), Terminal(), "breakglass-dark"),
        ((60, 20), Terminal(ascii_only=True), "breakglass-monochrome"),
    ],
)
async def test_small_terminals_show_result_partitions_and_what_comes_next(
    tmp_path: Path, size: tuple[int, int], terminal: Terminal, theme: str
) -> None:
    journals.recovery(tmp_path)
    console = journal_of(tmp_path, terminal=terminal, theme=theme)
    async with console.run_test(size=size) as pilot:
        await until(pilot, shown(console, "orders-2"), "its partitions")
        assert "partly failed" in text(console)
        await until(pilot, shown(console, "u asks the cluster again"), "what comes next")
        if terminal.ascii_only:
            assert text(console).isascii()


async def test_hostile_names_phrases_and_reasons_are_inert(tmp_path: Path) -> None:
    journals.hostile(tmp_path)
    console = journal_of(tmp_path)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shown(console, "[b]refused"), "the result")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(console.screen, StoryScreen), "the story")
        await until(pilot, shown(console, "\\u202egnp.exe"), "the reason")
        assert all(line.isprintable() for line in lines(console))


async def test_a_journal_that_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    path = journals.recovery(tmp_path)
    path.write_text("{}\n")
    console = journal_of(tmp_path)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shown(console, "unreadable"), "the journal")
        await until(pilot, lambda: "line 1" in text(console).partition("Unreadable")[2], "why")
        await pilot.press("u", "r", "c", "w")
        assert not console._notifications


async def test_a_folder_that_cannot_be_listed_says_so_and_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise PermissionError("the folder is not yours")

    journals.recovery(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Shelf, "briefs", broken)
        console = journal_of(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "The journals cannot be listed"), "the reason")
            patch.undo()
            await pilot.press("ctrl+r")
            await until(pilot, shown(console, "orders-2"), "its partitions")


async def test_before_the_cluster_answers_the_journals_of_all_are_there(tmp_path: Path) -> None:
    journals.group_reset(tmp_path, "another")
    console = journal_of(tmp_path, NO_ANSWER, nothing_offline())
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shown(console, "group offsets"), "the journal of another cluster")
        await pilot.press("ctrl+r")
        await until(pilot, shown(console, "Nothing was changed from here"), "this cluster's")


async def test_a_journal_that_goes_on_is_shown_as_it_stands(tmp_path: Path) -> None:
    partition = TopicPartition("orders", 0)
    with Journal.open(CLUSTER, tmp_path) as journal:
        journals.plan(journal, {partition: "0"})
        console = journal_of(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "running"), "the running one")
            await until(pilot, shown(console, "the journal is being written now"), "the sentence")
            await until(pilot, shown(console, "nothing sent"), "its partition")
            journals.step(journal, ELECT, {partition: journals.elected()})
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "elected" in line_with(console, "orders-0"), "the outcome")


async def test_the_cursor_stays_on_its_journal_when_a_new_one_begins(tmp_path: Path) -> None:
    journals.recovery(tmp_path)
    console = journal_of(tmp_path)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shown(console, "orders-2"), "its partitions")
        journals.group_reset(tmp_path)
        await pilot.press("ctrl+r")
        await until(pilot, shown(console, "succeeded"), "the new one")
        assert "partly failed" in line_with(console, ">")
        await pilot.press("home")
        await until(pilot, shown(console, "moved   "), "the partitions of the new one")


class TestKeys:
    async def test_enter_goes_to_the_partitions_and_into_the_story_of_one(
        self, tmp_path: Path
    ) -> None:
        journals.recovery(tmp_path)
        console = journal_of(tmp_path)
        async with console.run_test(size=(80, 40)) as pilot:
            await until(pilot, shown(console, "orders-2"), "its partitions")
            await pilot.press("enter", "down", "enter")
            await until(pilot, lambda: isinstance(console.screen, StoryScreen), "the story")
            await until(pilot, shown(console, "elected, b1, epoch 6, redundant"), "the result")
            assert "50 records of b2" in line_with(console, "Rescued")
            assert "order 1,2,3, assignment 3,1,2, designee 1" in text(console)
            for step in ("rescue", "reorder", "elect", "restore order"):
                assert line_with(console, f"Z {step}")
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(console.screen, JournalScreen), "the journal")

    async def test_tab_goes_between_the_lists(self, tmp_path: Path) -> None:
        journals.recovery(tmp_path)
        console = journal_of(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "orders-2"), "its partitions")
            await pilot.press("tab")
            await until(pilot, lambda: ">orders-2" in text(console), "the cursor")
            await pilot.press("tab")
            await until(pilot, lambda: ">orders-2" not in text(console), "the way back")

    async def test_r_asks_for_a_resume_where_the_session_may_change_the_cluster(
        self, tmp_path: Path
    ) -> None:
        path = journals.interrupted(tmp_path)
        console = journal_of(tmp_path, power=ARMED)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "orders-2"), "its partitions")
            with heard(console, ResumeAsked) as asked:
                await pilot.press("r")
                await until(pilot, lambda: asked, "the message")
            assert [one.journal for one in asked] == [path]

    async def test_r_says_what_a_read_only_session_lacks(self, tmp_path: Path) -> None:
        journals.interrupted(tmp_path)
        console = journal_of(tmp_path)
        async with console.run_test(size=(120, 40)) as pilot:
            await until(pilot, shown(console, "orders-2"), "its partitions")
            await until(pilot, shown(console, "(with --write)"), "what it takes")
            with heard(console, ResumeAsked) as asked:
                await pilot.press("r")
                await until(pilot, lambda: "read-only" in notices(console), "the notice")
            assert not asked

    async def test_what_has_ended_well_offers_neither_check_nor_resume(
        self, tmp_path: Path
    ) -> None:
        journals.group_reset(tmp_path)
        console = journal_of(tmp_path, power=ARMED)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "moved   "), "its partitions")
            assert "Next" not in text(console)
            with heard(console, ResumeAsked) as asked:
                await pilot.press("u", "r")
            assert not asked
            assert not console._notifications

    async def test_c_sends_the_timeline_to_the_clipboard(self, tmp_path: Path) -> None:
        journals.recovery(tmp_path)
        console = journal_of(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "orders-2"), "its partitions")
            await pilot.press("c")
            await until(pilot, lambda: "Sent to the clipboard" in text(console), "that it was sent")
            assert "the timeline of a recovery of 4 partitions" in text(console)
            assert console.clipboard.startswith("Recovery of 4 partitions: partly failed\n")

    async def test_w_writes_the_timeline_for_its_owner_alone(self, tmp_path: Path) -> None:
        path = journals.recovery(tmp_path)
        console = journal_of(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "orders-2"), "its partitions")
            await pilot.press("w")
            await until(pilot, lambda: "Written" in notices(console), "the notice")
        written = tmp_path / "timelines" / f"{path.stem}.txt"
        assert str(written) in notices(console)
        assert written.read_text().startswith("Recovery of 4 partitions: partly failed\n")
        assert stat.S_IMODE(written.stat().st_mode) == 0o600

    async def test_w_says_why_the_timeline_cannot_be_written(self, tmp_path: Path) -> None:
        journals.recovery(tmp_path)
        (tmp_path / "timelines").write_text("in the way")
        console = journal_of(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "orders-2"), "its partitions")
            await pilot.press("w")
            await until(pilot, lambda: "cannot be written" in notices(console), "the notice")


class OnFakes:
    """Access to fake brokers."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    @contextmanager
    def reading(self, client_id: str | None = None) -> Iterator[ReadClient]:
        client = self._cluster.client()
        try:
            yield client
        finally:
            client.close()


class TestCheckingAgain:
    async def test_u_asks_the_cluster_and_the_journal_tells_what_it_said(
        self, tmp_path: Path
    ) -> None:
        path = journals.interrupted(tmp_path, CLUSTER_ID)
        with FakeCluster(3) as cluster:
            for order in journals.ORDERS:
                cluster.story.states[order] = state(order, (1, 2, 3), leader=2, leader_epoch=6)
            access = cast("ReadAccess", OnFakes(cluster))
            console = journal_of(tmp_path, NO_ANSWER, access=access)
            async with console.run_test(size=(80, 24)) as pilot:
                await until(pilot, shown(console, "orders-2"), "its partitions")
                await pilot.press("u")
                await until(pilot, lambda: "orders-0 elect" in notices(console), "the answers")
                await until(pilot, shown(console, "3 elected another"), "the journal anew")
        assert "orders-1 elect: elected another" in notices(console)
        assert not read(path).unsettled

    async def test_what_is_still_unknown_is_said_so(self, tmp_path: Path) -> None:
        journals.interrupted(tmp_path, CLUSTER_ID)
        with FakeCluster(3) as cluster:
            access = cast("ReadAccess", OnFakes(cluster))
            console = journal_of(tmp_path, NO_ANSWER, access=access)
            async with console.run_test(size=(80, 24)) as pilot:
                await until(pilot, shown(console, "orders-2"), "its partitions")
                await pilot.press("u")
                await until(pilot, lambda: "3 still unknown" in notices(console), "the answer")

    async def test_a_cluster_that_cannot_be_asked_leaves_it_unknown(self, tmp_path: Path) -> None:
        journals.interrupted(tmp_path)
        access = CannedAccess(failure=REFUSED).as_access
        console = journal_of(tmp_path, access=access)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "orders-2"), "its partitions")
            await pilot.press("u")
            await until(pilot, lambda: "b3 refuses" in notices(console), "the reason")
            await until(pilot, shown(console, "u asks the cluster again"), "another chance")


async def test_a_journal_of_many_partitions_is_read_beside_the_screen(tmp_path: Path) -> None:
    many = {TopicPartition("orders", number): "0" for number in range(20_000)}
    with Journal.open(CLUSTER, tmp_path) as journal:
        journals.plan(journal, many)
        journals.step(journal, ELECT, dict.fromkeys(many, journals.elected()))
        journal.finish("succeeded")
    console = journal_of(tmp_path)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, shown(console, "Reading the journals."), "the screen, before it is read")
        await until(pilot, shown(console, "orders-0 "), "its partitions")
        assert "20,000 elected" in text(console)


class TestTheLedger:
    """`l`: every record of the incident accounted for, as a page over the journal."""

    def console(self, folder: Path, **options: Any) -> BreakglassApp:
        access = CannedAccess(failure=REFUSED).as_access
        return journal_of(folder, access=access, **options)

    async def opened(self, console: BreakglassApp, pilot: Any) -> None:
        await until(pilot, shown(console, "ledger-3"), "its partitions")
        await pilot.press("l")
        await until(pilot, lambda: isinstance(console.screen, LedgerScreen), "the ledger")
        await until(pilot, shown(console, "The sums add up"), "the verdict")

    @pytest.mark.parametrize(
        ("size", "terminal", "theme"),
        [
            ((80, 24), Terminal(), "breakglass-dark"),
            ((60, 20), Terminal(ascii_only=True), "breakglass-monochrome"),
        ],
    )
    async def test_small_terminals_show_verdict_and_sums_first(
        self, tmp_path: Path, size: tuple[int, int], terminal: Terminal, theme: str
    ) -> None:
        incidents.incident(tmp_path)
        console = self.console(tmp_path, terminal=terminal, theme=theme)
        async with console.run_test(size=size) as pilot:
            await self.opened(console, pilot)
            assert "227 records" in text(console)
            assert "165" in line_with(console, "kept ").split()
            assert "50" in line_with(console, "rescued ").split()
            if terminal.ascii_only:
                assert text(console).isascii()
            await pilot.press("escape")
            assert isinstance(console.screen, JournalScreen)

    async def test_it_scrolls_to_the_offsets(self, tmp_path: Path) -> None:
        incidents.incident(tmp_path)
        console = self.console(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await self.opened(console, pilot)
            for _ in range(10):
                if "100-149" in text(console):
                    break
                await pilot.press("pagedown")
                await pilot.pause()
            assert "rescued" in line_with(console, "100-149")

    async def test_w_writes_the_page_as_html_for_its_owner_alone(self, tmp_path: Path) -> None:
        path = incidents.incident(tmp_path)
        console = self.console(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await self.opened(console, pilot)
            await pilot.press("w")
            await until(pilot, lambda: "Written" in notices(console), "the notice")
        written = tmp_path / "ledgers" / f"{path.stem}.html"
        assert written.read_text(encoding="utf-8").startswith("<!doctype html>")
        assert stat.S_IMODE(written.stat().st_mode) == 0o600

    async def test_hostile_texts_are_inert(self, tmp_path: Path) -> None:
        journals.hostile(tmp_path)
        console = self.console(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "[b]refused"), "the result")
            await pilot.press("l")
            await until(pilot, lambda: isinstance(console.screen, LedgerScreen), "the ledger")
            assert all(line.isprintable() for line in lines(console))

    async def test_a_journal_without_elections_has_none(self, tmp_path: Path) -> None:
        journals.group_reset(tmp_path)
        console = self.console(tmp_path)
        async with console.run_test(size=(80, 24)) as pilot:
            await until(pilot, shown(console, "ledger-3"), "its partition")
            await pilot.press("l")
            assert isinstance(console.screen, JournalScreen)

    async def test_another_cluster_is_not_asked(self, tmp_path: Path) -> None:
        incidents.incident(tmp_path)
        with FakeCluster(3) as cluster:
            console = journal_of(tmp_path, access=cast("ReadAccess", OnFakes(cluster)))
            async with console.run_test(size=(120, 50)) as pilot:
                await self.opened(console, pilot)
                assert "the cluster was not asked" in text(console)
                assert CLUSTER_ID in text(console)
