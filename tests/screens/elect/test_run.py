"""After consent: read again, run once, told live, and what is left to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from kafka.protocol.consumer import FetchRequest

from breakglass.screens.elect.page import GuardedPage
from breakglass.screens.elect.screen import ElectScreen, ResumeScreen
from breakglass.screens.elect.state import Phase
from breakglass.screens.messages import ElectionAsked
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.guard.lock import ClusterLock
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts import elect
from breakglass.services.recovery.execution.routes import plain_unclean_route
from breakglass.services.recovery.execution.run import Recovery
from tests.kit.fake_broker import Reply
from tests.kit.fake_controller import Answer, after, failing, unanswered, unheard
from tests.kit.fake_metadata import CLUSTER_ID
from tests.screens.elect.conftest import Electing, Screen
from tests.screens.turns import until
from tests.unit.kafka.replicas.held_log import HeldLog
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run

INVALID_REQUEST, STORAGE_ERROR = 42, 56


class Gate:
    """Holds an election up until it is opened; for looking at the screen meanwhile."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def act(self, request: Any, answer: Answer) -> Reply:
        self.reached.set()
        assert self.opened.wait(20)
        return answer(request)


def gated(electing: Electing) -> Gate:
    gate = Gate()
    electing.session.controller.next(ElectLeadersRequest, gate.act)
    return gate


async def elected(screen: Screen) -> None:
    await screen.agree()
    await screen.comes_to(Phase.DONE)


async def test_the_typed_phrase_elects_and_the_ladder_is_told(electing: Electing) -> None:
    electing.session.offline(count=3)
    async with electing.asked() as screen:
        await elected(screen)
        await screen.shows("Done: 3 writable.")
        await screen.shows("■■■■· writable")
        await screen.shows("b1 leads in epoch 6; acks=all is accepted")
        await screen.shows("Journal: ")
        await screen.shows(
            "Do not start b3 before its log folder is copied: breakglass rescue --source log:DIR "
            "(3 partitions would be cut); breakglass return --source log:DIR says when it is safe."
        )
    assert electing.session.leaders() == {1}
    (journal,) = electing.session.journals()
    assert journal.result == "succeeded"
    assert journal.consent is not None
    assert journal.consent.payload["phrase"] == "3 partitions lose 0 and abandon b3"


async def test_an_election_takes_twelve_keys_at_most_beside_the_phrase(electing: Electing) -> None:
    electing.session.offline(count=3)
    keys = 1
    """The key that asks for it on the list."""
    async with electing.asked() as screen:
        await screen.type_phrase()
        keys += 1
        await screen.press("enter")
        keys += 1
        await screen.comes_to(Phase.DONE)
    assert electing.session.leaders() == {1}
    assert keys <= 12


async def test_enter_twice_is_one_election(electing: Electing) -> None:
    electing.session.offline()
    gate = gated(electing)
    async with electing.asked() as screen:
        await screen.type_phrase()
        await screen.press("enter", "enter", "enter")
        await screen.until(gate.reached.is_set, "the election")
        await screen.press("enter", "tab", "enter")
        gate.opened.set()
        await screen.comes_to(Phase.DONE)
        await screen.press("enter")
    assert electing.steps.count("elect") == 1
    assert len(electing.session.journals()) == 1


async def test_another_text_never_runs(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await screen.press("tab", *"orders-0 lose 1", "enter")
        await screen.shows("That is not the phrase: nothing was done.")
        await screen.press("escape")
        await screen.press(*"orders-0 lose ", "enter")
        await screen.shows("That is not the phrase: nothing was done.")
        assert screen.phase is Phase.REVIEW
    assert (electing.steps, electing.results) == ([], [])


async def test_pasting_is_refused_with_a_sentence(electing: Electing) -> None:
    from textual.events import Paste

    electing.session.offline()
    async with electing.asked() as screen:
        await screen.press("tab")
        screen.console.post_message(Paste("orders-0 lose 0"))
        await screen.shows("Pasting is refused here: read the phrase, then type it.")
        await screen.press("enter")
        await screen.shows("That is not the phrase")
    assert electing.steps == []


async def test_evidence_that_changed_since_is_refused_and_told(electing: Electing) -> None:
    _, second = electing.session.offline(count=2)
    async with electing.asked() as screen:
        electing.cluster.hold(2, second, (0, 100), (1, 30)).high_watermark = 100
        serve_records(electing, 2, second, 130)
        await screen.agree()
        await screen.shows("1 partition changed since you agreed: nothing was sent.")
        await screen.shows("orders-1: the log end of b2 was 70 and is 130")
        assert (electing.steps, electing.results) == ([], ["nothing done"])
        await screen.shows("> [ Cancel ]")
        assert screen.phrase == "2 partitions lose 30 and abandon b3"
        await elected(screen)
    assert electing.session.leaders() == {1}


async def test_a_deleted_topic_leaves_nothing_to_consent_to(electing: Electing) -> None:
    (partition,) = electing.session.offline()
    async with electing.asked() as screen:
        del electing.cluster.story.states[partition]
        await screen.agree()
        await screen.shows("1 partition changed since you agreed: nothing was sent.")
        await screen.shows("> [ Back ]")
    assert electing.steps == []


async def test_refresh_is_paused_and_ctrl_z_off_while_it_runs(electing: Electing) -> None:
    electing.session.offline()
    gate = gated(electing)
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the election")
        known, console = screen.console.context.known, screen.console
        await screen.until(lambda: known.paused, "the pause")
        await screen.shows("refresh paused")
        assert console.check_action("suspend_process", ()) is None
        gate.opened.set()
        await screen.comes_to(Phase.DONE)
        await screen.until(lambda: not known.paused, "refreshing again")
        assert console.check_action("suspend_process", ()) is True


async def test_escape_never_leaves_what_runs(electing: Electing) -> None:
    electing.session.offline()
    gate = gated(electing)
    async with electing.asked() as screen:
        await screen.agree()
        await screen.comes_to(Phase.RUNNING)
        await screen.press("escape", "left_square_bracket", "A")
        await screen.shows("Still running: s stops it after the current batch.")
        gate.opened.set()
        await screen.comes_to(Phase.DONE)
        await screen.press("escape")
        await screen.until(lambda: screen.phase is None, "the screen before")
    assert electing.session.leaders() == {1}


async def test_s_stops_after_the_batch_and_r_takes_the_journal_up(electing: Electing) -> None:
    electing.session.offline(count=3)
    gate = gated(electing)
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the canary")
        await screen.press("s")
        await screen.shows("Stopping: the current batch is finished and journaled.")
        gate.opened.set()
        await screen.comes_to(Phase.DONE)
        await screen.shows("Stopped: ")
        await screen.shows("2 partitions not attempted: r resumes the journal.")
        (journal,) = electing.session.journals()
        assert journal.result is None
        await screen.press("r")
        await screen.until(lambda: isinstance(screen.page, ResumeScreen), "the resume")
        await screen.comes_to(Phase.REVIEW)
        await screen.shows("interrupted")
        assert screen.phrase == "2 partitions lose 0 and abandon b3"
        await elected(screen)
    assert electing.session.leaders() == {1}
    (journal,) = electing.session.journals()
    assert journal.result == "succeeded"


async def test_quitting_finishes_the_request_and_begins_nothing_new(electing: Electing) -> None:
    electing.session.offline(count=3)
    gate = gated(electing)
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the canary")
        await screen.press("q")
        await screen.until(screen.console.context.stopping.is_set, "the wish")
        assert screen.console.is_running
        gate.opened.set()
        await screen.until(lambda: not screen.console.is_running, "the end")
    (journal,) = electing.session.journals()
    assert journal.result is None
    assert [step.name for step in journal.unsettled] == []
    led = [state.leader for state in electing.cluster.story.states.values()]
    assert sorted(led, key=str) == [1, None, None]


async def test_a_stop_during_the_rescue_leaves_a_journal_to_be_taken_up(
    electing: Electing,
) -> None:
    (partition,) = electing.session.offline()
    electing.cluster.hold(1, partition, (0, 100), (2, 25)).high_watermark = 100
    electing.cluster.hold(2, partition, (0, 100), (1, 50)).high_watermark = 100
    held = serve_records(electing, 2, partition, 150)
    gate = Gate()

    def wait() -> Reply:
        return gate.act(None, lambda _: held.answer(STORAGE_ERROR))

    held.mishaps.append(wait)
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the rescue")
        await screen.press("s")
        gate.opened.set()
        await screen.comes_to(Phase.DONE)
        await screen.shows("Stopped: ")
    (journal,) = electing.session.journals()
    assert journal.result is None
    assert electing.steps == []


async def test_what_breaks_off_is_not_called_done(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    electing.session.offline(count=3)

    def break_off(*_: object) -> NoReturn:
        raise KeyError("something nobody thought of")

    monkeypatch.setattr(Recovery, "_finish", break_off)
    async with electing.asked() as screen:
        await elected(screen)
        await screen.shows("Interrupted: 3 without an answer: the journal has what was sent.")
        await screen.shows("this step ended unexpectedly (KeyError")
        await screen.press("r")
        await screen.until(lambda: isinstance(screen.page, ResumeScreen), "the resume")


async def test_asked_for_twice_it_is_shown_once(electing: Electing) -> None:
    (partition,) = electing.session.offline()
    async with electing.asked() as screen:
        screen.console.post_message(ElectionAsked([partition]))
        await screen.settles()
        assert [type(one) for one in screen.console.screen_stack].count(ElectScreen) == 1


async def test_escape_gives_up_while_it_is_read_again(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        electing.cluster.story.fenced = set()
        electing.cluster.brokers[3].hung = True
        await screen.agree()
        await screen.comes_to(Phase.REREADING)
        await screen.press("escape")
        await screen.shows("Cancelled: nothing was sent.")
        assert screen.phase is Phase.REVIEW
    assert (electing.steps, electing.results) == ([], ["nothing done"])


async def test_somebody_else_at_work_is_told_and_nothing_is_sent(electing: Electing) -> None:
    electing.session.offline()
    lock = ClusterLock.acquire(CLUSTER_ID, electing.session.state / "locks")
    try:
        async with electing.asked() as screen:
            await screen.agree()
            await screen.shows("has been changing cluster fake-cluster")
            assert screen.phase is Phase.REVIEW
            assert not screen.console.context.known.paused
    finally:
        lock.release()
    assert electing.steps == []


async def test_a_cluster_that_cannot_be_reached_is_told(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        for broker in electing.cluster.brokers.values():
            broker.stop()
        await screen.agree()
        await screen.until(lambda: screen.page.state.note, "why")
        assert screen.phase is Phase.REVIEW


async def test_partitions_climb_live(electing: Electing) -> None:
    first, second = electing.session.offline(count=2)
    async with electing.asked() as screen:
        await elected(screen)
        await screen.shows("2 writable")

        def in_sync(partition: TopicPartition) -> None:
            state = electing.cluster.story.states[partition]
            electing.cluster.story.states[partition] = replace(state, isr=(1, 2))

        in_sync(second)
        await screen.shows("Done: 1 writable, 1 redundant.")
        await screen.shows("■■■■■ redundant")
        in_sync(first)
        await screen.shows("Done: 2 redundant.")


async def test_u_asks_again_about_the_unknown_and_elects_nothing(electing: Electing) -> None:
    electing.session.offline()

    def hang(request: Any, answer: Answer) -> Reply:
        electing.cluster.brokers[1].hung = True
        return unanswered(request, answer)

    electing.session.controller.next(ElectLeadersRequest, hang)
    async with electing.asked() as screen:
        await elected(screen)
        await screen.shows("? unknown")
        await screen.shows("u asks the cluster again and elects nothing.")
        electing.cluster.brokers[1].hung = False
        sent = list(electing.steps)
        await screen.press("u")
        await screen.shows("Asked again: 1 elect elected.")
        await screen.shows("Done: 1 writable.")
        assert "unknown" not in screen.text
        assert electing.steps == sent
    assert electing.session.journals()[0].unsettled == ()


async def test_what_asking_again_finds_not_elected_can_be_resumed(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no order was written that would have to be put back."""
    monkeypatch.setattr(elect, "route_for", lambda _: plain_unclean_route)
    electing.session.offline()

    def hang(request: Any, answer: Answer) -> Reply:
        electing.cluster.brokers[1].hung = True
        return unheard(request, answer)

    electing.session.controller.next(ElectLeadersRequest, hang)
    async with electing.asked() as screen:
        await elected(screen)
        await screen.shows("? unknown")
        electing.cluster.brokers[1].hung = False
        await screen.press("u")
        await screen.shows("1 partition left to finish: r resumes.")
        await screen.press("r")
        await screen.until(lambda: isinstance(screen.page, ResumeScreen), "the resume")


async def test_what_failed_comes_first_with_its_reason(electing: Electing) -> None:
    electing.session.offline(count=3)
    answered: list[Callable[..., Reply]] = [failing(INVALID_REQUEST)]

    def second_fails(request: Any, answer: Answer) -> Reply:
        return answered.pop()(request, answer)

    electing.session.controller.next(ElectLeadersRequest, after(lambda: None), second_fails)
    async with electing.asked() as screen:
        await elected(screen)
        await screen.shows("x failed")
        await screen.shows("2 partitions failed: orders-1: ")
        table = screen.page.query_one("#partitions", LineTable)
        assert [str(row.partition) for row in table.rows] == ["orders-1", "orders-2", "orders-0"]


def serve_records(electing: Electing, broker: int, partition: TopicPartition, end: int) -> HeldLog:
    """Let *broker* tell its records too: epoch 0 up to offset 100, then epoch 1."""
    fake = electing.cluster.brokers[broker]
    told = electing.cluster.apis(broker)[FetchRequest]
    epochs = ((n, 0 if n < 100 else 1) for n in range(0, end, 10))
    held = HeldLog(partition, [batch(run(n, n + 10), epoch=epoch) for n, epoch in epochs])

    def fetch(request: Any) -> Any:
        asks_for_epochs = request.topics[0].partitions[0].last_fetched_epoch >= 0
        return told(request) if asks_for_epochs else held.fetch(request)

    fake.serve(FetchRequest, fetch)
    return held


async def test_what_is_cut_off_is_saved_first(electing: Electing) -> None:
    (partition,) = electing.session.offline()
    electing.cluster.hold(1, partition, (0, 100), (2, 25)).high_watermark = 100
    electing.cluster.hold(2, partition, (0, 100), (1, 50)).high_watermark = 100
    serve_records(electing, 2, partition, 150)
    async with electing.asked() as screen:
        await screen.shows("Rescue first: on: 50 records")
        assert screen.phrase == "orders-0 lose 50 and abandon b3"
        await elected(screen)
        await screen.shows("Rescued 50 records; read them with: breakglass backup cat")
    assert any((electing.session.state / "rescue").rglob("b2/orders"))


async def test_what_cannot_be_saved_is_not_elected(electing: Electing) -> None:
    (partition,) = electing.session.offline()
    electing.cluster.hold(1, partition, (0, 100), (2, 25)).high_watermark = 100
    electing.cluster.hold(2, partition, (0, 100), (1, 50)).high_watermark = 100
    held = serve_records(electing, 2, partition, 150)
    held.mishaps += [lambda: held.answer(STORAGE_ERROR)] * 20
    async with electing.asked() as screen:
        await elected(screen)
        await screen.shows("! refused")
        await screen.shows("1 partition refused by a guard: orders-0: not rescued")
    assert electing.steps == []


async def test_without_rescue_it_is_lost_and_elected(electing: Electing) -> None:
    (partition,) = electing.session.offline()
    electing.cluster.hold(1, partition, (0, 100), (2, 25)).high_watermark = 100
    electing.cluster.hold(2, partition, (0, 100), (1, 50)).high_watermark = 100
    async with electing.asked() as screen:
        await screen.press("ctrl+t")
        await screen.shows("Rescue first: OFF")
        await elected(screen)
    assert electing.session.leaders() == {1}


async def test_c_copies_the_path_of_the_journal(electing: Electing) -> None:
    electing.session.offline()
    async with electing.asked() as screen:
        await elected(screen)
        await screen.press("c")
        await screen.until(lambda: screen.console.clipboard, "the copy")
        (journal,) = electing.session.journals()
        assert screen.console.clipboard == str(journal.path)


async def test_r19_groups_past_the_end_are_told_afterwards(electing: Electing) -> None:
    (partition,) = electing.session.offline()
    electing.cluster.story.groups["billing"] = {partition: 130}
    async with electing.asked() as screen:
        await elected(screen)
        await screen.shows("Group billing committed 130 on orders-0, whose log ends at 100")


async def test_another_screen_may_be_looked_at_meanwhile(electing: Electing) -> None:
    electing.session.offline()
    gate = gated(electing)
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the election")
        await screen.press("1")
        await screen.until(lambda: screen.console.current_mode == "overview", "the overview")
        gate.opened.set()
        await screen.press("2")
        await until(screen.pilot, lambda: isinstance(screen.page, GuardedPage), "it again")
        await screen.comes_to(Phase.DONE)
        await screen.shows("Done: 1 writable.")


async def test_a_thousand_partitions_are_elected_by_one_phrase(electing: Electing) -> None:
    electing.session.offline(count=1_000)
    async with electing.asked() as screen:
        await screen.shows("Elect 1,000 partitions: loses 0 records")
        await screen.agree()
        await screen.comes_to(Phase.DONE)
        await screen.shows("Done: 1,000 writable.")
    assert electing.session.leaders() == {1}
    assert electing.session.controller.partitions[1::3] == [1, 10, 989]
