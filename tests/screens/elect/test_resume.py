"""A journal taken up again on the screen: where it stopped, what is left, finished or undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.screens.elect.state import Phase
from breakglass.services.guard.journal import read
from breakglass.services.kafka.election_client import ElectionClient
from tests.screens.elect.conftest import Electing

PHRASE = "2 partitions lose 0 and abandon b3"


class Killed(BaseException):
    """Ends the session as kill -9 would, as far as its files are concerned."""


def killed(electing: Electing, monkeypatch: pytest.MonkeyPatch, step: str, skip: int = 0) -> Path:
    """The journal of an election of two partitions that ended when it came to *step*."""
    session = electing.session
    session.offline(count=2)
    wanted = session.wanted()
    real, left = getattr(ElectionClient, step), [skip]

    def die(*given: object, **more: object) -> object:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return real(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(ElectionClient, step, die)
        with pytest.raises(Killed):
            session.election(wanted).run([PHRASE])
    (journal,) = session.journals()
    return journal.path


async def test_where_it_stopped_and_what_is_left_are_shown(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(electing, monkeypatch, "elect")
    async with electing.resumed(path) as screen:
        await screen.shows(f"Journal {path.name}, begun by")
        await screen.shows("interrupted")
        await screen.shows("Elect 2 partitions: loses 0 records")
        assert screen.phrase == PHRASE
        await screen.shows("> [ Cancel ]")


async def test_it_is_finished_by_the_phrase(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(electing, monkeypatch, "elect")
    async with electing.resumed(path) as screen:
        await screen.agree()
        await screen.comes_to(Phase.DONE)
        await screen.shows("Done: 2 writable.")
    assert electing.session.leaders() == {1}
    assert read(path).result == "succeeded"


async def test_what_is_led_already_is_confirmed_beside_what_is_elected(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(electing, monkeypatch, "elect", skip=1)
    async with electing.resumed(path) as screen:
        await screen.shows("Elect b1 for orders-1")
        await screen.agree()
        await screen.comes_to(Phase.DONE)
    assert electing.session.leaders() == {1}
    assert read(path).result == "succeeded"


async def test_ctrl_y_puts_orders_back_in_place_of_electing(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(electing, monkeypatch, "elect")
    async with electing.resumed(path) as screen:
        await screen.press("ctrl+y")
        await screen.shows("Put the order of 2 partitions back, where nobody leads yet.")
        assert screen.phrase == "undo 2 partitions"
        await screen.agree()
        await screen.comes_to(Phase.DONE)
        await screen.shows("2 undone")
    assert electing.session.leaders() == {None}
    assert read(path).result == "undone"


async def test_ctrl_y_and_back_elects_again(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(electing, monkeypatch, "elect")
    async with electing.resumed(path) as screen:
        await screen.press("ctrl+y")
        await screen.shows("Put the order")
        await screen.press("ctrl+y")
        await screen.shows("Elect 2 partitions")


async def test_what_changed_since_it_was_shown_is_refused(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(electing, monkeypatch, "elect")
    sent = list(electing.steps)
    async with electing.resumed(path) as screen:
        (first, _) = electing.cluster.story.states
        electing.cluster.hold(2, first, (0, 100), (4, 35))
        await screen.agree()
        await screen.shows("1 partition changed since you agreed: nothing was sent.")
        await screen.shows("would now lose 35")
    assert electing.steps == sent


async def test_a_journal_is_taken_up_as_a_whole(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(electing, monkeypatch, "elect")
    async with electing.resumed(path) as screen:
        await screen.press("ctrl+x", "ctrl+o")
        await screen.settles()
        assert screen.phrase == PHRASE


async def test_read_only_shows_where_it_stopped_and_changes_nothing(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(electing, monkeypatch, "elect")
    before = path.read_bytes()
    async with electing.resumed(path, write=False) as screen:
        await screen.shows("Resuming a recovery changes the cluster and this session is read-only")
        await screen.shows("interrupted")
    assert path.read_bytes() == before


async def test_a_journal_that_cannot_be_read_is_told(electing: Electing, tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text("{}\n")
    electing.session.offline()
    async with electing.resumed(path) as screen:
        await screen.shows("line 1")
        await screen.shows("> [ Back ]")


async def test_nothing_is_left_of_a_journal_that_is_done(electing: Electing) -> None:
    session = electing.session
    session.offline()
    session.election(session.wanted()).run(["orders-0 lose 0 and abandon b3"])
    (journal,) = session.journals()
    async with electing.resumed(journal.path) as screen:
        await screen.shows("Nothing is left to elect.")
