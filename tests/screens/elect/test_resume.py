"""A journal taken up again on the screen: where it stopped, what is left, finished or undone."""

from __future__ import annotations

from pathlib import Path

from breakglass.screens.elect.state import Phase
from breakglass.services.guard.journal import read
from tests.screens.elect.conftest import Electing

PHRASE = "2 partitions lose 0 and abandon b3"


async def test_where_it_stopped_is_shown_and_it_is_finished_by_the_phrase(
    electing: Electing,
) -> None:
    path = electing.killed()
    async with electing.resumed(path) as screen:
        await screen.shows(path.name, "interrupted", "Elect 2 partitions", "> [ Cancel ]")
        await screen.press("ctrl+x", "ctrl+o")
        await screen.settles()
        assert screen.phrase == PHRASE, "a journal is taken up as a whole"
        await screen.elect()
        await screen.shows("2 writable")
    assert electing.session.leaders() == {1}
    assert read(path).result == "succeeded"


async def test_what_is_led_already_is_confirmed_beside_what_is_elected(electing: Electing) -> None:
    path = electing.killed(after=1)
    async with electing.resumed(path) as screen:
        await screen.shows("Elect b1 for orders-1")
        await screen.elect()
    assert electing.session.leaders() == {1}
    assert read(path).result == "succeeded"


async def test_ctrl_y_puts_orders_back_in_place_of_electing(electing: Electing) -> None:
    path = electing.killed()
    async with electing.resumed(path) as screen:
        for shown in ("Put the order of 2", "Elect 2 partitions", "Put the order of 2"):
            await screen.press("ctrl+y")
            await screen.shows(shown)
        assert screen.phrase == "undo 2 partitions"
        await screen.elect()
        await screen.shows("2 undone")
    assert electing.session.leaders() == {None}
    assert read(path).result == "undone"


async def test_what_changed_since_it_was_shown_is_refused(electing: Electing) -> None:
    path = electing.killed()
    sent = list(electing.steps)
    async with electing.resumed(path) as screen:
        (first, _) = electing.cluster.story.states
        electing.cluster.hold(2, first, (0, 100), (4, 35))
        await screen.agree()
        await screen.shows("1 partition changed", "would now lose 35")
    assert electing.steps == sent


async def test_read_only_shows_where_it_stopped_and_changes_nothing(electing: Electing) -> None:
    path = electing.killed()
    before = path.read_bytes()
    async with electing.resumed(path, write=False) as screen:
        await screen.shows("read-only", "interrupted")
    assert path.read_bytes() == before


async def test_a_journal_that_cannot_be_read_or_is_done_leaves_only_the_way_back(
    electing: Electing, tmp_path: Path
) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text("{}\n")
    session = electing.session
    session.offline()
    session.election(session.wanted()).run(["orders-0 lose 0 and abandon b3"])
    (journal,) = session.journals()
    for left, words in ((path, "line 1"), (journal.path, "Nothing is left to elect.")):
        async with electing.resumed(left) as screen:
            await screen.shows(words, "> [ Back ]")
            assert screen.phase is Phase.REVIEW
