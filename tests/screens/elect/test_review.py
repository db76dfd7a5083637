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


async def test_targets_price_and_evidence_are_shown_and_cancel_is_focused(
    electing: Electing,
) -> None:
    (partition,) = electing.session.offline()
    async with electing.asked(partition) as screen:
        await screen.shows("Elect b1 for orders-0: loses 0 records, b3 unread.")
        await screen.shows("Type to confirm: orders-0 lose 0")
        await screen.shows("b1 stale 0 to 100 HW 100 epochs 0 is elected")
        await screen.shows("b2 stale 0 to 70 HW 70 epochs 0 adds nothing to b1")
        assert isinstance(screen.console.focused, Cancel)
        assert "> [ Cancel ]" in screen.text


async def test_enter_at_once_leaves_and_nothing_is_sent(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await screen.press("enter")
        await screen.until(lambda: screen.phase is None, "the screen before")
    assert (electing.steps, electing.session.journals()) == ([], [])


async def test_escape_leaves(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await screen.press("escape")
        await screen.until(lambda: screen.phase is None, "the screen before")


async def test_a_phrase_that_is_begun_without_tab_is_typed_and_means_nothing_else(
    electing: Electing,
) -> None:
    """Its letters would quit, leave out, switch the rescue off or show another screen."""
    electing.session.offline("qxrou-1:?")
    async with electing.asked() as screen:
        await screen.press(*"qxrou-1")
        await screen.shows("> qxrou-1")
        assert isinstance(screen.console.focused, ConsentField)
        assert screen.phase is Phase.REVIEW
        assert not screen.page.state.rescue.without


async def test_help_is_never_taken_for_a_phrase(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await screen.press("question_mark")
        await screen.shows("Leave out the partition under the cursor")
        await screen.press("escape")
        await screen.until(lambda: screen.phase is Phase.REVIEW, "the election again")


async def test_tab_goes_to_the_phrase(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await screen.press("tab")
        assert isinstance(screen.console.focused, ConsentField)
        await screen.shows("> type it here")


async def test_the_loss_of_all_is_summed_and_what_stands_alone_asks_for_its_own_phrase(
    electing: Electing,
) -> None:
    first, *_ = electing.session.offline(count=3)
    electing.session.offline("__consumer_offsets")
    electing.cluster.hold(2, first, (0, 100), (4, 0), (5, 0))
    async with electing.asked() as screen:
        await screen.shows("Elect 4 partitions: loses 0 records")
        await screen.shows("1 of 2: this partition needs its own consent: it is an internal topic.")
        await screen.shows("Type to confirm: __consumer_offsets-0 lose 0")
        await screen.shows("! own phrase")
        await screen.type_phrase()
        await screen.press("enter")
        await screen.shows("2 of 2: Type to confirm: 3 partitions lose 0")
        assert electing.steps == [], "not before the last one"


async def test_what_is_not_elected_is_listed_with_the_reason(electing: Electing) -> None:
    (fork,) = electing.session.offline("ledger")
    electing.cluster.hold(1, fork, (0, 100), (2, 25))
    electing.cluster.hold(2, fork, (0, 100), (1, 50))
    electing.session.offline()
    async with electing.asked() as screen:
        await screen.shows("Elect b1 for orders-0")
        await screen.shows("Left out: ledger-0: FORK decide: history fork")
        await screen.shows("- left out")


async def test_nothing_that_can_be_elected_leaves_only_the_way_back(electing: Electing) -> None:
    (fork,) = electing.session.offline("ledger")
    electing.cluster.hold(1, fork, (0, 100), (2, 25))
    electing.cluster.hold(2, fork, (0, 100), (1, 50))
    async with electing.asked() as screen:
        await screen.shows("Nothing is left to elect.")
        await screen.shows("> [ Back ]")
        assert not screen.page.query_one(ConsentField).display


async def test_a_start_that_would_spare_the_election_is_told(electing: Electing) -> None:
    electing.session.offline(count=2)
    async with electing.asked(gone=()) as screen:
        await screen.shows("2 of them need no election if you reconnect b3.")
        await screen.shows("or reconnect b3")


async def test_read_only_shows_everything_and_says_how_to_begin_again(electing: Electing) -> None:
    electing.session.offline(count=2)
    async with electing.asked(write=False) as screen:
        await screen.shows("Elect 2 partitions: loses 0 records")
        await screen.shows(
            "Electing leaders changes the cluster and this session is read-only: start again with "
            "--write."
        )
        await screen.shows("> [ Back ]")
        assert not screen.page.query_one(ConsentField).display
        await screen.press("tab", *"2 partitions lose 0 and abandon b3", "enter")
        await screen.press("enter")
    assert (electing.steps, electing.session.journals()) == ([], [])


async def test_ctrl_x_leaves_the_partition_under_the_cursor_out_and_the_phrase_follows(
    electing: Electing,
) -> None:
    electing.session.offline(count=3)
    async with electing.asked() as screen:
        await screen.press("down", "ctrl+x")
        await screen.shows("Type to confirm: 2 partitions lose 0")
        await screen.shows("Left out: orders-1: left out by you.")
        assert isinstance(screen.console.focused, Cancel)


async def test_ctrl_o_leaves_out_all_that_need_a_phrase_of_their_own(electing: Electing) -> None:
    electing.session.offline(count=2)
    electing.session.offline("__consumer_offsets", 2)
    async with electing.asked() as screen:
        await screen.shows("1 of 3")
        await screen.press("ctrl+o")
        await screen.shows("Type to confirm: 2 partitions lose 0")


async def test_arrows_show_the_evidence_of_other_partitions_whatever_is_focused(
    electing: Electing,
) -> None:
    _, second = electing.session.offline(count=2)
    electing.cluster.hold(2, second, (0, 33))
    async with electing.asked() as screen:
        await screen.press("down")
        await screen.shows("b2 stale 0 to 33")
        await screen.press("tab", "up")
        await screen.shows("b2 stale 0 to 70")
        await screen.press("pagedown")
        await screen.shows("b2 stale 0 to 33")
        await screen.press("pageup")
        await screen.shows("b2 stale 0 to 70")


async def test_ctrl_t_switches_the_rescue_off_and_on_and_its_size_and_place_are_shown(
    electing: Electing,
) -> None:
    (partition,) = electing.session.offline()
    electing.cluster.hold(1, partition, (0, 100), (2, 25)).high_watermark = 100
    electing.cluster.hold(2, partition, (0, 100), (1, 50)).high_watermark = 100
    async with electing.asked() as screen:
        await screen.shows("Elect b1 for orders-0: loses 50 records")
        await screen.shows("Rescue first: on: 50 records")
        assert str(electing.session.state / "rescue") in screen.text.replace(" ", "")
        await screen.press("ctrl+t")
        await screen.shows("Rescue first: OFF: 50 records are cut off and not saved.")
        await screen.press("ctrl+t")
        await screen.shows("Rescue first: on")


async def test_ctrl_r_reads_it_anew(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        attempts = screen.page._worker.number
        await screen.press("ctrl+r")
        await screen.until(lambda: screen.page._worker.number > attempts, "another reading")
        await screen.comes_to(Phase.REVIEW)


async def test_a_partition_that_is_online_again_cannot_be_elected(electing: Electing) -> None:
    electing.session.offline()
    gone = TopicPartition("orders", 9)
    async with electing.asked(gone) as screen:
        await screen.shows("orders-9: it is not offline any more, or was not read yet")
    assert electing.steps == []


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (120, 40)])
async def test_cancel_and_the_phrase_are_seen_in_every_size(
    electing: Electing, size: tuple[int, int]
) -> None:
    electing.session.offline(count=30)
    electing.session.offline("__consumer_offsets")
    async with electing.asked(size=size) as screen:
        await screen.shows("> [ Cancel ]")
        await screen.shows("Type to confirm: __consumer_offsets-0 lose 0")
        await screen.press("tab", "_")
        await screen.shows("> _")
        assert lines(screen.console)[-1].endswith("? help")


async def test_hostile_names_are_inert(electing: Electing) -> None:
    hostile = "x\x1b[31m[red]y\u202e"
    electing.session.offline(hostile)
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
    console = electing.console()
    watch = watch_of(console)
    states = [row.state for row in electing.incident(3).rows]
    snapshot = electing.incident(3).snapshot
    watch.readings = [
        Incident(snapshot, Circumstances(snapshot.quorum), tuple(map(IncidentRow, states)))
    ]
    async with electing.asked(console=console) as screen:
        await screen.shows("Elect 2 partitions: loses 0 records")


async def test_partitions_of_one_cluster_are_never_elected_in_another(
    electing: Electing,
) -> None:
    """A tunnel leads elsewhere by now, where there are partitions of the same names."""
    electing.session.offline(count=2)
    console = electing.console()
    snapshot = electing.incident(3).snapshot
    elsewhere = replace(snapshot.description, cluster_id="prod-eu-1")
    unread = [IncidentRow(row.state) for row in electing.incident(3).rows]
    watch_of(console).readings = [
        Incident(
            replace(snapshot, description=elsewhere), Circumstances(snapshot.quorum), tuple(unread)
        )
    ]
    async with electing.asked(console=console) as screen:
        await screen.shows("these addresses lead to cluster fake-cluster now, and prod-eu-1 was")
        assert screen.page.state.next_asked is None


async def test_a_terminal_too_small_to_show_what_is_elected_is_asked_for_no_phrase(
    electing: Electing,
) -> None:
    electing.session.offline()
    async with electing.asked(size=(40, 10)) as screen:
        phrase = screen.phrase
        await screen.shows("too small to show what is elected: enlarge it to 80x24")
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
@pytest.mark.parametrize("width", [40, 50, 60, 80])
async def test_in_every_size_a_phrase_is_asked_for_only_beside_who_is_elected(width: int) -> None:
    asked = set()
    look = Look("breakglass-dark", (width, 24))
    async with opened(every_verdict(), look) as screen:
        for height in range(9, 25):
            await screen.pilot.resize_terminal(width, height)
            await screen.settles()
            if screen.page.phrase is None:
                assert "too small to show what is elected" in screen.text
                continue
            asked.add(height)
            assert screen.page.phrase in screen.text
            shown = lines(screen.console)
            header = next(place for place, line in enumerate(shown) if "  Elect  " in line)
            assert shown[header + 1].startswith(">")
            assert " b1 " in shown[header + 1]
    assert asked == set(range(min(asked), 25))
