"""After consent: read again, run once, shown live; what is left to do, in later sessions too."""

import re
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from textual.events import Paste
from textual.message import Message

from breakglass.console.checkpoint_text import CommandText
from breakglass.screens.context import Context
from breakglass.screens.elect.screen import (
    ElectionPage,
    ElectScreen,
    PickedPartitions,
    ResumeScreen,
)
from breakglass.screens.elect.state import ElectionWorker, Phase, SubjectFrozen, subject_in
from breakglass.screens.elect.unfinished import UnfinishedScreen, unfinished
from breakglass.screens.guard import ActReported, AddReplicasPage, GroupsPage
from breakglass.screens.journal import LedgerScreen
from breakglass.screens.messages import ElectionAsked, Interrupted
from breakglass.screens.terminal import Terminal
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services import patience
from breakglass.services.errors import AlreadyRunning
from breakglass.services.guard.journal import Journal, read
from breakglass.services.guard.lock import ClusterLock
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.wire.messages.kip1275 import ElectLeadersRequest
from breakglass.services.recovery.acts import elect
from breakglass.services.recovery.acts.elect import Elect, OutcomesReported
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.steps import plain_unclean_route
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject
from tests.kit.fake_broker import Reply
from tests.kit.fake_controller import Answer, after, failing, unanswered, unheard
from tests.kit.fake_metadata import CLUSTER_ID
from tests.kit.waiting import wait_until
from tests.screens.consoles import CannedWatch
from tests.screens.elect.conftest import SIZE, Electing, Gate, Screen
from tests.screens.turns import hides, opens, shows, until

INVALID_REQUEST, STORAGE_ERROR = 42, 56


async def test_r19_the_typed_phrase_elects_all_and_shows_the_ladder_and_groups_past_the_end(
    electing: Electing,
) -> None:
    """Three keys beside the phrase: the one on the list that asks for it, Tab, and Enter."""
    first, second, *others = electing.session.offline(count=100)
    story = electing.cluster.story
    story.groups["billing"], story.group_epoch = {first: 130}, 0
    async with electing.asked() as screen:
        await screen.type_phrase()
        await screen.press("enter")
        await screen.comes_to(Phase.DONE)
        await screen.shows("Done: 100 writable.", "■■■■· writable", "in epoch 6", "Do not start b3")
        await screen.shows("Group billing committed 130")
        (journal,) = electing.session.journals()
        await screen.press("c")
        await screen.until(lambda: screen.console.clipboard == str(journal.path), "the copy")
        for partitions, shown in (
            ([second], "99 writable, 1 redundant"),
            ([first, *others], "100 redundant"),
        ):
            for partition in partitions:
                story.states[partition] = replace(story.states[partition], isr=(1, 2))
            await screen.shows(f"Done: {shown}.")
        await screen.shows("■■■■■ redundant")
        await screen.press("l")
        await opens(screen.pilot, LedgerScreen)
        await screen.press("escape", "o")
        await opens(screen.pilot, GroupsPage)
        await screen.shows("billing on")
        story.group_epoch = -1
        await screen.press("escape", "o")
        await screen.shows("is left as it is")
    assert electing.session.leaders() == {1}
    assert electing.session.controller.partitions[1::3] == [1, 10, 89]
    assert journal.result == "succeeded"
    assert journal.consent is not None
    assert journal.consent.payload["phrase"] == "100 partitions lose 0 and abandon b3"


async def test_r50_a_key_adds_the_replica_that_the_rest_of_the_records_waits_for(
    electing: Electing,
) -> None:
    (partition,) = electing.session.offline()
    story, log = electing.cluster.story, electing.cluster.replicas[1, partition]
    electing.session.change(partition, assignment=(3, 1))
    story.settings[partition.topic] = {"min.insync.replicas": "2"}
    log.high_watermark = 31
    async with electing.asked() as screen:
        await screen.type_phrase()
        await screen.press("enter")
        await screen.comes_to(Phase.DONE)
        await screen.shows("a adds a replica on a live broker")
        await screen.press("a")
        await opens(screen.pilot, AddReplicasPage)
        await screen.shows(f"records of {partition} are not readable yet")
        await screen.press("tab", *f"{partition} gains b2", "enter")
        await screen.until(lambda: 2 in story.states[partition].assignment, "the new assignment")
        log.high_watermark = None
        electing.session.change(partition, isr=(1, 2))
        await screen.shows("in sync, readable to offset")
    assert story.states[partition].assignment == (3, 1, 2)
    assert electing.results[0] == "succeeded"


async def test_an_election_is_shown_and_run_once_and_other_screens_may_be_looked_at_meanwhile(
    electing: Electing,
) -> None:
    (partition,) = electing.session.offline()
    gate = electing.gate()
    async with electing.asked() as screen:
        known, console = screen.console.context.known, screen.console
        console.post_message(ElectionAsked([partition]))
        await screen.settles()
        assert [type(one) for one in console.screen_stack].count(ElectScreen) == 1
        await screen.type_phrase()
        await screen.press("enter", "enter", "enter")
        await screen.until(gate.reached.is_set, "the election")
        await screen.press("enter", "tab", "enter")
        await screen.until(lambda: known.paused, "the pause")
        await screen.shows("refresh paused")
        assert console.check_action("suspend_process", ()) is None
        await screen.press("escape", "left_square_bracket", "A")
        await screen.shows("Still running")
        await screen.press("1")
        await screen.until(lambda: console.current_mode == "overview", "the overview")
        gate.opened.set()
        await screen.press("2")
        await until(screen.pilot, lambda: isinstance(screen.page, ElectionPage), "it again")
        await screen.comes_to(Phase.DONE)
        await screen.until(lambda: not known.paused, "refreshing again")
        assert console.check_action("suspend_process", ()) is True
        await screen.press("enter")
        await screen.press("escape")
        await screen.is_left()
    assert electing.session.leaders() == {1}
    assert electing.steps.count("elect") == 1
    assert len(electing.session.journals()) == 1


async def test_neither_another_text_nor_paste_nor_what_changed_is_elected_before_it_is_agreed_to(
    electing: Electing,
) -> None:
    _, second = electing.session.offline(count=2)
    async with electing.asked() as screen:
        await screen.press("tab", *"2 partitions lose 1", "enter")
        await screen.shows("not the phrase")
        await screen.press("escape", *"2 partitions lose ", "enter")
        await screen.shows("That is not the phrase")
        await screen.press("escape")
        screen.console.post_message(Paste("2 partitions lose 0"))
        await screen.shows("Pasting is refused here")
        await screen.press("enter")
        await screen.shows("That is not the phrase")
        assert screen.phase is Phase.REVIEW

        await screen.press("shift+tab")
        electing.cluster.hold(2, second, (0, 100), (1, 30)).high_watermark = 100
        electing.serve_records(2, second, 130)
        await screen.agree()
        await screen.shows("1 partition changed", "b2 was 70 and is 130", "> [ Cancel ]")
        assert electing.sent_nothing
        assert screen.phrase == "2 partitions lose 30 and abandon b3"
        await screen.elect()
    assert electing.session.leaders() == {1}


async def test_s_stops_after_the_batch_and_r_takes_the_journal_up(electing: Electing) -> None:
    electing.session.offline(count=3)
    gate = electing.gate()
    async with electing.asked() as screen:
        await screen.agree()
        await screen.until(gate.reached.is_set, "the canary")
        await screen.press("s")
        await screen.shows("Stopping: ")
        gate.opened.set()
        await screen.comes_to(Phase.DONE)
        await screen.shows("Stopped: ", "r resumes the journal.")
        assert electing.results == [None]
        await resumes(screen)
        assert screen.phrase == "2 partitions lose 0 and abandon b3"
        await screen.elect()
    assert electing.session.leaders() == {1}
    assert electing.results == ["succeeded"]


async def resumes(screen: Screen) -> None:
    await screen.press("r")
    await opens(screen.pilot, ResumeScreen)
    await screen.comes_to(Phase.REVIEW)


async def test_what_breaks_off_is_not_called_done(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    electing.session.offline(count=3)

    def break_off(*_: object) -> NoReturn:
        raise KeyError("odd")

    monkeypatch.setattr(Recovery, "_finish", break_off)
    async with electing.asked() as screen:
        await screen.elect()
        await screen.shows("Interrupted: 3", "KeyError")
        await screen.press("r")
        await opens(screen.pilot, ResumeScreen)


async def test_a_deleted_topic_another_session_at_work_or_no_cluster_keeps_it_from_beginning(
    electing: Electing,
) -> None:
    (partition,) = electing.session.offline()
    (deleted,) = electing.session.offline("deleted")
    lock = ClusterLock.acquire(CLUSTER_ID, electing.session.state / "locks")
    async with electing.asked(partition) as screen:
        await screen.agree()
        await screen.shows("has been changing")
        assert screen.phase is Phase.REVIEW
        assert not screen.console.context.known.paused
        lock.release()

        await screen.asks(deleted)
        del electing.cluster.story.states[deleted]
        await screen.agree()
        await screen.shows("1 partition changed", "> [ Back ]")

        await screen.asks(partition)
        for broker in electing.cluster.brokers.values():
            broker.stop()
        await screen.agree()
        await screen.until(lambda: screen.page.state.note, "why")
        assert screen.phase is Phase.REVIEW
    assert electing.steps == []


@pytest.mark.parametrize(
    "heard",
    [
        pytest.param(True, id="elected"),
        # The run waits a minute for the election whose answer was lost.
        pytest.param(False, id="not elected", marks=pytest.mark.slow),
    ],
)
async def test_u_asks_again_about_the_unknown_and_elects_nothing(
    electing: Electing, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not elected can be resumed, also where no order would have to be put back."""
    if not heard:
        monkeypatch.setattr(elect, "route_for", lambda _: plain_unclean_route)
    electing.session.offline()

    def hang(request: Any, answer: Answer) -> Reply:
        electing.cluster.brokers[1].hung = True
        return (unanswered if heard else unheard)(request, answer)

    electing.session.controller.next(ElectLeadersRequest, hang)
    async with electing.asked() as screen:
        await screen.elect()
        await screen.shows("? unknown", "u asks the cluster again")
        electing.cluster.brokers[1].hung = False
        sent = list(electing.steps)
        await screen.press("u")
        if heard:
            await screen.shows("1 elect elected", "Done: 1 writable.")
            assert "unknown" not in screen.text
            assert electing.session.journals()[0].unsettled == ()
        else:
            await screen.shows("1 partition left", "r resumes")
            await screen.press("r")
            await opens(screen.pilot, ResumeScreen)
        assert electing.steps == sent


async def test_what_failed_comes_first_with_its_reason(electing: Electing) -> None:
    electing.session.offline(count=3)
    answered: list[Callable[..., Reply]] = [failing(INVALID_REQUEST)]

    def second_fails(request: Any, answer: Answer) -> Reply:
        return answered.pop()(request, answer)

    electing.session.controller.next(ElectLeadersRequest, after(lambda: None), second_fails)
    async with electing.asked() as screen:
        await screen.elect()
        await screen.shows("x failed", "2 partitions failed")
        table = screen.page.query_one("#partitions", LineTable)
        assert [str(row.partition) for row in table.rows] == ["orders-1", "orders-2", "orders-0"]


async def test_what_is_cut_off_is_saved_first(electing: Electing) -> None:
    electing.serve_records(2, electing.fork(), 150)
    async with electing.asked() as screen:
        await screen.shows("Rescue first: on: 50")
        assert screen.phrase == "orders-0 lose 50 and abandon b3"
        await screen.elect()
        await screen.shows("Rescued 50")
    assert any((electing.session.state / "rescue").rglob("b2/orders"))


async def test_what_cannot_be_saved_is_not_elected_unless_it_is_given_up(
    electing: Electing,
) -> None:
    fork = electing.fork()
    held = electing.serve_records(2, fork, 150)
    held.mishaps += [lambda: held.answer(STORAGE_ERROR)] * 20
    async with electing.asked() as screen:
        await screen.elect()
        await screen.shows("! refused", "not rescued")
        assert electing.steps == []
        await screen.asks(fork)
        await screen.press("ctrl+t")
        await screen.shows("Rescue first: OFF")
        await screen.elect()
    assert electing.session.leaders() == {1}


def attempt_on(electing: Electing, messages: list[Message], gone_after: type) -> ElectionWorker:
    """One whose app is gone once an election has told an event of that type."""
    session = electing.session
    context = Context(
        session.power.access,
        CannedWatch([]),
        Terminal(),
        CommandText(),
        session.power,
        state_folder=session.state,
    )
    context.known.incident = electing.incident(3)
    rows = context.known.incident.rows
    find = PickedPartitions(context.known, tuple(row.partition for row in rows))
    act = Elect(find, rescue=RescueChoice(without=True))
    gone: list[bool] = []

    def post(message: Message) -> None:
        if gone:
            raise RuntimeError("Event loop is closed")
        messages.append(message)
        if isinstance(message, ActReported):
            gone.extend([True] * isinstance(message.event, gone_after))

    return ElectionWorker(1, context, act, post, post)


def carried_out(attempt: ElectionWorker, messages: list[Message]) -> ElectionSubject:
    attempt.freeze()
    (frozen,) = (message for message in messages if isinstance(message, SubjectFrozen))
    power = attempt.context.power
    assert power is not None
    subject = subject_in(frozen.frozen)
    attempt.carry_out(power, frozen.frozen, [group.phrase for group in subject.groups])
    return subject


def test_an_app_that_is_gone_lets_nothing_new_begin_and_the_journal_be_taken_up(
    electing: Electing,
) -> None:
    electing.session.offline(count=12)
    messages: list[Message] = []
    carried_out(attempt_on(electing, messages, OutcomesReported), messages)
    (journal,) = electing.session.journals()
    assert (journal.result, journal.unsettled) == (None, ())
    led = [state.leader for state in electing.cluster.story.states.values()]
    assert led.count(None) == 1, "what comes after the batch in which it is noticed"


def test_what_is_asked_for_is_counted_before_it_is_shown_and_told_to_the_watch_when_agreed_to(
    electing: Electing,
) -> None:
    electing.session.offline(count=3)
    messages: list[Message] = []
    attempt = attempt_on(electing, messages, OutcomesReported)
    subject = carried_out(attempt, messages)
    (frozen,) = (message for message in messages if isinstance(message, SubjectFrozen))
    counted = vars(subject_in(frozen.frozen))
    assert {"groups", "unread", "rescue", "known_loss", "why_alone"} <= counted.keys()
    assert len(frozen.rows) == 3
    watch = attempt.context.watch
    assert isinstance(watch, CannedWatch)
    agreed = {priced.partition: priced.target.designee for priced in subject.wanted}
    assert watch.agreed_to == agreed != {}


async def test_it_is_offered_once_and_enter_shows_what_is_left_and_sends_nothing(
    electing: Electing,
) -> None:
    electing.killed(after=1)
    console = electing.console()
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "An election was interrupted.")
        await shows(pilot, "1 elected, 1 unknown")
        sent = list(electing.steps)
        assert sent.count("elect") == 1
        await pilot.press("enter")
        await opens(pilot, ResumeScreen)
        screen = Screen(pilot)
        await screen.comes_to(Phase.REVIEW)
        await screen.press("enter")
        await screen.is_left()
        assert electing.steps == sent


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_what_ended_without_being_known_is_offered_too_and_can_wait(
    electing: Electing, key: str
) -> None:
    def hang(request: Any, answer: Answer) -> Reply:
        electing.cluster.brokers[1].hung = True
        return unanswered(request, answer)

    session = electing.session
    session.offline()
    session.controller.next(ElectLeadersRequest, hang)
    session.election(session.wanted()).run(["orders-0 lose 0 and abandon b3"])
    assert len(unfinished(CLUSTER_ID, session.state)) == 1
    electing.cluster.brokers[1].hung = False
    console = electing.console()
    async with console.run_test(size=SIZE) as pilot:
        await shows(pilot, "outcomes are unknown")
        await pilot.press(key)
        await hides(pilot, "outcomes are unknown")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: not console.context.known.reading, "another refresh")
        assert not isinstance(console.screen, UnfinishedScreen)
        assert console.is_running


async def test_what_runs_or_is_done_is_not_offered(electing: Electing) -> None:
    session = electing.session
    session.offline()
    session.election(session.wanted()).run(["orders-0 lose 0 and abandon b3"])
    assert unfinished(CLUSTER_ID, session.state) == ()
    with Journal.open(CLUSTER_ID, session.state) as running:
        running.plan("", "", {})
        assert unfinished(CLUSTER_ID, session.state) == ()
    assert [brief.path for brief in unfinished(CLUSTER_ID, session.state)] == [running.path]


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
