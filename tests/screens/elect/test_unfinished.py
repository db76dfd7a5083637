"""What the session before did not finish, offered once when the console starts."""

from __future__ import annotations

from typing import Any

import pytest

from breakglass.screens.elect.screen import ResumeScreen
from breakglass.screens.elect.state import Phase
from breakglass.screens.elect.unfinished import UnfinishedScreen, unfinished
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from tests.kit.fake_broker import Reply
from tests.kit.fake_controller import Answer, unanswered
from tests.kit.fake_metadata import CLUSTER_ID
from tests.screens.elect.conftest import SIZE, Electing, Screen
from tests.screens.turns import hides, opens, shows, until


async def test_it_is_offered_once_and_enter_shows_what_is_left_and_sends_nothing(
    electing: Electing,
) -> None:
    electing.killed(after=1)
    console = electing.console()
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "An election was interrupted.")
        await shows(pilot, "1 elected, 1 unknown")
        sent = list(electing.steps)
        assert sent.count("elect") == 1
        await pilot.press("enter")
        await opens(pilot, ResumeScreen)
        screen = Screen(console, pilot)
        await screen.comes_to(Phase.REVIEW)
        await screen.press("enter")
        await screen.is_left()
        assert electing.steps == sent


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_what_ended_without_being_known_is_offered_too_and_can_wait(
    electing: Electing, key: str
) -> None:
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
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "outcomes are unknown")
        await pilot.press(key)
        await hides(pilot, "outcomes are unknown")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: not console.context.known.reading, "another refresh")
        assert not isinstance(console.screen, UnfinishedScreen)
        assert console.is_running


async def test_what_runs_or_is_done_is_not_offered(electing: Electing) -> None:
    session = electing.session
    session.offline()
    session.election(session.wanted()).run(["orders-0 lose 0 and abandon b3"])
    assert unfinished(CLUSTER_ID, session.state) == ()
    with Journal.open(CLUSTER_ID, session.state) as running:
        running.plan("", "", {})
        assert unfinished(CLUSTER_ID, session.state) == ()
    assert [brief.path for brief in unfinished(CLUSTER_ID, session.state)] == [running.path]
