"""The screen of the quorum: who answers, copies, the plan, the folder under guard, the return."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from textual.widgets import Input

from breakglass.screens import quorum
from breakglass.screens.messages import CopyAsked
from breakglass.screens.quorum import (
    CopiesPage,
    LinesScreen,
    PreparePage,
    QuorumScreen,
    ReturnPlanPage,
    StepsPage,
    WatchPage,
)
from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.errors import Unreachable
from breakglass.services.model import Silent, Unknown
from breakglass.services.quorum.metadata_copy import read_copy
from breakglass.services.quorum.status import DO_NOT, QuorumNode, QuorumRole, QuorumStatus
from breakglass.services.quorum.watch import ReturnProgress
from breakglass.services.quorum.wording import BACK
from breakglass.services.session import Power, ReadAccess
from breakglass.services.snapshot import Quorum, Voter
from tests.kit.incidents import CLUSTER, nothing_offline
from tests.kit.metadata_log import topic
from tests.screens.consoles import Asked, Operated, console_on
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.turns import is_inert
from tests.unit.quorum.clusters import LEDGER
from tests.unit.quorum.test_plan import Folders, whole_log

ARMED = cast("Power", object())
NO_LEADER = Unknown("only a controller that leads knows it")
HOSTILE = "\x1b]0;owned\x07[bold red]down[/]\u202e"


def lost(trouble: str = "connection refused") -> QuorumStatus:
    """Two of three controllers do not answer; the brokers run."""
    unknown = (NO_LEADER, NO_LEADER, NO_LEADER)
    controllers = tuple(
        QuorumNode(
            *(one, False, f"c{one}:9093", "" if one == 103 else trouble, Unknown("not asked")),
            *(QuorumRole.VOTER, 7 if one == 103 else Unknown("it was not asked"), *unknown),
        )
        for one in (101, 102, 103)
    )
    brokers = tuple(
        QuorumNode(
            *(one, True, f"b{one}:9092", "", 1_346 + one, QuorumRole.OBSERVER),
            *(Unknown("it was not asked"), *unknown),
        )
        for one in (1, 2, 3)
    )
    nodes = (*controllers, *brokers)
    return QuorumStatus(CLUSTER, Silent("no answer"), False, (101, 102, 103), nodes)


def led() -> QuorumStatus:
    """The same after c101 was started."""
    known = tuple(Voter(one, 1_350, 0, 90_000 if one == 102 else 0) for one in (101, 102, 103))
    found = lost()
    nodes = tuple(
        replace(one, trouble="", role=QuorumRole.LEADER, log_end=1_350, lag=0, silent_ms=0)
        if one.name == "c101"
        else one
        for one in found.nodes
    )
    return replace(found, quorum=Quorum(101, 8, 1_350, known), nodes=nodes)


@dataclass
class Nodes:
    """Gives the next of *looks* each time the nodes are asked, and the last one ever after."""

    looks: list[Any]
    given: list[dict[Endpoint, int | None]] = field(default_factory=list)

    def look(
        self,
        client: Any,
        controllers: Sequence[Endpoint],
        reach: Any,
        before: Mapping[Endpoint, int | None],
    ) -> QuorumStatus:
        del client
        self.given.append({**dict.fromkeys(controllers), **before})
        place = min(len(self.given), len(self.looks)) - 1
        found = self.looks[place]
        if isinstance(found, Exception):
            raise found
        if callable(found):
            return cast("QuorumStatus", found(reach))
        assert isinstance(found, QuorumStatus)
        return found


@dataclass(eq=False)
class Line:
    """A sender, which only can be closed."""

    closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        self.closed.set()


@dataclass(eq=False)
class NodesAccess:
    """Makes clients and senders that no test uses, but to see them closed."""

    made: list[Line] = field(default_factory=list)

    @contextmanager
    def reading(self, client_id: str | None = None) -> Iterator[Any]:
        del client_id
        yield self

    @property
    def sender(self) -> Line:
        return self.sender_at()

    def sender_at(self, *_: object) -> Line:
        self.made.append(Line())
        return self.made[-1]

    def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def opened(
    nodes: Nodes, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[Operated]:
    """The console on its screen of the quorum, whose nodes are canned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quorum, "look_at_quorum", nodes.look)
        access = cast("ReadAccess", NodesAccess())
        options = {"access": access, "clock": stopped_clock, **options}
        console = console_on(nothing_offline(), start="quorum", **options)
        async with console.run_test(size=size, notifications=True) as pilot:
            yield Operated(pilot)


@asynccontextmanager
async def lost_quorum(size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Operated]:
    async with opened(Nodes([lost()]), size, **options) as page:
        await page.shows("No controller leads: 1 of 3 voters answers", "b3")
        await at_rest(page.pilot)
        yield page


@pytest.mark.parametrize("look", LOOKS)
async def test_the_lost_quorum_looks_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with lost_quorum(look.size, theme=look.theme) as page:
        drawn_as_before(page.console)


async def test_q17_the_first_line_says_whom_to_start_and_an_unknown_figure_says_why() -> None:
    async with opened(Nodes([lost(), led()])) as page:
        await page.shows("Start c101 or c102 with its own disk")
        assert all(" ".join(one.split())[:60] in page.text for one in DO_NOT)
        await page.press("end")
        await page.press("enter")
        await page.shows("b3 at b3:9092", "Log end: ? (only a controller that leads knows it)")
        await page.press("escape")
        await page.shows(">= 1,349", "Controller 101 leads at epoch 8, and 2 of 3 voters answer")
        assert "Start c102 with its own disk. If one more stops" in page.text


async def test_what_nodes_say_is_inert() -> None:
    async with opened(Nodes([lost(HOSTILE)])) as page:
        await page.shows("\\x1b]0;owned")
        await page.press("enter")
        await page.shows("[bold red]down[/]")
        assert is_inert(page.console)


async def test_controllers_that_were_named_or_heard_are_asked_though_no_broker_answers() -> None:
    silent = Unreachable("b1:9092 does not answer", "no answer")
    nodes = Nodes([silent, lost(), lost()])
    async with opened(nodes) as page:
        await page.shows(
            "The nodes cannot be asked: b1:9092 does not answer",
        )
        await page.press("c")
        await page.press(*"c103", "enter")
        await page.shows("this field")
        await page.press("ctrl+u", *"c103:9093", "enter")
        await page.shows("Start c101 or c102")
        await page.press("ctrl+r")
        await page.until(lambda: len(nodes.given) > 2, "the third look")
    asked = [{str(at): node for at, node in one.items()} for one in nodes.given]
    assert asked[:2] == [{}, {"c103:9093": None}]
    assert asked[-1] == {"c101:9093": 101, "c102:9093": 102, "c103:9093": 103}


async def test_nodes_of_another_cluster_are_not_shown() -> None:
    async with opened(Nodes([replace(lost(), cluster_id="another")])) as page:
        await page.shows("The nodes cannot be asked: they are of cluster another")
        assert "c101" not in page.text


async def test_leaving_ends_what_is_asked_and_its_answer_does_not_count() -> None:
    asked, left = threading.Event(), threading.Event()

    def hangs(reach: Any) -> QuorumStatus:
        line = reach(Endpoint("c101", 9093))
        asked.set()
        line.closed.wait()
        left.set()
        return lost(HOSTILE)

    async with opened(Nodes([hangs, lost()])) as page:
        await page.until(asked.is_set, "the question")
        await page.press("1")
        await page.until(left.is_set, "the end of the question")
        await page.press("9")
        await page.shows("connection refused")
        assert "owned" not in page.text


async def test_the_overview_leads_here() -> None:
    async with lost_quorum() as page:
        await page.press("1")
        await page.shows("Controllers")
        await page.opens("c", QuorumScreen)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """The best copy is of c101; b1 lacks a topic."""
    found = Folders(tmp_path)
    short = whole_log()
    best = short.fork()
    best.add(*topic("ledger", LEDGER, (1, 2)))
    found.save(101, best)
    found.save(1, short)
    return found


async def typed(page: Operated, key: str, text: str, kind: type[Any]) -> Any:
    """Give *text* in the field that *key* opens; returns the page that opens then."""
    prompt = await page.opens(key, Prompt)
    prompt.query_one(Input).value = text
    return await page.opens("enter", kind)


async def to_plan(page: Operated, folders: Folders) -> None:
    """Open the plan that is made from the copy of b1."""
    await typed(page, "f", " ".join(folders.named), CopiesPage)
    await page.shows("The best copy is", "n101")
    await page.press("end")
    await typed(page, "p", "102@kafka-c102:9093", ReturnPlanPage)
    await page.shows("Controller 102@kafka-c102:9093 leads alone")


async def test_copies_are_ranked_and_enter_lists_what_one_lacks(folders: Folders) -> None:
    async with lost_quorum((120, 40)) as page:
        prompt = await page.opens("f", Prompt)
        await page.press("ctrl+u", "enter")
        await page.shows("write log:DIR")
        prompt.query_one(Input).value = "/no/address"
        await page.press("enter")
        await page.shows("'/no/address' names no folder")
        await page.press("ctrl+u", "escape")
        asked = Asked(page.console, CopyAsked)
        await typed(page, "f", " ".join(folders.named), CopiesPage)
        await page.shows("The best copy is", "/n1 ")
        rows = [line.split()[1:6] for line in page.lines if "/n1" in line]
        best = read_copy(folders.root / "n101" / "__cluster_metadata-0").end.offset
        assert rows[-2:] == [
            ["101", "best", "1", f"{best}", "0"],
            ["1", "prefix", "1", f"{best - 2}", "2"],
        ]
        await page.press("end")
        await page.opens("enter", LinesScreen)
        await page.shows("topics created", "ledger")
        await page.press("escape")
        await page.opens("i", LinesScreen)
        await page.shows("No data folder was named")
        await page.press("escape", "y")
        assert asked.messages[0].text == f"breakglass quorum inspect {' '.join(folders.named)}"
        await page.press("escape")
        await typed(page, "f", "log:/nowhere", CopiesPage)
        await page.shows("The copies were not compared", "names no folder")


async def test_a_read_only_console_shows_the_plan_and_copies_the_commands(folders: Folders) -> None:
    async with lost_quorum((120, 40)) as page:
        asked = Asked(page.console, CopyAsked)
        await to_plan(page, folders)
        await page.shows("This session is read-only", "topics created: ledger", "promote")
        await page.press("p")
        assert isinstance(page.console.screen, ReturnPlanPage)
        await page.press("y")
        plan, prepare = asked.messages[0].text.splitlines()
        assert "--copy" in plan
        assert prepare == "breakglass quorum prepare plan.json --out promoted --write"
    assert not (folders.root / "promoted").exists()


async def test_q16_the_folder_is_written_after_the_phrases_then_come_the_steps_and_the_watch(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [
        ReturnProgress((), ("The controllers have no leader.",), ("b1",)),
        ReturnProgress(("orders-0 lacks records: stop every broker.",), ()),
    ]
    monkeypatch.setattr(quorum, "look_at_return", lambda *_: looks.pop(0))
    out = folders.root / "out"
    options = {"power": ARMED, "state_folder": folders.root / "state"}
    async with lost_quorum((120, 40), **options) as page:
        asked = Asked(page.console, CopyAsked)
        await to_plan(page, folders)
        guard = await typed(page, "p", str(out), PreparePage)
        await page.shows("controller 102 lose 2 and abandon", "Loses", "topics created: ledger")
        assert not out.exists()
        # Left and opened again: the plan next to the folder is still there.
        await page.press("escape")
        guard = await typed(page, "p", str(out), PreparePage)
        await page.until(lambda: guard.phrase, "the phrase")
        await page.press("tab")
        while guard.phrase and not isinstance(page.console.screen, StepsPage):
            await page.press(*guard.phrase, "enter")
        await page.until(lambda: isinstance(page.console.screen, StepsPage), "the steps")
        assert read_copy(out / "__cluster_metadata-0").node == 102
        await page.shows("is written, and was read again", "Start c102 alone", "systemctl")
        await page.press("m")
        await page.shows("kill PID")
        await page.press("y")
        assert f"PROMOTED={out}" in asked.messages[0].text
        await page.opens("w", WatchPage)
        await page.shows("Waiting: The controllers have no leader.")
        await page.shows("STOP: orders-0 lacks records: stop every broker.")
        await page.press("escape", "escape")
        await page.shows("Done")


async def test_a_watch_by_a_plan_that_was_written_before_ends_when_the_cluster_is_back(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders.planned()
    done = ReturnProgress(confirmed=("Controller 102 leads at epoch 1,002.",), unseen=("b2",))
    monkeypatch.setattr(quorum, "look_at_return", lambda *_: done)
    async with lost_quorum() as page:
        prompt = await page.opens("w", Prompt)
        prompt.query_one(Input).value = str(folders.root / "nothing")
        await page.press("enter")
        await page.shows("There is no such file.")
        prompt.query_one(Input).value = str(folders.root / "plan")
        await page.opens("enter", WatchPage)
        await page.shows(
            BACK, "Confirmed: Controller 102 leads at epoch 1,002.", "looked for on b2"
        )
