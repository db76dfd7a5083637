"""Before consent: what is shown, of a plan too, what is asked for, what is left out, and how it is
left without harm.
"""

import threading
from collections.abc import Collection
from dataclasses import replace

import pytest

from breakglass.screens.elect.state import Phase
from breakglass.screens.widgets.consent import Cancel, ConsentField
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.guarded.subject import ElectionSubject
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.plan.edit import approve, set_leader
from breakglass.services.recovery.plan.make import make_plan
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.incidents import every_verdict
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.consoles import watch_of
from tests.screens.drawing import Look
from tests.screens.elect.conftest import Electing
from tests.screens.elect.test_looks import opened
from tests.screens.turns import lines


async def test_price_evidence_and_rescue_of_one_partition_are_shown_and_it_is_left_without_harm(
    electing: Electing,
) -> None:
    (orders,) = electing.session.offline()
    (lettered,) = electing.session.offline("qxrou-1")
    (option,) = electing.session.offline("--write")
    diverged = electing.fork("parted")
    fork = electing.fork("ledger", committed=True)
    async with electing.asked(orders) as screen:
        await screen.shows("Elect b1 for orders-0", "0 to 100 HW 100", "0 to 70 HW 70")
        assert screen.phrase.startswith("orders-0 lose 0")
        assert isinstance(screen.console.focused, Cancel)
        assert "> [ Cancel ]" in screen.text
        await screen.press("enter")
        await screen.is_left()

        await screen.asks(orders)
        await screen.press("tab")
        assert isinstance(screen.console.focused, ConsentField)
        await screen.press("escape")
        await screen.is_left()

        await screen.asks(orders, fork)
        await screen.shows("Elect b1 for orders-0", "ledger-0: FORK decide", "- left out")
        gone = TopicPartition("orders", 9)
        for alone, words in ((fork, "Nothing is left to elect."), (gone, "orders-9: ")):
            await screen.asks(alone)
            await screen.shows(words, "> [ Back ]")
            assert not screen.page.query_one(ConsentField).display

        await screen.asks(diverged)
        await screen.shows("Rescue first: on: 50")
        assert str(electing.session.state / "rescue") in screen.text.replace(" ", "")
        await screen.press("ctrl+t")
        await screen.shows("Rescue first: OFF: 50")
        await screen.press("ctrl+t")
        await screen.shows("Rescue first: on")

        await screen.asks(lettered)
        await screen.press("question_mark")
        await screen.shows("Leave out the partition")
        await screen.press("escape")
        await screen.comes_to(Phase.REVIEW)
        await screen.press(*"qxrou-1")
        await screen.shows("> qxrou-1")
        assert isinstance(screen.console.focused, ConsentField), "no letter means anything else"
        assert not screen.page.state.rescue.without
        await screen.press("escape")
        assert electing.sent_nothing

        await screen.asks(option)
        await screen.shows("--write-0 lose 0")
        await screen.press("tab", *"--write-0 lose 0 and abandon b3", "enter")
        await screen.comes_to(Phase.DONE)
    assert electing.cluster.story.states[option].leader == 1


async def test_what_stands_alone_asks_for_its_own_phrase_and_any_is_left_out_or_looked_at_by_keys(
    electing: Electing,
) -> None:
    first, second, _ = electing.session.offline(count=3)
    electing.session.offline("__consumer_offsets")
    electing.cluster.hold(2, first, (0, 100), (4, 0), (5, 0))
    electing.cluster.hold(2, second, (0, 33))
    async with electing.asked() as screen:
        everything = [row.partition for row in screen.console.context.known.incident.rows]  # type: ignore[union-attr]
        await screen.shows("Elect 4 partitions", "1 of 2", "! own phrase")
        assert screen.phrase.startswith("__consumer_offsets-0 lose 0")
        await screen.type_phrase()
        await screen.press("enter")
        await screen.shows("2 of 2")
        assert screen.phrase.startswith("3 partitions lose 0")

        await screen.asks(*everything)
        await screen.shows("1 of 2")
        await screen.press("ctrl+o")
        await screen.until(lambda: screen.phrase.startswith("3 partitions lose 0"), "the others")

        await screen.asks(*everything)
        for keys, end in ((["down", "down"], 33), (["tab", "down"], 70), (["up"], 33)):
            await screen.press(*keys)
            await screen.shows(f"b2 stale 0 to {end}")
        await screen.press("ctrl+x")
        await screen.shows("Left out: orders-1")
    assert electing.steps == [], "not before the last one"


async def test_read_only_shows_everything_and_a_start_that_would_spare_it_and_takes_no_phrase(
    electing: Electing,
) -> None:
    electing.session.offline(count=2)
    async with electing.asked(write=False, gone=()) as screen:
        await screen.shows("Elect 2 partitions", "--write", "> [ Back ]")
        await screen.shows("if you reconnect b3", "or reconnect b3")
        assert not screen.page.query_one(ConsentField).display
        await screen.press("tab", *"2 partitions lose 0 and abandon b3", "enter")
        await screen.press("enter")
    assert electing.sent_nothing


async def test_what_was_not_read_yet_is_read_when_its_election_is_asked_for_in_this_cluster_alone(
    electing: Electing,
) -> None:
    """The key may come before any broker has answered, or after a tunnel leads elsewhere."""
    electing.session.offline(count=2)
    console, incident = electing.console(), electing.incident(3)
    rows = tuple(IncidentRow(row.state) for row in incident.rows)
    unread = Incident(incident.snapshot, Circumstances(incident.snapshot.quorum), rows)
    description = replace(incident.snapshot.description, cluster_id="prod-eu-1")
    elsewhere = replace(unread, snapshot=replace(incident.snapshot, description=description))
    watch_of(console).readings = [unread, elsewhere]
    async with electing.asked(console=console) as screen:
        await screen.shows("Elect 2 partitions")
        await screen.press("escape")
        await screen.is_left()
        await screen.press("ctrl+r")
        known = console.context.known
        await screen.until(lambda: known.incident is elsewhere, "the other cluster")
        await screen.asks(*[row.partition for row in rows])
        await screen.shows("cluster fake-cluster now")
        assert screen.page.state.next_asked is None


async def test_a_terminal_too_small_to_show_what_is_elected_is_asked_for_no_phrase(
    electing: Electing,
) -> None:
    electing.session.offline(count=30)
    electing.session.offline("__consumer_offsets")
    async with electing.asked(size=(60, 20)) as screen:
        phrase = screen.phrase
        for size in ((60, 20), (120, 40)):
            await screen.pilot.resize_terminal(*size)
            await screen.shows("> [ Cancel ]", "__consumer_offsets-0 lose 0")
            await screen.press("tab", "_")
            await screen.shows("> _")
            assert lines(screen.console)[-1].endswith("? help")
            await screen.press("backspace", "shift+tab")
        await screen.pilot.resize_terminal(40, 10)
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


async def test_a_plan_is_elected_at_its_price_as_far_as_it_holds_here_and_is_journalled(
    electing: Electing,
) -> None:
    first, second, _ = electing.session.offline(count=3)
    plan = make_plan(electing.incident(3).assessments(), CLUSTER_ID, 1_700_000_000_000)
    by_hand = set_leader(plan, first, 2)
    evidence = plan.breakglass
    assert evidence is not None
    other = Plan(
        entries=(PlanEntry(topic="orders", number=0, leader=1),),
        breakglass=evidence.model_copy(update={"cluster_id": "another"}),
    )
    agreed = approve(approve(plan, "ada", 1), "bob", 2)
    async with electing.asked(plan=by_hand) as screen:
        await screen.shows("orders-0 lose 30")
        await screen.asks(plan=other)
        await screen.shows("for cluster another", "> [ Back ]")
        electing.cluster.hold(1, second, (0, 140))
        await screen.asks(plan=plan)
        await screen.shows("Elect 2 partitions", "was 100 and is 140")
        electing.cluster.hold(1, second, (0, 100))
        await screen.asks(plan=agreed)
        await screen.shows("Elect 3 partitions", plan.spoken_digest, "by ada and bob.")
        await screen.elect()
    (journal,) = [one for one in electing.session.journals() if one.result == "succeeded"]
    assert journal.plan is not None
    assert journal.plan.payload["digest"] == plan.digest
    assert electing.session.leaders() == {1}


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
