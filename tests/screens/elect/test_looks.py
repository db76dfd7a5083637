"""What the guarded screens look like in both sizes."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.screens.elect.screen import ElectScreen
from breakglass.screens.elect.state import Phase
from breakglass.screens.elect.unfinished import UnfinishedScreen
from breakglass.screens.messages import ElectionAsked
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.guard.act import Ending, JournalOpened
from breakglass.services.incident.incident import Incident
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.elect import BatchBegun, OutcomesReported
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult, Rung
from breakglass.services.recovery.guarded.aftermath import Aftermath, GroupPastEnd
from breakglass.services.recovery.timeline.account import Brief, ExecutionState
from breakglass.services.recovery.timeline.ending import stake_of
from breakglass.services.session import Power, ReadAccess
from tests.kit.incidents import diverged_incident, every_verdict
from tests.screens.consoles import console_on
from tests.screens.drawing import SIZES, DrawnInSizes, Look, stopped_clock
from tests.screens.elect.conftest import Screen
from tests.screens.turns import until

pytestmark = pytest.mark.usefixtures("bare_pages")

LOOK = Look("breakglass-dark", SIZES[0])
NOWHERE = ReadAccess(ConnectionSettings((Endpoint("127.0.0.1", 1),)))
STATE = Path("/var/lib/breakglass")
JOURNAL = STATE / "journal" / "cluster-prod-eu-1" / "20231114T221320.000000Z.jsonl"


@asynccontextmanager
async def opened(
    incident: Incident, look: Look = LOOK, *, write: bool = True
) -> AsyncIterator[Screen]:
    console = console_on(
        incident,
        access=NOWHERE,
        power=Power(NOWHERE) if write else None,
        theme=look.theme,
        state_folder=STATE,
        clock=stopped_clock,
    )
    async with console.run_test(size=look.size) as pilot:
        await until(pilot, lambda: console.context.known.incident, "the cluster")
        console.post_message(ElectionAsked([row.partition for row in incident.rows]))
        await until(pilot, lambda: isinstance(console.screen, ElectScreen), "the screen")
        screen = Screen(pilot)
        await screen.comes_to(Phase.REVIEW)
        yield screen


def agreed(screen: Screen, phase: Phase) -> None:
    """As if everything had been agreed to, and it had come to *phase*."""
    state = screen.page.state
    assert state.subject is not None
    state.reread(state.subject)
    state.phase = phase
    state.progress.begin(tuple(state.progress.standings))
    state.progress.take(JournalOpened(JOURNAL))


def outcomes(screen: Screen) -> Sequence[PartitionOutcome]:
    subject = screen.page.state.subject
    assert subject is not None
    fenced = "b1 is fenced: start it, wait until it is unfenced, then continue"
    kinds = [
        (RecoveryResult.ELECTED, Rung.REDUNDANT, ""),
        (RecoveryResult.ELECTED, Rung.READABLE, ""),
        (RecoveryResult.UNKNOWN, Rung.ANNOUNCED, "b1 was elected but does not answer (timed out)"),
        (RecoveryResult.REFUSED, None, fenced),
        (RecoveryResult.ALREADY_ONLINE, None, "led by b3"),
        (RecoveryResult.NOT_ATTEMPTED, None, "stopped because the outcome of orders-1 is unknown"),
    ]
    return [
        PartitionOutcome(one.target, result, reason, one.target.designee, 6, rung)
        for one, (result, rung, reason) in zip(subject.wanted, kinds, strict=False)
    ]


async def test_what_is_asked_for_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with opened(every_verdict()) as screen:
        await screen.press("tab", *"__consumer_ofx")
        await screen.shows("not the phrase")
        await sizes_as_before(screen.pilot)


async def test_a_read_only_session_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with opened(diverged_incident(), write=False) as screen:
        await screen.shows("start again with --write")
        await sizes_as_before(screen.pilot)


def run_half(screen: Screen) -> None:
    """Some partitions are told, some are under way, some wait."""
    told = outcomes(screen)
    agreed(screen, Phase.RUNNING)
    progress = screen.page.state.progress
    progress.take(OutcomesReported(tuple(told[:2])))
    progress.take(BatchBegun(tuple(outcome.partition for outcome in told[2:4])))
    screen.page._show()


async def test_what_runs_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with opened(every_verdict()) as screen:
        run_half(screen)
        await screen.until(lambda: "[ Back ]" not in screen.text, "the layout of a run")
        await sizes_as_before(screen.pilot)


async def test_what_is_left_to_do_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with opened(every_verdict()) as screen:
        told = outcomes(screen)
        agreed(screen, Phase.DONE)
        state = screen.page.state
        state.progress.take(OutcomesReported(tuple(told)))
        state.progress.end(Ending("partly failed"))
        past = GroupPastEnd(TopicPartition("orders", 0), "billing", 130, 100)
        state.aftermath = Aftermath((), (past,))
        screen.page._finish()
        screen.page._show()
        await screen.shows("accounts for every")
        await screen.until(lambda: "[ Back ]" not in screen.text, "the layout of an end")
        await sizes_as_before(screen.pilot)


async def test_what_changed_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    async with opened(diverged_incident()) as screen:
        page = screen.page
        subject = page.state.subject
        assert subject is not None
        (one,) = subject.wanted
        page.state.changed = {one.partition: "the log end of b2 was 150 and is 160"}
        page.state.review(replace(subject), page.state.every_row, page.state.asked)
        page._review("1 partition changed since you agreed.")
        await screen.shows("1 partition changed since you agreed.")
        await sizes_as_before(screen.pilot)


async def test_what_was_left_unfinished_looks_as_before(sizes_as_before: DrawnInSizes) -> None:
    console = console_on(diverged_incident(), clock=stopped_clock)
    brief = Brief(
        JOURNAL,
        "prod-eu-1",
        "ops@bastion",
        (),
        1_700_000_000_000,
        1_700_000_060_000,
        "recovery of 1,874 partitions",
        {"elected": 11, "unknown": 1, "nothing sent": 1862},
        1,
        stake_of(["50"]),
        "",
        None,
        True,
        ExecutionState.INTERRUPTED,
    )
    async with console.run_test(size=SIZES[0]) as pilot:
        screen = Screen(pilot)
        await until(pilot, lambda: console.context.known.incident, "the cluster")
        await console.push_screen(UnfinishedScreen((brief, brief)))
        await screen.shows("1 more are in the Journal")
        await sizes_as_before(screen.pilot)
