"""The guarded restore of a command topic: what it costs, the phrase, each step, the proof."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from screens.consent_page import ConsentPage
from screens.context import Context
from screens.messages import MutationBegan, MutationEnded
from screens.metastore.messages import RestoreEnded, RestorePlanned, RestoreTold
from screens.unforeseen import of_step
from screens.widgets.consent import ConsentPanel
from screens.widgets.facts import Fact, Facts
from screens.widgets.status_bar import LinePart
from services.errors import OutcomeUnknown
from services.metastore.restore.plan import MetastoreRestorePlan
from services.metastore.settings import MetastoreSettings
from services.words.inert import inert
from themes.roles import Role

if TYPE_CHECKING:
    from services.session import Power

SNAPSHOTS = "before-restore"
CHANGED = "topic"
"""What an error that nobody expected says to look at."""


class RestoreScreen(ConsentPage):
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
        self._plan: MetastoreRestorePlan | None = None
        self._steps: list[LinePart] = [LinePart("reading the backup and the topic ...", Role.MUTED)]
        self._busy = False

    def body(self) -> Iterator[Widget]:
        yield Facts(id="facts")
        yield ConsentPanel()

    def on_mount(self) -> None:
        self.ask(None)
        self.run_worker(self._make_plan, group="restore", thread=True, exit_on_error=False)

    def show_known(self) -> None:
        self._tell()

    def unsaved(self) -> str:
        return "A restore is under way." if self._busy else ""

    def action_leave(self) -> None:
        if self._busy:
            self.notify("The restore is under way: it ends by itself.", markup=False)
        else:
            self.dismiss()

    def refuse(self, told: str) -> None:
        self.notify(told, markup=False)

    def agreed(self) -> None:
        plan, power = self._plan, self.context.power
        if plan is None or power is None:
            return
        self._busy = True
        self.ask(None)
        self.app.post_message(MutationBegan())
        self.run_worker(
            lambda: self._carry_out(power, plan), group="restore", thread=True, exit_on_error=False
        )

    @on(RestorePlanned)
    def _planned(self, message: RestorePlanned) -> None:
        self._plan = message.plan
        self._steps = [*_plan_parts(message.plan)]
        self.ask(None if message.plan.done else message.plan.phrase)

    @on(RestoreTold)
    def _told(self, message: RestoreTold) -> None:
        self._steps.append(LinePart(message.step))
        self._tell()

    @on(RestoreEnded)
    def _ended(self, message: RestoreEnded) -> None:
        self._steps.append(
            LinePart(message.outcome, Role.VERIFIED if message.good else Role.FAILED)
        )
        if self._busy:
            self._busy = False
            self.app.post_message(MutationEnded())
        self._tell()

    def ask(self, phrase: str | None) -> None:
        super().ask(phrase)
        self._tell()

    def _tell(self) -> None:
        facts = [Fact("Restore", (LinePart(str(self._file), Role.HEADING),))]
        facts += [Fact("", (one,)) for one in self._steps]
        if self.phrase is not None:
            facts.append(Fact("Type", (LinePart(inert(self.phrase), Role.ARMED),)))
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
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen tells it
            told = f"nothing was changed: {of_step(error, CHANGED)}"
            self.post_message(RestoreEnded(told, good=False))
        else:
            self.post_message(RestorePlanned(plan))

    def _carry_out(self, power: Power, plan: MetastoreRestorePlan) -> None:
        """In a thread."""
        from services.metastore.restore.journalled import restore_with_journal

        try:
            snapshots = self._file.parent / SNAPSHOTS
            state = self.context.state_folder
            done = restore_with_journal(power, plan, snapshots, self._step, state)
        except OutcomeUnknown as error:
            self.post_message(RestoreEnded(f"UNKNOWN: {error}", good=False))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen tells it
            self.post_message(RestoreEnded(f"failed: {of_step(error, CHANGED)}", good=False))
        else:
            state_of = "identical" if done.verified else f"DIFFERS: {done.differences[0]}"
            outcome = f"{done.commands:,} commands restored, {state_of}"
            self.post_message(RestoreEnded(outcome, good=done.verified))

    def _step(self, step: str) -> None:
        self.post_message(RestoreTold(step))


def _plan_parts(plan: MetastoreRestorePlan) -> Iterator[LinePart]:
    source, present = plan.source, plan.present
    yield LinePart(f"{len(source.commands):,} commands, offsets {source.offsets.value}")
    if plan.done:
        yield LinePart("the topic holds these very commands already: nothing is to be done")
    elif present is None:
        yield LinePart(f"{plan.topic} does not exist and will be created", Role.WAITING)
    else:
        yield LinePart(
            f"{plan.topic} holds {present.commands:,} commands and will be deleted; "
            f"{present.lost:,} of them are not in the backup",
            Role.LOST if present.lost else Role.WAITING,
        )
    for one in plan.servers.seen:
        yield LinePart(f"a server seems to run: {one}", Role.FAILED)
    for one in plan.servers.unseen:
        yield LinePart(f"? {one}", Role.UNKNOWN)
