"""Before consent: what is shown, what is asked for, and how it is left without harm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.screens.elect.state import Phase
from breakglass.screens.widgets.consent import Cancel, ConsentField
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.succession import Circumstances
from tests.kit.incidents import every_verdict
from tests.screens.consoles import watch_of
from tests.screens.drawing import Look
from tests.screens.elect.conftest import Electing
from tests.screens.elect.test_looks import opened
from tests.screens.turns import lines


async def test_price_and_evidence_are_shown_and_enter_at_once_leaves(electing: Electing) -> None:
    (partition,) = electing.session.offline()
    async with electing.asked(partition) as screen:
        await screen.shows("Elect b1 for orders-0", "0 to 100 HW 100", "0 to 70 HW 70")
        assert screen.phrase.startswith("orders-0 lose 0")
        assert isinstance(screen.console.focused, Cancel)
        assert "> [ Cancel ]" in screen.text
        await screen.press("enter")
        await screen.is_left()
    async with electing.asked(partition) as screen:
        await screen.press("tab")
        assert isinstance(screen.console.focused, ConsentField)
        await screen.press("escape")
        await screen.is_left()
    assert electing.sent_nothing


async def test_a_phrase_that_is_begun_without_tab_is_typed_and_means_nothing_else(
    electing: Electing,
) -> None:
    """Its letters would quit, leave out, switch the rescue off or show another screen."""
    electing.session.offline("qxrou-1:?")
    async with electing.asked() as screen:
        await screen.press("question_mark")
        await screen.shows("Leave out the partition")
        await screen.press("escape")
        await screen.comes_to(Phase.REVIEW)
        await screen.press(*"qxrou-1")
        await screen.shows("> qxrou-1")
        assert isinstance(screen.console.focused, ConsentField)
        assert not screen.page.state.rescue.without


async def test_what_stands_alone_asks_for_its_own_phrase_or_is_left_out(electing: Electing) -> None:
    first, *_ = electing.session.offline(count=3)
    electing.session.offline("__consumer_offsets")
    electing.cluster.hold(2, first, (0, 100), (4, 0), (5, 0))
    async with electing.asked() as screen:
        await screen.shows("Elect 4 partitions", "1 of 2", "! own phrase")
        assert screen.phrase.startswith("__consumer_offsets-0 lose 0")
        await screen.type_phrase()
        await screen.press("enter")
        await screen.shows("2 of 2")
        assert screen.phrase.startswith("3 partitions lose 0")
    async with electing.asked() as screen:
        await screen.shows("1 of 2")
        await screen.press("ctrl+o")
        await screen.until(lambda: screen.phrase.startswith("3 partitions lose 0"), "the others")
    assert electing.steps == [], "not before the last one"


async def test_what_is_not_elected_is_listed_and_without_the_rest_there_is_only_the_way_back(
    electing: Electing,
) -> None:
    fork = electing.fork("ledger", committed=True)
    electing.session.offline()
    gone = TopicPartition("orders", 9)
    async with electing.asked() as screen:
        await screen.shows("Elect b1 for orders-0", "ledger-0: FORK decide", "- left out")
    for alone, words in ((fork, "Nothing is left to elect."), (gone, "orders-9: ")):
        async with electing.asked(alone) as screen:
            await screen.shows(words, "> [ Back ]")
            assert not screen.page.query_one(ConsentField).display
    assert electing.steps == []


async def test_a_start_that_would_spare_the_election_is_shown(electing: Electing) -> None:
    electing.session.offline(count=2)
    async with electing.asked(gone=()) as screen:
        await screen.shows("if you reconnect b3", "or reconnect b3")


async def test_read_only_shows_everything_and_takes_no_phrase(electing: Electing) -> None:
    electing.session.offline(count=2)
    async with electing.asked(write=False) as screen:
        await screen.shows("Elect 2 partitions", "--write", "> [ Back ]")
        assert not screen.page.query_one(ConsentField).display
        await screen.press("tab", *"2 partitions lose 0 and abandon b3", "enter")
        await screen.press("enter")
    assert electing.sent_nothing


async def test_arrows_show_other_partitions_and_ctrl_x_leaves_the_one_under_the_cursor_out(
    electing: Electing,
) -> None:
    _, second, _ = electing.session.offline(count=3)
    electing.cluster.hold(2, second, (0, 33))
    async with electing.asked() as screen:
        for keys, end in ((["down"], 33), (["tab", "up"], 70), (["down"], 33)):
            await screen.press(*keys)
            await screen.shows(f"b2 stale 0 to {end}")
        await screen.press("ctrl+x")
        await screen.shows("Left out: orders-1")
        assert screen.phrase.startswith("2 partitions lose 0")


async def test_ctrl_t_switches_the_rescue_off_and_on_and_its_size_and_place_are_shown(
    electing: Electing,
) -> None:
    electing.fork()
    async with electing.asked() as screen:
        await screen.shows("Rescue first: on: 50")
        assert str(electing.session.state / "rescue") in screen.text.replace(" ", "")
        await screen.press("ctrl+t")
        await screen.shows("Rescue first: OFF: 50")
        await screen.press("ctrl+t")
        await screen.shows("Rescue first: on")


@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
async def test_cancel_and_the_phrase_are_seen_in_every_size(
    electing: Electing, size: tuple[int, int]
) -> None:
    electing.session.offline(count=30)
    electing.session.offline("__consumer_offsets")
    async with electing.asked(size=size) as screen:
        await screen.shows("> [ Cancel ]", "__consumer_offsets-0 lose 0")
        await screen.press("tab", "_")
        await screen.shows("> _")
        assert lines(screen.console)[-1].endswith("? help")


async def test_hostile_names_are_inert_and_can_be_typed(electing: Electing) -> None:
    electing.session.offline("x\x1b[31m[red]y\u202e")
    async with electing.asked() as screen:
        await screen.shows("x\\x1b[31m[red]y\\u202e-0 lose 0")
        assert "\x1b" not in screen.text
        await screen.press("tab", *"x\\x1b[31m[red]y\\u202e-0 lose 0 and abandon b3", "enter")
        await screen.comes_to(Phase.DONE)
    assert electing.session.leaders() == {1}


async def test_what_was_not_read_yet_is_read_when_its_election_is_asked_for(
    electing: Electing,
) -> None:
    """The key is pressed as soon as the list comes up, before any broker has answered."""
    electing.session.offline(count=2)
    console, incident = electing.console(), electing.incident(3)
    watch_of(console).readings = [unread(incident)]
    async with electing.asked(console=console) as screen:
        await screen.shows("Elect 2 partitions")


async def test_partitions_of_one_cluster_are_never_elected_in_another(electing: Electing) -> None:
    """A tunnel leads elsewhere by now, where there are partitions of the same names."""
    electing.session.offline(count=2)
    console, incident = electing.console(), electing.incident(3)
    elsewhere = replace(incident.snapshot.description, cluster_id="prod-eu-1")
    snapshot = replace(incident.snapshot, description=elsewhere)
    watch_of(console).readings = [unread(replace(incident, snapshot=snapshot))]
    async with electing.asked(console=console) as screen:
        await screen.shows("cluster fake-cluster now")
        assert screen.page.state.next_asked is None


def unread(incident: Incident) -> Incident:
    """The same before any replica was read."""
    rows = tuple(IncidentRow(row.state) for row in incident.rows)
    return Incident(incident.snapshot, Circumstances(incident.snapshot.quorum), rows)


async def test_a_terminal_too_small_to_show_what_is_elected_is_asked_for_no_phrase(
    electing: Electing,
) -> None:
    electing.session.offline()
    async with electing.asked(size=(40, 10)) as screen:
        phrase = screen.phrase
        await screen.shows("too small")
        assert phrase not in screen.text
        await screen.press(*"orders")
        assert "rders" not in screen.text.replace("orders-0", "")
        await screen.pilot.resize_terminal(80, 24)
        await screen.shows(phrase)
        await screen.type_phrase()
        await screen.pilot.resize_terminal(40, 10)
        await screen.shows("too small")
        await screen.press("tab", "enter")
        assert electing.steps == []


@pytest.mark.usefixtures("bare_pages")
@pytest.mark.parametrize("width", [40, pytest.param(60, marks=pytest.mark.slow), 80])
async def test_in_every_size_a_phrase_is_asked_for_only_beside_who_is_elected(width: int) -> None:
    asked = set()
    async with opened(every_verdict(), Look("breakglass-dark", (width, 24))) as screen:
        for height in range(9, 25):
            await screen.pilot.resize_terminal(width, height)
            await screen.settles()
            if screen.page.phrase is None:
                assert "too small" in screen.text
                continue
            asked.add(height)
            assert screen.page.phrase in screen.text
            shown = lines(screen.console)
            header = next(place for place, line in enumerate(shown) if "  Elect  " in line)
            assert shown[header + 1].startswith(">")
            assert " b1 " in shown[header + 1]
    assert asked == set(range(min(asked), 25))
