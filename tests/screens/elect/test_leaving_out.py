"""What the operator leaves out stays out, however quick the keys and however often it is read."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest

from breakglass.screens.elect.state import Phase
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.guarded.subject import ElectionSubject
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.elect.conftest import Electing


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set: what is left is counted, which takes its time for very many."""
    count, let_go = ElectionSubject.without, threading.Event()

    def slow(
        self: ElectionSubject, partitions: Collection[TopicPartition], reason: str
    ) -> ElectionSubject:
        assert let_go.wait(DEADLINE_SECONDS)
        return count(self, partitions, reason)

    monkeypatch.setattr(ElectionSubject, "without", slow)
    return let_go


async def test_quick_keys_leave_out_one_each_for_good_and_meanwhile_no_phrase_is_taken(
    electing: Electing, counted: threading.Event
) -> None:
    partitions = electing.session.offline(count=4)
    async with electing.asked() as screen:
        await screen.press("down", "ctrl+x", *"4 partitions lose 0 and abandon b3", "enter")
        assert screen.phase is Phase.REVIEW
        counted.set()
        await screen.shows("3 partitions lose 0")
        await screen.settles()
        assert electing.sent_nothing

        await screen.asks(*partitions)
        counted.clear()
        await screen.press("down", "ctrl+x", "down", "ctrl+x")
        counted.set()
        await screen.shows("2 partitions lose 0", "orders-1 (and 1 more)")
        attempt = screen.page._worker.number
        await screen.press("ctrl+r")
        await screen.until(lambda: screen.page._worker.number > attempt, "another reading")
        await screen.comes_to(Phase.REVIEW)
        assert screen.phrase == "2 partitions lose 0 and abandon b3"
        await screen.elect()
    led = [state.leader for state in electing.cluster.story.states.values()]
    assert led.count(None) == 2
    assert led[1] is None
