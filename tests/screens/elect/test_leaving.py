"""Leaving while an election is under way, and how few frames lie between a key and its request."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breakglass.screens.elect.screen import ElectionPage
from breakglass.screens.elect.state import Phase
from breakglass.screens.messages import Interrupted
from breakglass.services import patience
from breakglass.services.errors import AlreadyRunning
from breakglass.services.guard.lock import ClusterLock
from breakglass.services.kafka.election_client import ElectionClient
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.waiting import wait_until
from tests.screens.elect.conftest import Electing, Gate, Screen

INTERRUPTED = 130
FOR_EVER = 1e6


@pytest.fixture
def hung(electing: Electing, monkeypatch: pytest.MonkeyPatch) -> Electing:
    """Its brokers are waited for without end: who waits for them never leaves."""
    for question in ("SNAPSHOT", "REQUEST", "LOGS", "CONNECT"):
        monkeypatch.setattr(patience, question, FOR_EVER)
    electing.session.offline()
    return electing


async def read_again_in_vain(electing: Electing, screen: Screen) -> None:
    for broker in electing.cluster.brokers.values():
        broker.hung = True
    await screen.agree()
    await screen.comes_to(Phase.REREADING)


@pytest.mark.parametrize("signal", [False, True], ids=["q", "a signal"])
async def test_leaving_does_not_wait_for_the_look_before_an_election(
    hung: Electing, signal: bool
) -> None:
    async with hung.asked() as screen:
        await read_again_in_vain(hung, screen)
        if signal:
            screen.console.post_message(Interrupted(INTERRUPTED))
        else:
            await screen.press("q")
        await screen.ends()
    assert not signal or screen.console.return_code == INTERRUPTED
    assert hung.sent_nothing


async def test_escape_gives_up_while_it_is_read_again_and_who_leaves_then_hears_nothing(
    hung: Electing,
) -> None:
    async with hung.asked() as screen:
        await read_again_in_vain(hung, screen)
        await screen.press("escape")
        await screen.shows("nothing was sent")
        assert screen.phase is Phase.REVIEW
        await screen.press("escape")
        await screen.is_left()
        await screen.press("q")
        await screen.ends()
    assert screen.console.parting == ""
    assert hung.sent_nothing


async def test_who_leaves_an_election_under_way_hears_where_its_outcome_is(
    electing: Electing,
) -> None:
    electing.session.offline(count=3)
    gate = electing.gate()
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the canary")
        await screen.press("q")
        await screen.until(screen.console.context.stopping.is_set, "the wish")
        assert screen.console.is_running
        gate.opened.set()
        await screen.ends()
    assert "breakglass journal list" in screen.console.parting
    (journal,) = electing.session.journals()
    assert (journal.unsettled, journal.result) == ((), None)
    led = [state.leader for state in electing.cluster.story.states.values()]
    assert sorted(led, key=str) == [1, None, None], "nothing new began"


async def test_a_console_that_fails_finishes_the_request_and_writes_it_down(
    electing: Electing,
) -> None:
    electing.session.offline(count=3)
    gate = electing.gate()
    with pytest.raises(ZeroDivisionError):
        await fail_at_the_canary(electing, gate)
    electing.consoles[0].context.close()
    gate.opened.set()
    wait_until(lambda: is_free(electing.session.state / "locks"), "the end of the thread")
    (journal,) = electing.session.journals()
    assert (journal.unsettled, journal.result) == ((), None)
    assert electing.steps.count("elect") == 1, "nothing new began"


async def fail_at_the_canary(electing: Electing, gate: Gate) -> None:
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the canary")
        screen.console.call_later(lambda: 1 / 0)
        await screen.ends()


def is_free(locks: Path) -> bool:
    try:
        ClusterLock.acquire(CLUSTER_ID, locks).release()
    except AlreadyRunning:
        return False
    return True


ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "architecture.md"
MOST_FRAMES = 15


def frames() -> list[str]:
    """The product's files on the stack, the outermost first."""
    product = ROOT / "breakglass"
    found = [Path(frame.filename) for frame in traceback.extract_stack()]
    return [path.relative_to(product).as_posix() for path in found if path.is_relative_to(product)]


async def test_few_frames_lie_between_a_key_and_its_request_and_the_page_names_their_files(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[list[str]] = []
    begin, elect = ElectionPage._in_thread, ElectionClient.elect

    def beginning(page: ElectionPage, work: Callable[[], None]) -> None:
        passed.append(frames())
        begin(page, work)

    def electing_now(client: ElectionClient, *words: Any, **more: Any) -> Any:
        passed.append(frames())
        return elect(client, *words, **more)

    monkeypatch.setattr(ElectionPage, "_in_thread", beginning)
    monkeypatch.setattr(ElectionClient, "elect", electing_now)
    electing.session.offline()
    async with electing.asked() as screen:
        passed.clear()
        await screen.type_phrase()
        await screen.press("enter")
        await screen.comes_to(Phase.DONE)
    by_key, by_thread = passed[:2]
    walked = [*by_key, *by_thread]
    assert "services/guard/act.py" in walked
    assert len(walked) <= MOST_FRAMES, walked
    named = re.findall(r"`((?:screens|services|console)/[a-z_/]+\.py)`", PAGE.read_text())
    assert set(walked) <= set(named)
    assert [one for one in named if not (ROOT / one).is_file()] == []
