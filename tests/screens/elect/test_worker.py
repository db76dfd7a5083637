"""The thread of an undertaking when nobody listens any more."""

from __future__ import annotations

from textual.message import Message

from breakglass.console.checkpoint_text import CommandText
from breakglass.screens.context import Context
from breakglass.screens.elect.screen import PickedPartitions
from breakglass.screens.elect.worker import ElectionWorker, SubjectFrozen, subject_in
from breakglass.screens.guard.worker import ActReported
from breakglass.screens.terminal import Terminal
from breakglass.services.recovery.acts.elect import Elect
from breakglass.services.recovery.acts.events import OutcomesReported
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject
from tests.screens.consoles import CannedWatch
from tests.screens.elect.conftest import Electing


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
