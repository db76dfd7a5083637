"""The guarded steps on the screen: shown, agreed to by typing, read again, run, watched.

The work is done in the thread of an attempt, which tells by messages; only the handlers here
change what is shown. While a request may be under way there is no way back, only a stop after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from screens.consent_page import ConsentPage
from screens.context import Context
from screens.elect import wording
from screens.elect.attempt import ElectionAttempt
from screens.elect.guarded_action import Undertaking
from screens.elect.messages import (
    AftermathTold,
    AnswersAwaited,
    ElectionTold,
    LadderMoved,
    StepFailed,
    StepMessage,
    SubjectFrozen,
    UnknownsAnswered,
)
from screens.elect.phase import Phase
from screens.elect.state import ElectionState
from screens.elect.view import GuardedView
from screens.messages import CopyAsked, MutationBegan, ResumeAsked
from services.model import TopicPartition
from services.recovery.execution.target import RecoveryResult
from services.recovery.guarded.events import Armed, Finished
from services.recovery.guarded.rescue_choice import RescueChoice
from services.recovery.guarded.subject import ElectionSubject
from themes.roles import Role


class GuardedPage(ConsentPage):
    """One undertaking from its price to what is left to do."""

    VERTICAL_BREAKPOINTS = [(0, "-short"), (24, "-tall")]  # noqa: RUF012 -- as Screen has it
    DEFAULT_CSS = """
    GuardedPage.-short #after { max-height: 5; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", tooltip="Leave, or give up what was not sent yet"),
        Binding("ctrl+t", "rescue", "Rescue on/off", tooltip="Save first what is cut off, or not"),
        Binding(
            "ctrl+x", "leave_out", "Leave out", tooltip="Leave out the partition under the cursor"
        ),
        Binding(
            "ctrl+o",
            "leave_out_alone",
            "Only the bulk",
            tooltip="Leave out all that need a phrase of their own",
        ),
        Binding("s", "stop", "Stop", tooltip="Stop after the batch that is under way"),
        Binding("u", "check_again", "Check unknown", tooltip="Ask the cluster what became of it"),
        Binding("r", "go_on", "Resume", tooltip="Take the journal up: finish what is left"),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("c", "copy_journal", "Copy path", tooltip="Copy the journal's path"),
    ]

    def __init__(self, context: Context, undertaking: Undertaking) -> None:
        super().__init__(context)
        folder = context.state_folder
        rescue = RescueChoice(to=None if folder is None else folder / "rescue")
        self.undertaking = undertaking
        self.state = ElectionState(context.armed, undertaking.doing, rescue)
        self._attempt = self._new_attempt(0)
        self._left_out: set[TopicPartition] = set()
        """By the operator, however often it is read anew."""
        self._counting = False
        """Something is being left out: a phrase for what is shown still is none for the rest."""

    def body(self) -> Iterator[Widget]:
        yield GuardedView(self.state)

    def on_mount(self) -> None:
        self.consent.cancel.focus()
        self._freeze()

    def on_unmount(self) -> None:
        self._attempt.left.set()

    # Steps.

    def _freeze(self) -> None:
        """Read what is to be carried out, from the beginning."""
        self.state.phase = Phase.READING
        left_out = frozenset(self._left_out)
        self._begin(lambda attempt: attempt.freeze(left_out))
        self._say("")

    def _carry_out(self) -> None:
        """Every phrase was typed: read again, then run."""
        power, subject = self.context.power, self.state.subject
        assert power is not None
        assert subject is not None
        phrases, rescue = tuple(self.state.given), self.state.rescue
        self._view.table.focus()
        self.state.reread(subject)
        self.app.post_message(MutationBegan())
        self._begin(lambda attempt: attempt.carry_out(power, subject, phrases, rescue))
        self._say("")

    def _begin(self, step: Callable[[ElectionAttempt], None]) -> None:
        """A new attempt; what older ones still tell is dropped."""
        self._attempt.left.set()
        self._attempt = self._new_attempt(self._attempt.number + 1)
        self._in_thread(partial(step, self._attempt))

    def _new_attempt(self, number: int) -> ElectionAttempt:
        return ElectionAttempt(
            number, self.context, self.undertaking, self.post_message, self._to_app
        )

    def _to_app(self, message: Message) -> None:
        self.app.post_message(message)

    def _in_thread(self, work: Callable[[], None]) -> None:
        self.app.run_worker(work, group="election", thread=True, exit_on_error=False)

    # What the thread tells.

    def _current(self, message: StepMessage) -> bool:
        return message.attempt == self._attempt.number

    @on(AnswersAwaited)
    def _awaited(self, message: AnswersAwaited) -> None:
        if self._current(message) and message.waiting:
            self._say(f"Waiting: {message.waiting}", Role.RUNNING)

    @on(SubjectFrozen)
    def _frozen(self, message: SubjectFrozen) -> None:
        if self._current(message):
            self.state.changed = message.changed
            note = wording.changed_told(message.changed, message.subject)
            self.state.review(
                message.subject, message.rows, self.undertaking.asked(message.subject)
            )
            self._review(note, Role.FAILED)
            if message.changed:
                self._view.table.action_jump(0)

    @on(StepFailed)
    def _failed(self, message: StepFailed) -> None:
        if not self._current(message):
            return
        told = "Given up: nothing was sent." if message.error is None else str(message.error)
        if self.state.phase is Phase.RUNNING:
            self._finish()
        if self.state.phase is Phase.DONE:
            self._say(told, Role.FAILED)
        else:
            subject = self.state.subject or ElectionSubject("")
            self.state.review(subject, self.state.every_row, self.undertaking.asked(subject))
            self._review(told, Role.FAILED)

    @on(ElectionTold)
    def _told(self, message: ElectionTold) -> None:
        if not self._current(message):
            return
        progress = self.state.progress
        if isinstance(message.event, Armed):
            self.state.phase = Phase.RUNNING
            progress.begin(tuple(progress.standings))
        progress.take(message.event)
        if isinstance(message.event, Finished):
            self._finish()
        self._say("")
        if self.state.phase is Phase.DONE:
            self._view.table.action_jump(0)

    @on(AftermathTold)
    def _looked_after(self, message: AftermathTold) -> None:
        if self._current(message):
            self.state.aftermath = message.aftermath
            self._show()

    @on(LadderMoved)
    def _moved(self, message: LadderMoved) -> None:
        if self._current(message):
            self.state.progress.told(message.outcomes)
            self._show()

    @on(UnknownsAnswered)
    def _unknowns_answered(self, message: UnknownsAnswered) -> None:
        if self._current(message):
            self.state.answered = wording.answers_told(message.found)
            left = message.found.remains
            self.state.reopened = bool(left.offline or left.led)
            self.state.progress.told(message.settled)
            self._say("")

    def _review(self, note: str = "", role: Role | None = None) -> None:
        """Show what is asked for, from its beginning."""
        self._counting = False
        self.consent.restart()
        self._say(note, role)
        self._view.point_at(self.state.next_asked)

    def _finish(self) -> None:
        self.state.phase = Phase.DONE
        self._view.table.focus()

    # What the operator does.

    @property
    def phrase(self) -> str | None:
        asked = self.state.next_asked
        unseen = self._counting or self._view.too_small
        return None if asked is None or unseen else asked.phrase

    def refuse(self, told: str) -> None:
        self._say(told, Role.FAILED)

    def agreed(self) -> None:
        asked = self.state.next_asked
        assert asked is not None
        self.state.given.append(asked.phrase)
        self.consent.field.typed = ""
        if self.state.next_asked is None:
            self._carry_out()
        else:
            self._say("")
            self._view.point_at(self.state.next_asked)

    def action_leave(self) -> None:
        """Leave; before anything was sent give that up; never leave a request under way."""
        if self.state.phase is Phase.REREADING:
            self._attempt.give_up()
            self._say("Giving up: nothing is sent.", Role.RUNNING)
        elif self.state.phase is Phase.RUNNING:
            self._say("It runs: s stops it after the batch under way.", Role.RUNNING)
        else:
            self._attempt.left.set()
            self.dismiss()

    def action_stop(self) -> None:
        self._attempt.stop_asked.set()
        self._say("Stopping: what is under way is finished and written down.", Role.RUNNING)

    def action_ask_refresh(self) -> None:
        if self.state.phase is Phase.REVIEW:
            self._freeze()
        super().action_ask_refresh()

    def action_move(self, by: int) -> None:
        """Where a table has no focus: whatever else has it, the partitions can be looked at."""
        self._view.table.action_move(by)

    def action_page(self, by: int) -> None:
        self._view.table.action_page(by)

    def action_rescue(self) -> None:
        self.state.rescue = RescueChoice(not self.state.rescue.without, self.state.rescue.to)
        self._show()

    def action_leave_out(self) -> None:
        row = self._view.table.current
        if row is not None:
            self._leave_out({row.partition})

    def action_leave_out_alone(self) -> None:
        if self.state.subject is not None:
            self._leave_out(self.state.subject.why_alone.keys())

    def _leave_out(self, partitions: Collection[TopicPartition]) -> None:
        subject = self.state.subject
        if subject is not None:
            self._counting = True
            self._left_out.update(partitions)
            left_out = frozenset(self._left_out)
            self._begin(lambda attempt: attempt.leave_out(subject, left_out))

    def action_check_again(self) -> None:
        journal = self.state.progress.journal
        if journal is not None:
            unknown = self.state.progress.unknown
            self._in_thread(partial(self._attempt.check_again, journal, unknown))
            self._say("Asking the cluster again; nothing is elected.", Role.RUNNING)

    def action_go_on(self) -> None:
        journal = self.state.progress.journal
        if journal is not None:
            self.app.post_message(ResumeAsked(journal))
            self.action_leave()

    def action_copy_journal(self) -> None:
        journal = self.state.progress.journal
        if journal is not None:
            self.app.post_message(CopyAsked(str(journal), "the journal's path"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """The keys that mean something now; the others are not offered."""
        if action.startswith("leave_out") and not self.undertaking.divisible:
            return False
        meant = _MEANT.get(action)
        return meant is None or meant(self.state)

    # What is shown.

    @property
    def _view(self) -> GuardedView:
        return self.query_one(GuardedView)

    def _say(self, note: str, role: Role | None = None) -> None:
        self.state.say(note, role)
        self._show()

    def _show(self) -> None:
        self._view.show()
        self.refresh_bindings()


def _reviewed(state: ElectionState) -> ElectionSubject | None:
    return state.subject if state.phase is Phase.REVIEW else None


def _rescues(state: ElectionState) -> bool:
    subject = _reviewed(state)
    return subject is not None and subject.rescue.records > 0


def _elects(state: ElectionState) -> bool:
    subject = _reviewed(state)
    return subject is not None and bool(subject.wanted)


def _asks_alone(state: ElectionState) -> bool:
    subject = _reviewed(state)
    return subject is not None and bool(subject.why_alone)


def _is_unsettled(state: ElectionState) -> bool:
    return state.phase is Phase.DONE and state.progress.count(RecoveryResult.UNKNOWN) > 0


_MEANT: dict[str, Callable[[ElectionState], bool]] = {
    "rescue": _rescues,
    "leave_out": _elects,
    "leave_out_alone": _asks_alone,
    "stop": lambda state: state.phase is Phase.RUNNING,
    "check_again": _is_unsettled,
    "go_on": lambda state: state.resumable,
    "copy_journal": lambda state: state.progress.journal is not None,
}
"""When an action means something; the others always do."""
