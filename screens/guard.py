"""A guarded act on the screen: evidence, phrase, second look, results.

While something is being changed there is no way back; an act that only copies continues by
itself. What the act reported becomes rows and lines, which only the page changes.

The thread of a guarded act: freeze; after consent carry it out, and do what is left.
The thread never touches a widget. Whatever happens, the app hears that a mutation has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from breakglass.screens.context import Context
from breakglass.screens.messages import MutationBegan, MutationEnded
from breakglass.screens.page import ConsentPage
from breakglass.screens.refreshing import of_step
from breakglass.screens.widgets.consent import ConsentPanel
from breakglass.screens.widgets.facts import Fact, Facts, fact
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.services.guard.act import (
    Act,
    ActEvent,
    ActStep,
    Change,
    ConsentOutdated,
    Ending,
    Front,
    Frozen,
    GuardedRun,
    JournalOpened,
    TargetOutcome,
    TargetResult,
    Underway,
    result_of,
)
from breakglass.services.pipeline.acts.restore import CopyProgressed
from breakglass.services.words.inert import inert
from breakglass.themes.roles import Role, Words

if TYPE_CHECKING:
    from breakglass.services.errors import BreakglassError
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.session import Power


@dataclass(eq=False)
class GuardMessage(Message):
    """A report of a worker; the page drops reports of an older *attempt*."""

    attempt: int


@dataclass(eq=False)
class ActFrozen(GuardMessage):
    """What would be done; with *changed*, what was agreed to is no longer so."""

    frozen: Frozen[Any]
    changed: tuple[Change, ...] = ()


@dataclass(eq=False)
class ActReported(GuardMessage):
    """The act has come to *event*."""

    event: ActEvent

    def can_replace(self, message: Message) -> bool:
        both = isinstance(message, ActReported) and isinstance(self.event, Underway)
        return both and isinstance(message.event, Underway)  # type: ignore[attr-defined]


@dataclass(eq=False)
class ActFailed(GuardMessage):
    """The act ended with an error; None: it was given up before anything was done."""

    error: BreakglassError | None
    begun: bool
    """Something may have been done."""


@dataclass(eq=False)
class ActEnded(GuardMessage):
    """The act has ended by itself."""

    ending: Ending


@dataclass(eq=False)
class FollowEnded(GuardMessage):
    """What came after the act has ended, too."""

    text: str
    good: bool


T = TypeVar("T")


@dataclass
class GuardedWorker(Generic[T]):
    """One way through an act; another one begins when something changed."""

    number: int
    context: Context
    act: Act[T]
    post: Callable[[Message], object]
    """To the page."""
    post_app: Callable[[Message], object]
    changes: str = "cluster"
    """What an error that nobody expected says to look at."""
    stop_asked: threading.Event = field(default_factory=threading.Event)
    """End after the request under way; before anything was sent: begin nothing."""
    left: threading.Event = field(default_factory=threading.Event)
    """The page is gone: nobody looks any more."""
    _looking: ReadClient | None = field(default=None, init=False)
    """Reads for the look that is under way."""
    _begun: bool = field(default=False, init=False)
    """Something may have been done."""

    def freeze(self) -> None:
        self.guarded(lambda: self.show(GuardedRun(self.act, self.front).freeze()))

    def show(self, frozen: Frozen[T], changed: tuple[Change, ...] = ()) -> None:
        """Report what would be done; *changed* is no longer as it was agreed to."""
        self.report(ActFrozen(self.number, frozen, changed))

    def carry_out(self, power: Power, agreed: Frozen[T], phrases: Sequence[str]) -> None:
        """Do what was *agreed* to if it is still so, then what is left and changes nothing.

        The app already knows that a mutation has begun.
        """
        ending: Ending | None = None
        run = GuardedRun(self.act, self.front)
        try:
            ending = run.carry_out(power, agreed, phrases, begin=self.began)
        except ConsentOutdated as outdated:
            self.show(outdated.fresh, outdated.changed)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the page shows it
            self.fail(error)
        else:
            self.report(ActEnded(self.number, ending))
        finally:
            self._post(self.post_app, MutationEnded())
        if ending is not None:
            self.follow(run, agreed, ending)

    def follow(self, run: GuardedRun[T], agreed: Frozen[T], ending: Ending) -> None:
        try:
            text = run.follow(agreed, ending)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the page shows it
            self.report(FollowEnded(self.number, str(of_step(error, self.changes)), good=False))
        else:
            self.report(FollowEnded(self.number, text, good=True))

    def give_up(self) -> None:
        """Begin nothing, and end the look before it at once."""
        self.stop_asked.set()
        looking = self._looking
        if looking is not None:
            looking.close()

    @property
    def front(self) -> Front:
        context = self.context
        return Front(context.access, self.hear, self.stopping, context.state_folder, self._reading)

    def hear(self, event: ActEvent) -> None:
        self.report(ActReported(self.number, event))

    def began(self, fresh: Frozen[T]) -> None:  # noqa: ARG002
        """The second look found nothing changed, and the act on *fresh* begins."""
        self._begun = True

    def stopping(self) -> bool:
        return self.gone() or self.stop_asked.is_set()

    def gone(self) -> bool:
        """Whether nobody looks any more."""
        return self.left.is_set() or self.context.stopping.is_set()

    def report(self, message: Message) -> None:
        self._post(self.post, message)

    def guarded(self, step: Callable[[], object]) -> None:
        """Do *step*; its error becomes a message."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the page shows it
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Report *error*; after a give-up it says nothing more."""
        given_up = self.stopping() and not self._begun
        found = None if given_up else of_step(error, self.changes)
        self.report(ActFailed(self.number, found, self._begun))

    @contextmanager
    def _reading(self) -> Iterator[ReadClient]:
        with self.context.reading() as client:
            self._looking = client
            try:
                yield client
            finally:
                self._looking = None

    def _post(self, post: Callable[[Message], object], message: Message) -> None:
        """Post *message*; once the app is gone nobody looks any more, and nothing new begins."""
        try:
            post(message)
        except RuntimeError:
            self.left.set()


ROLES = {
    TargetResult.DONE: Role.VERIFIED,
    TargetResult.FAILED: Role.FAILED,
    TargetResult.UNKNOWN: Role.UNKNOWN,
}
LABELS = {TargetResult.DONE: "Done", TargetResult.FAILED: "Failed", TargetResult.UNKNOWN: "Unknown"}
SHOWN = 6
"""Lines that are kept in view."""


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One partition, and what came of it."""

    name: str
    text: str
    role: Role | None


COLUMNS: tuple[LineColumn[OutcomeRow], ...] = (
    LineColumn("Topic-partition", lambda row: row.name, most=60, shrinks=True, tail="-"),
    LineColumn("State", lambda row: Words(row.text, row.role), most=60, shrinks=True),
)


@dataclass(slots=True)
class ActProgress:
    """How far one act is."""

    begun: bool = False
    """Something was done, or may have been."""
    _rows: dict[str, OutcomeRow] = field(default_factory=dict)
    _lines: list[tuple[str, Words]] = field(default_factory=list)
    _underway: str = ""

    @property
    def rows(self) -> Sequence[OutcomeRow]:
        """The partitions; once something was reported, those first that need the operator."""
        order = [Role.FAILED, Role.UNKNOWN]
        return sorted(self._rows.values(), key=lambda row: row.role not in order)

    @property
    def steps(self) -> list[tuple[str, Words]]:
        lines = self._lines[-SHOWN:]
        return [*lines, ("", Words(self._underway, Role.RUNNING))] if self._underway else lines

    def begin(self, targets: Iterable[str]) -> None:
        self.clear()
        self._rows = {target: OutcomeRow(target, "asked", Role.MUTED) for target in targets}

    def clear(self) -> None:
        self._lines.clear()
        self._underway = ""

    def say(self, text: str, role: Role | None = None, label: str = "") -> None:
        """Add a line; what was under way before it is over."""
        self._underway = ""
        self._lines.append((label, Words(text, role)))

    def take(self, event: ActEvent) -> None:
        self.begun = True
        if isinstance(event, JournalOpened):
            self.say(f"journal: {event.path}")
        elif isinstance(event, ActStep):
            self.say(event.text)
        elif isinstance(event, TargetOutcome):
            role = ROLES[event.result]
            text = f"{event.result}: {event.text}"
            self._rows[event.target] = OutcomeRow(event.target, text, role)
        elif isinstance(event, Underway | CopyProgressed):
            self._underway = event.text

    def end(self, result: TargetResult | None, text: str) -> None:
        """It is over; None: nothing was done."""
        if result is None:
            self.say(text, Role.FAILED)
        else:
            self.say(text, ROLES[result], LABELS[result])


GIVEN_UP = "Cancelled: nothing was done."


class GuardedPage(ConsentPage):
    """An act from what it would do to what came of it; subclasses show what its thread tells.

    The work is done in the thread of an attempt, which tells by messages; only the handlers change
    what is shown. What older attempts still tell is dropped.
    """

    CHANGES: ClassVar[str] = "cluster"
    """What an error that nobody expected says to look at."""

    def __init__(self, context: Context, act: Act[Any]) -> None:
        super().__init__(context)
        self.act = act
        self._frozen: Frozen[Any] | None = None
        self._typed: list[str] = []
        """Phrases that were typed so far."""
        self._worker = self.new_worker(0)

    def new_worker(self, number: int) -> GuardedWorker[Any]:
        return GuardedWorker[Any](
            number, self.context, self.act, self.post_message, self.post_app, self.CHANGES
        )

    def post_app(self, message: Message) -> None:
        self.app.post_message(message)

    def heard(self, message: GuardMessage) -> None:
        """What the thread of the present attempt tells."""
        raise NotImplementedError

    def ask_next(self) -> None:
        """Ask for the next phrase: one was typed, and it was not the last."""
        raise NotImplementedError

    def say(self, told: str, role: Role | None = None) -> None:
        raise NotImplementedError

    @on(GuardMessage)
    def _heard(self, message: GuardMessage) -> None:
        if message.attempt == self._worker.number:
            self.heard(message)

    @property
    def table(self) -> LineTable[Any]:
        return self.query_one("#partitions", LineTable)

    def action_move(self, by: int) -> None:
        """Where the table has no focus: whatever else has it, the partitions can be looked at."""
        self.table.action_move(by)

    def action_page(self, by: int) -> None:
        self.table.action_page(by)

    def refuse(self, told: str) -> None:
        self.say(told, Role.FAILED)

    def agreed(self) -> None:
        frozen = self._frozen
        assert frozen is not None
        self._typed.append(frozen.asked[len(self._typed)].phrase)
        self.consent.field.typed = ""
        if len(self._typed) < len(frozen.asked):
            self.ask_next()
        else:
            self.carry_out()

    def carry_out(self) -> None:
        """Every phrase was typed: read again, then run."""
        power, frozen, phrases = self.context.power, self._frozen, tuple(self._typed)
        assert power is not None
        assert frozen is not None
        self.app.post_message(MutationBegan())
        self._begin(lambda worker: worker.carry_out(power, frozen, phrases))

    def _begin(self, step: Callable[[Any], None]) -> None:
        """Let a new worker do *step*."""
        self._worker.left.set()
        self._worker = self.new_worker(self._worker.number + 1)
        self._in_thread(partial(step, self._worker))

    def _in_thread(self, work: Callable[[], object]) -> None:
        self.app.run_worker(work, group="guard", thread=True, exit_on_error=False)


class ActPage(GuardedPage):
    """One act, from its evidence to what came of each partition; only in armed sessions."""

    DEFAULT_CSS = """
    ActPage #evidence { height: auto; max-height: 50%; overflow-y: auto; }
    ActPage #partitions { height: 1fr; min-height: 3; }
    ActPage #steps { height: auto; max-height: 8; }
    ActPage #ask { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", tooltip="Leave; before consent nothing is changed"),
        Binding("tab", "other", "field", tooltip="Between the way out and the field"),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
    ]

    UNSAVED: ClassVar[str] = "A change is under way."
    """What is said where the session is to end in the middle."""

    def __init__(self, context: Context, act: Act[Any]) -> None:
        super().__init__(context, act)
        self._progress = ActProgress()
        self._busy = False
        """Something is being changed, or about to be."""

    def body(self) -> Iterator[Widget]:
        yield Facts(id="evidence")
        yield LineTable[OutcomeRow](COLUMNS, lambda row: row.name, id="partitions", empty="")
        yield Facts(id="steps")
        yield Facts(id="ask")
        yield ConsentPanel()

    def on_mount(self) -> None:
        self._progress.say("reading what there is to do", Role.MUTED)
        self.ask(None)
        self._begin(lambda worker: worker.freeze())

    def show_known(self) -> None:
        self._show()

    def unsaved(self) -> str:
        return self.UNSAVED if self._busy else ""

    # What the operator does.

    def action_leave(self) -> None:
        if not self._busy:
            self._worker.left.set()
            self.dismiss()
        elif self._progress.begun:
            self.notify("Still running: it ends by itself.", markup=False)
        else:
            self._worker.give_up()
            self.say("cancelling: nothing is done", Role.RUNNING)

    def carry_out(self) -> None:
        self._busy = True
        self._progress.clear()
        self._progress.say("reading everything again before anything is done", Role.RUNNING)
        self.ask(None)
        super().carry_out()

    # What the thread reports.

    def heard(self, message: GuardMessage) -> None:
        match message:
            case ActFrozen():
                self._planned(message.frozen, message.changed)
            case ActReported():
                self._progress.take(message.event)
                self._show()
            case ActEnded():
                ending = message.ending
                result = TargetResult.DONE if ending.whole else TargetResult.FAILED
                self._end(result, ending.text or ending.result or "")
            case ActFailed(error=None):
                self._end(None, GIVEN_UP)
            case ActFailed(error=error) if error is not None and message.begun:
                self._end(result_of(error), str(error))
            case ActFailed():
                self._end(None, f"Nothing was done: {message.error}")
            case FollowEnded() if message.text:
                self.say(message.text, Role.VERIFIED if message.good else Role.FAILED)

    def _planned(self, frozen: Frozen[Any], changed: Sequence[Change]) -> None:
        self._frozen, self._busy = frozen, False
        self._typed.clear()
        self._progress.begin(frozen.targets)
        if changed:
            self._progress.say("Changed since you agreed, so nothing was done:", Role.FAILED)
        for change in changed:
            self._progress.say(str(change), Role.FAILED)
        if frozen.asked:
            self.ask_next()
        else:
            self.ask(None)

    def _end(self, result: TargetResult | None, told: str) -> None:
        self._busy = False
        self._progress.end(result, told)
        self.ask(None)

    # What is shown.

    def ask_next(self) -> None:
        assert self._frozen is not None
        self.ask(self._frozen.asked[len(self._typed)].phrase)

    def ask(self, phrase: str | None) -> None:
        super().ask(phrase)
        self._show()

    def say(self, told: str, role: Role | None = None) -> None:
        self._progress.say(told, role)
        self._show()

    def _show(self) -> None:
        self.query_one("#evidence", Facts).facts = tuple(self._evidence())
        self.table.set_rows(self._progress.rows)
        steps = [fact(label, part) for label, part in self._progress.steps]
        self.query_one("#steps", Facts).facts = tuple(steps)
        asked = [] if self.phrase is None else [Words(inert(self.phrase), Role.ARMED)]
        self.query_one("#ask", Facts).facts = tuple(fact("Type", part) for part in asked)

    def _evidence(self) -> Iterator[Fact]:
        frozen = self._frozen
        if frozen is None:
            return
        for label, told in frozen.facts:
            yield fact(inert(label), told)
        for told in frozen.remarks:
            yield fact("Note", Words(told, Role.WAITING))


class GroupsPage(ActPage):
    """Groups past the end of a log, or past a cut, are moved to where what they read ends."""

    TITLE = "Groups past the end"
    ABOUT = (
        "Sets committed offsets past the end of their log, or past a cut, to where the log that "
        "the group has read ends, as `breakglass after groups reset` does. Groups with running "
        "consumers are refused. The journal keeps what was committed before."
    )
    UNSAVED = "Offsets of groups are being moved."
    CHANGES = "groups"


class AddReplicasPage(ActPage):
    """Partitions with too few replicas in sync get further ones, so that all becomes readable."""

    TITLE = "Add replicas"
    ABOUT = (
        "Adds a replica on a live broker to partitions with fewer than min.insync.replicas in "
        "sync, as `breakglass after add-replica` does: the rest of their records becomes "
        "readable once it has copied the log. No replica is taken from an assignment."
    )
    UNSAVED = "Replicas are being added."


class SettingPage(ActPage):
    """What the pages of topic settings have in common."""

    UNSAVED = "A topic's setting is being changed."


class HoldPage(SettingPage):
    """Unclean election goes off, until it is released."""

    TITLE = "Freeze"
    ABOUT = (
        "Keeps the controller from electing by order while you look: it sets "
        "unclean.leader.election.enable to false on topics with offline partitions where it is "
        "true. What was there comes back by r in the Journal, or by `breakglass recover thaw`."
    )


class ForgetPage(SettingPage):
    """The controller forgets who led last."""

    TITLE = "Forget last leaders"
    ABOUT = (
        "For a BOMB whose broker you cannot stop. Changes min.insync.replicas of the topic for a "
        "moment, which makes the controller forget whom it would elect by itself, intact leaders "
        "too, and for good. Each of those is named in a phrase of its own."
    )


class ReleasePage(SettingPage):
    """What a journal changed is put back."""

    TITLE = "Put settings back"
    ABOUT = (
        "Gives topics what they had before this journal changed it, where nobody has set it since. "
        "Partitions that are still offline may then be elected by order: who would lead them, and "
        "what that loses, is part of the phrase."
    )

    def __init__(self, context: Context, journal: Path) -> None:
        from breakglass.services.recovery.acts.topic_settings import PutSettingsBack

        super().__init__(context, PutSettingsBack(journal))


class CheckpointPage(ActPage):
    """What the pages of checkpoints have in common."""

    UNSAVED = "A checkpoint is being changed."
    CHANGES = "checkpoint"


class TakePage(CheckpointPage):
    """The next checkpoint of a store."""

    TITLE = "Take a checkpoint"
    ABOUT = (
        "Takes a checkpoint; producers and consumers keep running. A coordinated checkpoint "
        "writes a small record, a marker, into every partition. Copying starts once the "
        "checkpoint is acknowledged; it continues when you leave this page and stops when the "
        "session ends."
    )


class DeletePage(CheckpointPage):
    """One checkpoint goes."""

    TITLE = "Delete a checkpoint"
    ABOUT = (
        "Deletes a checkpoint and all its copies; this cannot be undone. Its id is never used "
        "again. The cluster is not touched."
    )


class RestorePage(CheckpointPage):
    """One checkpoint into new or empty topics."""

    TITLE = "Restore a checkpoint"
    ABOUT = (
        "Restores every partition of one checkpoint, with the records in transit, into new or "
        "empty topics, and commits the groups' offsets there. The groups must have no members. "
        "Every byte is checked before you are asked to consent, and again before anything is "
        "written."
    )


class RestoreMetastorePage(ActPage):
    """A command topic; leaving it before consent changes nothing."""

    TITLE = "Restore metastore"
    ABOUT = (
        "Deletes the command topic and creates it again from its backup, with every command at "
        "its old offset. The current topic is backed up first. Type the phrase to confirm; "
        "everything is read again before anything is deleted."
    )
    UNSAVED = "A restore is under way."
    CHANGES = "topic"

    def __init__(self, context: Context, service_id: str, file: Path) -> None:
        from breakglass.services.metastore.acts.command_topic import SNAPSHOTS, RestoreCommandTopic
        from breakglass.services.metastore.restore.plan import Skips, read_source
        from breakglass.services.metastore.settings import MetastoreSettings

        source, settings = partial(read_source, file, Skips()), MetastoreSettings(service_id)
        act = RestoreCommandTopic(source, settings, file.parent / SNAPSHOTS)
        super().__init__(context, act)
