"""The console on a bundle: what was captured is shown, what is live is greyed, nobody is asked."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.console.app import MODES
from breakglass.console.bundle_console import ANSWER, SHOWN, BundleConsole
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.messages import BrowseAsked, ElectionAsked, ResumeAsked
from breakglass.screens.widgets.key_bar import KeyBar
from breakglass.services.bundle.capture import BundleMaker
from breakglass.services.bundle.records import (
    BundledBackup,
    BundledBackups,
    BundledPlace,
    BundledRecords,
    ContentRules,
    bundled,
)
from breakglass.services.divergence.address import SourceAddress, SourceKind
from breakglass.services.divergence.source import Extent
from breakglass.services.guard.journal import Journal
from breakglass.services.health.figure import BackupGlance
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.plan.document import parse_plan
from tests.kit.extent import others_slow
from tests.kit.incidents import (
    CLUSTER,
    HOSTILE_TOPIC,
    LEDGER,
    READ_AT_MS,
    diverged_incident,
    every_verdict,
    incident_of,
    lossless,
)
from tests.screens.bundle_consoles import bundle_console, console_of
from tests.screens.every_key import keys_here, press_every_key
from tests.screens.test_every_screen import powers
from tests.screens.turns import is_inert, lines, shows, text, until
from tests.unit.divergence.streams import entries

LEDGER_3 = TopicPartition("ledger", 3)


@pytest.fixture(autouse=True)
def nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No sender of requests is made, whatever a screen tries and whoever catches its error."""
    made: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        made.append(arguments)
        raise AssertionError("a bundle is open, and a client was made")

    monkeypatch.setattr(Sender, "__init__", refuse)
    yield
    assert made == []


def records() -> list[BundledRecords]:
    """What b1 and b2 have of `LEDGER` from where they diverge: 25 and 50 records."""
    rules = ContentRules()
    return [
        bundled(
            LEDGER_3, broker, Extent(100, end), iter(entries(100, end, value, epoch)), 99, rules
        )
        for broker, end, value, epoch in ((1, 125, b"one", 2), (2, 150, b"two", 1))
    ]


@asynccontextmanager
async def opened(
    incident: Incident, folder: Path, *start: str, size: tuple[int, int] = (80, 24), **parts: Any
) -> AsyncIterator[tuple[Pilot[Any], BundleConsole]]:
    console = bundle_console(incident, folder, *start, **parts)
    async with console.run_test(size=size) as pilot:
        await until(pilot, lambda: console.context.known.incident is not None, "the incident")
        yield pilot, console


def enabled(console: BundleConsole) -> dict[str, bool]:
    active = console.screen.active_bindings.values()
    return {one.binding.action: one.enabled for one in active}


async def says_what_to_do_instead(pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: ANSWER[0] in lines(pilot.app)[-1], "what to do instead")
    pilot.app.screen.query_one(KeyBar).say(())


@pytest.mark.parametrize("mode", others_slow(sorted(SHOWN), "offline"))
async def test_after_every_key_nothing_was_asked_and_no_power_exists(
    tmp_path: Path, mode: str
) -> None:
    async with opened(every_verdict(), tmp_path, records=records()) as (pilot, console):
        assert await press_every_key(pilot, mode)
        assert powers(console) == []
        assert console._exception is None


async def test_the_list_is_that_of_the_capture_with_its_moment_and_brokers_can_be_declared_gone(
    tmp_path: Path,
) -> None:
    live = every_verdict()
    async with opened(live, tmp_path) as (pilot, console):
        incident = console.context.known.incident
        assert incident is not None
        assert [row.judged for row in incident.rows] == [row.judged for row in live.rows]
        assert "BUNDLE" in lines(console)[0]
        assert console.context.bundle
        assert console.context.bundle.captured_at_ms
        assert "STALE" not in text(console)
        assert " ago" not in text(console)
        await pilot.press("b")
        await until(pilot, lambda: len(console.screen_stack) == 2, "the question for brokers")
        await pilot.press("3", "enter")
        await until(pilot, lambda: console.context.watch.gone == (3,), "the declaration")
        known: Any = console.context.known
        await until(pilot, lambda: 3 in known.incident.circumstances.ruled_out, "a new judgement")


async def test_what_is_live_is_greyed_and_says_what_to_do_instead(tmp_path: Path) -> None:
    """No message begins an act or opens an address, and what a bundle has nothing for is shut."""
    address = SourceAddress(SourceKind.BACKUP, "s3://elsewhere/x", "orders", 0)
    async with opened(diverged_incident(), tmp_path) as (pilot, console):
        now = enabled(console)
        live = ("elect", "rescue", "hold", "forget", "ask_refresh", "show('browse')")
        assert {action: now[action] for action in live} == dict.fromkeys(live, False)
        assert {now[action] for action in ("plan", "diff", "forecast", "gone")} == {True}
        assert "refresh" not in lines(console)[-1]
        assert "acknowledge" not in text(console)
        for key in ("e", "r", "6"):
            await pilot.press(key)
            await says_what_to_do_instead(pilot)
        for message in (
            ElectionAsked((LEDGER_3,)),
            ResumeAsked(tmp_path / "journal"),
            BrowseAsked(address),
        ):
            console.post_message(message)
            await says_what_to_do_instead(pilot)
        for mode in MODES.keys() - SHOWN:
            await console.run_action(f"show('{mode}')")
            await says_what_to_do_instead(pilot)
        assert len(console.screen_stack) == 1
        assert console.current_mode == "offline"


async def test_captured_records_of_two_replicas_are_compared_and_a_plan_of_them_is_a_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "plan.json"
    async with opened(diverged_incident(), tmp_path, records=records(), size=(100, 30)) as (
        pilot,
        console,
    ):
        await pilot.press("d")
        await until(pilot, lambda: len(console.screen_stack) == 2, "the comparison")
        pairs = console.screen.query_one(PairList)
        await until(
            pilot, lambda: any(pair.offset == 149 for pair in pairs.window.pairs), "its records"
        )
        found = {pair.offset: str(pair.kind) for pair in pairs.window.pairs}
        assert {found[offset] for offset in range(100, 125)} == {"!"}
        assert {found[offset] for offset in range(125, 150)} == {">"}
        await pilot.press("escape")
        await until(pilot, lambda: len(console.screen_stack) == 1, "the list")
        await pilot.press("p")
        await until(pilot, lambda: console.current_mode == "plan", "the plan's screen")
        await shows(pilot, "ledger-3")
        await pilot.press("s")
        await until(pilot, lambda: len(console.screen_stack) == 2, "the question for a name")
        await pilot.press("ctrl+u", *str(path), "enter")
        await until(pilot, path.exists, "the plan's file")
    plan = parse_plan(path.read_text(), str(path))
    assert plan.cluster_id == CLUSTER
    assert [record.evidence for record in plan.records.values()] == [LEDGER]


async def test_the_overview_and_journals_are_shown_as_captured_and_none_is_resumed(
    tmp_path: Path,
) -> None:
    unread = Unknown("the disk is gone")
    hostile = BundledPlace("s3://hostile/b", unread, 1)
    glances = {"topics": BackupGlance("1 of 2 verified", READ_AT_MS)}
    places = BundledBackups((BundledPlace("file:///b", None, 1), hostile), glances)
    topics = (BundledBackup("file:///b", "orders", 1, True, None, "no manifest"),)
    with Journal.open(CLUSTER, tmp_path / "theirs") as journal:
        journal.note("the night of the incident")
    parts: dict[str, Any] = {
        "backups": places,
        "backed_up": topics,
        "journal": journal.path.read_bytes(),
    }
    async with opened(diverged_incident(), tmp_path, "overview", **parts) as (pilot, console):
        await shows(pilot, "1 of 2 verified")
        assert "never: this is a bundle" in text(console)
        console.screen.query_one("#brokers").focus()
        await pilot.press("down", "enter")
        await shows(pilot, "log.dirs")
        await pilot.press("escape", "5")
        await shows(pilot, "s3://hostile/b")
        assert "unreadable" in text(console)
        await pilot.press("4")
        await until(pilot, lambda: console.current_mode == "journal", "the journals")
        screen: Any = console.screen
        await until(pilot, lambda: screen.journals.rows, "the journal")
        assert len(console.screen_stack) == 1
        now = enabled(console)
        assert {now["resume"], now["check"], now["ledger"]} == {False}


async def test_hostile_names_are_inert(tmp_path: Path) -> None:
    evidence = lossless(1, topic=HOSTILE_TOPIC)
    hostile = replace(evidence, unread_floor_source="\x1b]0;title\x07[bold]")
    async with opened(incident_of(hostile, dumb={3: "\x1b[2Jboom"}), tmp_path) as (pilot, console):
        await pilot.press("enter", "escape", "1", "3", "4", "5")
        for mode in SHOWN:
            await console.switch_mode(mode)
            await pilot.pause()
            assert is_inert(console)
            assert list(keys_here(console))


async def test_a_bundle_of_an_unreadable_cluster_says_so(tmp_path: Path) -> None:
    maker = BundleMaker()
    maker.lacks("the cluster", "no broker answers")
    maker.write(tmp_path / "b.tar.gz")
    console = console_of(tmp_path / "b.tar.gz")
    async with console.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "no broker answers")
        for mode in SHOWN:
            await console.switch_mode(mode)
            await pilot.pause()
