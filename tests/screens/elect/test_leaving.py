"""Leaving while an election is under way: no broker answers, or the console itself fails."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from breakglass.screens.elect.state import Phase
from breakglass.screens.messages import Interrupted
from breakglass.services.errors import AlreadyRunning
from breakglass.services.guard.lock import ClusterLock
from tests.kit.fake_metadata import CLUSTER_ID
from tests.screens.elect.conftest import Electing, Screen
from tests.screens.elect.test_run import Gate, gated

PROMPTLY = 3.0
"""Seconds; reading the metadata may take 10."""
INTERRUPTED = 130


async def read_again_in_vain(electing: Electing, screen: Screen) -> None:
    for broker in electing.cluster.brokers.values():
        broker.hung = True
    await screen.agree()
    await screen.comes_to(Phase.REREADING)


async def ended(screen: Screen) -> float:
    """Seconds until the console is gone."""
    began = time.monotonic()
    await screen.until(lambda: not screen.console.is_running, "the end")
    return time.monotonic() - began


async def test_quitting_ends_the_look_before_an_election_at_once(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await read_again_in_vain(electing, screen)
        await screen.press("q")
        assert await ended(screen) < PROMPTLY
    assert (electing.steps, electing.results) == ([], ["nothing done"])


async def test_who_leaves_an_election_under_way_hears_where_its_outcome_is(
    electing: Electing,
) -> None:
    electing.session.offline()
    gate = gated(electing)
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the election")
        await screen.press("q")
        gate.opened.set()
        await ended(screen)
    assert "breakglass journal list" in screen.console.parting


async def test_who_leaves_without_one_hears_nothing(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await screen.press("escape")
        await screen.until(lambda: screen.phase is None, "the list")
        await screen.press("q")
        await ended(screen)
    assert screen.console.parting == ""


async def test_a_signal_ends_the_look_at_once_too(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await read_again_in_vain(electing, screen)
        screen.console.post_message(Interrupted(INTERRUPTED))
        assert await ended(screen) < PROMPTLY
    assert screen.console.return_code == INTERRUPTED
    assert (electing.steps, electing.results) == ([], ["nothing done"])


async def test_giving_up_takes_no_longer(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await read_again_in_vain(electing, screen)
        began = time.monotonic()
        await screen.press("escape")
        await screen.shows("Cancelled: nothing was sent.")
        assert time.monotonic() - began < PROMPTLY
        assert screen.phase is Phase.REVIEW
    assert (electing.steps, electing.results) == ([], ["nothing done"])


async def test_a_console_that_fails_finishes_the_request_and_writes_it_down(
    electing: Electing,
) -> None:
    electing.session.offline(count=3)
    gate = gated(electing)
    with pytest.raises(ZeroDivisionError):
        await fail_at_the_canary(electing, gate)
    electing.consoles[0].context.close()
    gate.opened.set()
    lock = electing.session.state / "locks"
    end = time.monotonic() + 10
    while not free(lock):
        assert time.monotonic() < end, "the thread has not ended"
        await asyncio.sleep(0.01)
    (journal,) = electing.session.journals()
    assert (journal.unsettled, journal.result) == ((), None)
    assert electing.steps.count("elect") == 1, "nothing new began"


async def fail_at_the_canary(electing: Electing, gate: Gate) -> None:
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the canary")
        screen.console.call_later(lambda: 1 / 0)
        await screen.until(lambda: not screen.console.is_running, "the end")


def free(locks: Path) -> bool:
    """Whether nobody changes the cluster any more."""
    try:
        ClusterLock.acquire(CLUSTER_ID, locks).release()
    except AlreadyRunning:
        return False
    return True
