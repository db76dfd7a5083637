"""What the session before did not finish, offered once when the console starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from breakglass.console.app import BreakglassApp
from breakglass.screens.elect.screen import ResumeScreen
from breakglass.screens.elect.state import Phase
from breakglass.screens.elect.unfinished import UnfinishedScreen, unfinished
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from tests.kit.fake_broker import Reply
from tests.kit.fake_controller import Answer, unanswered
from tests.kit.fake_metadata import CLUSTER_ID
from tests.screens.elect.conftest import Electing, Screen
from tests.screens.elect.test_resume import killed
from tests.screens.turns import text, until


@pytest.fixture
def left(electing: Electing, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal of an election that was killed after the canary."""
    return killed(electing, monkeypatch, "elect", skip=1)


def offered(console: BreakglassApp) -> bool:
    return isinstance(console.screen, UnfinishedScreen)


async def test_it_says_who_began_what_and_how_far_it_came(electing: Electing, left: Path) -> None:
    console = electing.console()
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "An election was interrupted." in text(console), "the offer")
        shown = " ".join(text(console).replace("│", " ").split())
        assert "recovery of 2 partitions." in shown
        assert "It came this far: 1 elected, 1 unknown." in shown
        assert electing.steps.count("elect") == 1, "nothing was sent"


async def test_enter_shows_what_is_left_and_sends_nothing(electing: Electing, left: Path) -> None:
    console = electing.console()
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: offered(console), "the offer")
        sent = list(electing.steps)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(console.screen, ResumeScreen), "the resume")
        screen = Screen(console, pilot)
        await screen.comes_to(Phase.REVIEW)
        await screen.press("enter")
        await screen.until(lambda: screen.phase is None, "the screen before")
        assert electing.steps == sent


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_it_can_wait(electing: Electing, left: Path, key: str) -> None:
    console = electing.console()
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: offered(console), "the offer")
        await pilot.press(key)
        await until(pilot, lambda: not offered(console), "the list")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: not console.context.known.reading, "another refresh")
        assert not offered(console), "it is offered once"
        assert console.is_running


async def test_what_ended_without_being_known_is_offered_too(electing: Electing) -> None:
    def hang(request: Any, answer: Answer) -> Reply:
        electing.cluster.brokers[1].hung = True
        return unanswered(request, answer)

    session = electing.session
    session.offline()
    session.controller.next(ElectLeadersRequest, hang)
    session.election(session.wanted()).run(["orders-0 lose 0 and abandon b3"])
    assert len(unfinished(CLUSTER_ID, session.state)) == 1
    electing.cluster.brokers[1].hung = False
    console = electing.console()
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "some outcomes are unknown" in text(console), "the offer")


async def test_what_runs_or_is_done_is_not_offered(electing: Electing) -> None:
    session = electing.session
    session.offline()
    session.election(session.wanted()).run(["orders-0 lose 0 and abandon b3"])
    assert unfinished(CLUSTER_ID, session.state) == ()
    with Journal.open(CLUSTER_ID, session.state) as running:
        running.plan("", "", {})
        assert unfinished(CLUSTER_ID, session.state) == ()
    assert [brief.path for brief in unfinished(CLUSTER_ID, session.state)] == [running.path]
