"""The guarded steps of a checkpoint on the screen: evidence, phrase, read again, results.

While something is being changed there is no way back; what only copies goes on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from screens.checkpoints.attempt import Attempt
from screens.checkpoints.messages import ActEnded, ActFrozen, ActTold, FollowEnded
from screens.checkpoints.progress import COLUMNS, Progress, Row
from screens.context import Context
from screens.elect.cancel import Cancel
from screens.messages import MutationBegan
from screens.page import Page
from screens.widgets.consent_field import ConsentField
from screens.widgets.facts import Fact, Facts
from screens.widgets.line_table import LineTable
from screens.widgets.status_bar import Part
from services.checkpoint.guarded.act import Act, Frozen
from services.words.inert import inert
from themes.roles import Role


class GuardedPage(Page):
    """One act, from its evidence to what came of each partition; only in armed sessions."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    GuardedPage #evidence { height: auto; max-height: 50%; overflow-y: auto; }
    GuardedPage #partitions { height: 1fr; min-height: 3; }
    GuardedPage #steps { height: auto; max-height: 8; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", tooltip="Leave; before consent nothing is changed"),
        Binding("tab", "other", "field", tooltip="Between the way out and the phrase"),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
    ]

    def __init__(self, context: Context, act: Act) -> None:
        super().__init__(context)
        self._progress = Progress()
        self._frozen: Frozen | None = None
        self._attempt = Attempt(context, act, self.post_message, self._to_app)
        self._busy = False
        """Something is being changed, or about to be."""

    def body(self) -> Iterator[Widget]:
        yield Facts(id="evidence")
        yield LineTable[Row](COLUMNS, lambda row: row.name, id="partitions", empty="")
        yield Facts(id="steps")
        yield Cancel()
        yield ConsentField(disabled=True)

    def on_mount(self) -> None:
        self._progress.say("reading what there is to do", Role.MUTED)
        self._ask(None)
        self.run_worker(self._attempt.freeze, group="checkpoint", thread=True, exit_on_error=False)

    def show_known(self) -> None:
        self._show()

    def unsaved(self) -> str:
        return "A checkpoint is being changed." if self._busy else ""

    # What the operator does.

    def action_other(self) -> None:
        field, cancel = self._field, self._cancel
        (cancel if field.has_focus or field.disabled else field).focus()

    def action_leave(self) -> None:
        if not self._busy:
            self._attempt.given_up.set()
            self.dismiss()
        elif self._progress.begun:
            self.notify("It is under way: it ends by itself.", markup=False)
        else:
            self._attempt.given_up.set()
            self._say("giving up: nothing is done", Role.RUNNING)

    def action_move(self, by: int) -> None:
        """Where the table has no focus."""
        self._table.action_move(by)

    def action_page(self, by: int) -> None:
        self._table.action_page(by)

    @on(Cancel.Pressed)
    def _cancelled(self) -> None:
        self.action_leave()

    @on(Cancel.Typed)
    def _typed(self, message: Cancel.Typed) -> None:
        """The phrase was begun without Tab."""
        self._field.focus()
        self._field.type(message.character)

    @on(ConsentField.PasteRefused)
    def _pasted(self) -> None:
        self._say("pasting is refused here: read the phrase, then type it", Role.FAILED)

    @on(ConsentField.Given)
    def _given(self, message: ConsentField.Given) -> None:
        frozen, power = self._frozen, self.context.power
        if frozen is None or power is None or self._busy or message.wanted != frozen.phrase:
            return
        if not message.exact:
            self._say("that is not the phrase: nothing was done", Role.FAILED)
            return
        self._busy = True
        self._progress.clear()
        self._progress.say("reading everything again before anything is done", Role.RUNNING)
        self._ask(None)
        self.app.post_message(MutationBegan())
        self.app.run_worker(
            lambda: self._attempt.carry_out(power, frozen),
            group="checkpoint",
            thread=True,
            exit_on_error=False,
        )

    # What the thread tells.

    @on(ActFrozen)
    def _planned(self, message: ActFrozen) -> None:
        self._frozen, self._busy = message.frozen, False
        self._progress.begin(message.frozen.targets)
        if message.changed:
            self._progress.say("Changed since you agreed, so nothing was done:", Role.FAILED)
        for one in message.changed:
            self._progress.say(one, Role.FAILED)
        self._ask(message.frozen.phrase)

    @on(ActTold)
    def _told(self, message: ActTold) -> None:
        self._progress.take(message.event)
        self._show()

    @on(ActEnded)
    def _ended(self, message: ActEnded) -> None:
        self._busy = False
        self._progress.end(message.result, message.told)
        self._ask(None)

    @on(FollowEnded)
    def _followed(self, message: FollowEnded) -> None:
        if message.told:
            self._progress.say(message.told, Role.VERIFIED if message.good else Role.FAILED)
            self._show()

    # What is shown.

    @property
    def _table(self) -> LineTable[Row]:
        return self.query_one("#partitions", LineTable)

    @property
    def _field(self) -> ConsentField:
        return self.query_one(ConsentField)

    @property
    def _cancel(self) -> Cancel:
        return self.query_one(Cancel)

    def _ask(self, phrase: str | None) -> None:
        """Ask for *phrase*; None: for nothing."""
        field, cancel = self._field, self._cancel
        field.disabled, field.display = phrase is None, phrase is not None
        field.wanted, field.typed, cancel.asks = phrase or "", "", phrase is not None
        cancel.word = "Cancel" if phrase is not None else "Leave"
        cancel.focus()
        self._show()

    def _say(self, told: str, role: Role) -> None:
        self._progress.say(told, role)
        self._show()

    def _show(self) -> None:
        self.query_one("#evidence", Facts).facts = tuple(self._evidence())
        self._table.set_rows(self._progress.rows)
        steps = [Fact(label, (part,)) for label, part in self._progress.steps]
        self.query_one("#steps", Facts).facts = tuple(steps)

    def _evidence(self) -> Iterator[Fact]:
        frozen = self._frozen
        if frozen is None:
            return
        for label, told in frozen.facts:
            yield Fact(inert(label), (Part(told),))
        for told in frozen.remarks:
            yield Fact("Note", (Part(told, Role.WAITING),))
        if not self._field.disabled:
            yield Fact("Type", (Part(inert(frozen.phrase), Role.ARMED),))

    def _to_app(self, message: Message) -> None:
        self.app.post_message(message)
