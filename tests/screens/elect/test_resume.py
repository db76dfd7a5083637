"""A journal taken up again on the screen: where it stopped, what is left, finished or undone."""

from __future__ import annotations

from breakglass.screens.elect.state import Phase
from breakglass.services.guard.journal import read
from tests.screens.elect.conftest import Electing

PHRASE = "2 partitions lose 0 and abandon b3"


async def test_where_it_stopped_is_shown_changes_are_refused_and_the_phrase_finishes_it(
    electing: Electing,
) -> None:
    path = electing.killed()
    sent, before = list(electing.steps), path.read_bytes()
    async with electing.resumed(path, write=False) as screen:
        await screen.shows("read-only", "interrupted")
    assert path.read_bytes() == before
    async with electing.resumed(path) as screen:
        await screen.shows(path.name, "interrupted", "Elect 2 partitions", "> [ Cancel ]")
        await screen.press("ctrl+x", "ctrl+o")
        await screen.settles()
        assert screen.phrase == PHRASE, "a journal is taken up as a whole"
        for shown in ("Put the order of 2", "Elect 2 partitions"):
            await screen.press("ctrl+y")
            await screen.shows(shown)
        (first, _) = electing.cluster.story.states
        electing.cluster.hold(2, first, (0, 100), (4, 35))
        await screen.agree()
        await screen.shows("1 partition changed", "would now lose 35")
        assert electing.steps == sent
        electing.cluster.hold(2, first, (0, 70))
        await screen.press("ctrl+r")
        await screen.until(lambda: screen.page.state.next_asked, "the phrase")
        await screen.until(lambda: screen.phrase == PHRASE, "as it was")
        await screen.elect()
        await screen.shows("2 writable")
    assert electing.session.leaders() == {1}
    assert read(path).result == "succeeded"
    async with electing.resumed(path) as screen:
        await screen.shows("Nothing is left to elect.", "> [ Back ]")
        assert screen.phase is Phase.REVIEW


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
        await screen.press("ctrl+y")
        await screen.shows("Put the order of 2")
        assert screen.phrase == "undo 2 partitions"
        await screen.elect()
        await screen.shows("2 undone")
    assert electing.session.leaders() == {None}
    assert read(path).result == "undone"
    path.write_text("{}\n")
    async with electing.resumed(path) as screen:
        await screen.shows("line 1", "> [ Back ]")
        assert screen.phase is Phase.REVIEW
