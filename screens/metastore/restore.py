"""The guarded restore of a command topic: what it costs, the phrase, each step, the proof."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from screens.context import Context
from screens.elect.cancel import Cancel
from screens.messages import MutationBegan, MutationEnded
from screens.metastore.messages import RestoreEnded, RestorePlanned, RestoreTold
from screens.page import Page
from screens.widgets.consent_field import ConsentField
from screens.widgets.facts import Fact, Facts
from screens.widgets.status_bar import Part
from services.errors import BreakglassError, ClusterError, OutcomeUnknown
from services.metastore.restore.plan import RestorePlan
from services.metastore.settings import MetastoreSettings
from services.words.inert import inert
from themes.roles import Role

SNAPSHOTS = "before-restore"


class RestoreScreen(Page):
    """One restore; only in armed sessions. Leaving it before consent changes nothing."""

    TITLE = "Restore metastore"
    ABOUT = (
        "Deletes the command topic and makes it anew from its backup, every command at its old "
        "offset. What is there now is backed up first. Type the phrase to go on; everything is "
        "read again before anything is deleted."
    )
    DEFAULT_CSS = """
    RestoreScreen #facts { height: 1fr; overflow-y: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", tooltip="Leave; before consent nothing is changed"),
        Binding("tab", "other", "field", tooltip="Between the way out and the phrase"),
    ]

    def __init__(self, context: Context, service_id: str, file: Path) -> None:
        super().__init__(context)
        self._service_id, self._file = service_id, file
        self._plan: RestorePlan | None = None
        self._steps: list[Part] = [Part("reading the backup and the topic ...", Role.MUTED)]
        self._sent = self._busy = False

    def body(self) -> Iterator[Widget]:
        yield Facts(id="facts")
        yield Cancel()
        yield ConsentField(disabled=True)

    def on_mount(self) -> None:
        self.query_one(Cancel).focus()
        self.run_worker(self._make_plan, group="restore", thread=True, exit_on_error=False)

    def show_known(self) -> None:
        self._tell()

    def unsaved(self) -> str:
        return "A restore is under way." if self._busy else ""

    def action_other(self) -> None:
        field, cancel = self.query_one(ConsentField), self.query_one(Cancel)
        (cancel if field.has_focus or field.disabled else field).focus()

    def action_leave(self) -> None:
        if self._busy:
            self.notify("The restore is under way: it ends by itself.", markup=False)
        else:
            self.dismiss()

    @on(Cancel.Pressed)
    def _cancelled(self) -> None:
        self.action_leave()

    @on(Cancel.Typed)
    def _typed(self, message: Cancel.Typed) -> None:
        field = self.query_one(ConsentField)
        field.focus()
        field.type(message.character)

    @on(ConsentField.PasteRefused)
    def _pasted(self) -> None:
        self.notify("Type the phrase: pasting is refused.", markup=False)

    @on(ConsentField.Given)
    def _given(self, message: ConsentField.Given) -> None:
        plan, power = self._plan, self.context.power
        if plan is None or power is None or self._sent:
            return
        if not message.exact:
            self.notify("That is not the phrase; nothing was changed.", markup=False)
            return
        self._sent = self._busy = True
        self._ask(None)
        self.app.post_message(MutationBegan())
        self.run_worker(
            lambda: self._carry_out(plan), group="restore", thread=True, exit_on_error=False
        )

    @on(RestorePlanned)
    def _planned(self, message: RestorePlanned) -> None:
        self._plan = message.plan
        self._steps = [*_plan_parts(message.plan)]
        self._ask(None if message.plan.done else message.plan.phrase)

    @on(RestoreTold)
    def _told(self, message: RestoreTold) -> None:
        self._steps.append(Part(message.step))
        self._tell()

    @on(RestoreEnded)
    def _ended(self, message: RestoreEnded) -> None:
        self._steps.append(Part(message.outcome, Role.VERIFIED if message.good else Role.FAILED))
        if self._busy:
            self._busy = False
            self.app.post_message(MutationEnded())
        self._tell()

    def _ask(self, phrase: str | None) -> None:
        """Ask for *phrase*; None: for nothing."""
        field, cancel = self.query_one(ConsentField), self.query_one(Cancel)
        field.disabled, field.display = phrase is None, phrase is not None
        field.wanted, field.typed, cancel.asks = phrase or "", "", phrase is not None
        cancel.word = "Cancel" if phrase is not None else "Leave"
        cancel.focus()
        self._tell()

    def _tell(self) -> None:
        facts = [Fact("Restore", (Part(str(self._file), Role.HEADING),))]
        facts += [Fact("", (one,)) for one in self._steps]
        if self._plan is not None and not self._sent and not self._plan.done:
            facts.append(Fact("Type", (Part(inert(self._plan.phrase), Role.ARMED),)))
        self.query_one("#facts", Facts).facts = tuple(facts)

    def _make_plan(self) -> None:
        """In a thread."""
        from services.connection.security import confluent_config
        from services.metastore.restore.plan import make_plan
        from services.metastore.restore.source import Skips, read_source

        try:
            source = read_source(self._file, Skips())
            clients = confluent_config(self.context.access.settings)
            with self.context.reading("breakglass-restore") as client:
                plan = make_plan(client, clients, MetastoreSettings(self._service_id), source)
        except BreakglassError as error:
            self.post_message(RestoreEnded(f"nothing was changed: {error}", good=False))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen tells it
            self.post_message(RestoreEnded(_unexpected(error), good=False))
        else:
            self.post_message(RestorePlanned(plan))

    def _carry_out(self, plan: RestorePlan) -> None:
        """In a thread."""
        from services.metastore.restore.journalled import restore_with_journal

        power = self.context.power
        assert power is not None
        try:
            snapshots = self._file.parent / SNAPSHOTS
            state = self.context.state_folder
            done = restore_with_journal(power, plan, snapshots, self._step, state)
        except OutcomeUnknown as error:
            self.post_message(RestoreEnded(f"UNKNOWN: {error}", good=False))
        except BreakglassError as error:
            self.post_message(RestoreEnded(f"failed: {error}", good=False))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen tells it
            self.post_message(RestoreEnded(_unexpected(error), good=False))
        else:
            state_of = "identical" if done.verified else f"DIFFERS: {done.differences[0]}"
            outcome = f"{done.commands:,} commands restored, {state_of}"
            self.post_message(RestoreEnded(outcome, good=done.verified))

    def _step(self, step: str) -> None:
        self.post_message(RestoreTold(step))


def _unexpected(error: Exception) -> str:
    return str(ClusterError(f"{type(error).__name__}: {error}: look at the topic and the journal"))


def _plan_parts(plan: RestorePlan) -> Iterator[Part]:
    source, present = plan.source, plan.present
    yield Part(f"{len(source.commands):,} commands, offsets {source.offsets.value}")
    if plan.done:
        yield Part("the topic holds these very commands already: nothing is to be done")
    elif present is None:
        yield Part(f"{plan.topic} does not exist and will be created", Role.WAITING)
    else:
        yield Part(
            f"{plan.topic} holds {present.commands:,} commands and will be deleted; "
            f"{present.lost:,} of them are not in the backup",
            Role.LOST if present.lost else Role.WAITING,
        )
    for one in plan.servers.seen:
        yield Part(f"a server seems to run: {one}", Role.FAILED)
    for one in plan.servers.unseen:
        yield Part(f"? {one}", Role.UNKNOWN)
