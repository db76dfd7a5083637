"""The pages of elections: of picked partitions or a plan, and of a journal taken up again.

Shown, agreed to by typing, read again, run, watched. While a request may be under way there is no
way back, only a stop after it. Afterwards groups are moved, records put back, all accounted for.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.context import Context, Known
from breakglass.screens.elect import wording
from breakglass.screens.elect.state import (
    AftermathFound,
    ElectionProgress,
    ElectionState,
    ElectionWorker,
    LadderMoved,
    Phase,
    SubjectFrozen,
    UnknownsAnswered,
    subject_in,
)
from breakglass.screens.elect.view import GuardedView
from breakglass.screens.guard import (
    ActEnded,
    ActFailed,
    ActReported,
    AddReplicasPage,
    GroupsPage,
    GuardedPage,
    GuardMessage,
)
from breakglass.screens.journal import LedgerScreen, MadeLedger, make_ledger, saved_words
from breakglass.screens.messages import CopyAsked, ResumeAsked
from breakglass.screens.refreshing import in_thread
from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.act import Armed, Front, Underway
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.acts.add_replicas import AddReplicas
from breakglass.services.recovery.acts.elect import Elect, waiting_for
from breakglass.services.recovery.acts.move_groups import MoveGroups
from breakglass.services.recovery.acts.resume import ResumeJournal
from breakglass.services.recovery.evidence.contents import ContentsReading
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import (
    ElectionSubject,
    subject_of,
    subject_of_plan,
)
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.triage import Selection, Triage, judge, select
from breakglass.themes.roles import Role

if TYPE_CHECKING:
    from breakglass.services.incident.incident import Incident
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.plan.document import Plan


FILE = "elected.json"


def put_back_command(progress: ElectionProgress, connection_words: Sequence[str]) -> str:
    """What appends the rescued records to the elected logs; empty where nothing was saved."""
    saved = [(result, place) for result in progress.rescued for place in result.saved]
    if not saved:
        return ""
    elections = {
        result.partition: {
            "topic": result.partition.topic,
            "partition": result.partition.partition,
            "designatedLeader": result.designee,
        }
        for result, _ in saved
    }
    # A folder of a rescue has a backup for each broker: b2/orders/3.
    store = saved[0][1].path.parents[2]
    told = shlex.quote(json.dumps({"partitions": list(elections.values())}))
    restore = ("breakglass", "backup", "restore", "--tail-of", FILE, "--store", str(store))
    return f"echo {told} > {FILE} && {shlex.join((*restore, '--write', *connection_words))}"


class ElectionPage(GuardedPage):
    """One undertaking from its price to what is left to do."""

    VERTICAL_BREAKPOINTS = [(0, "-short"), (24, "-tall")]  # noqa: RUF012 -- as Screen has it
    DEFAULT_CSS = """
    ElectionPage.-short #after { max-height: 5; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", tooltip="Leave; cancels what was not sent yet"),
        Binding(
            "ctrl+t",
            "rescue",
            "Rescue on/off",
            tooltip="Rescue what is cut off first, or elect without",
        ),
        Binding(
            "ctrl+x", "leave_out", "Leave out", tooltip="Leave out the partition under the cursor"
        ),
        Binding(
            "ctrl+o",
            "leave_out_alone",
            "Only the bulk",
            tooltip="Leave out all that need their own phrase",
        ),
        Binding("s", "stop", "Stop", tooltip="Stop after the current batch"),
        Binding(
            "u", "check_again", "Check unknown", tooltip="Ask the cluster about unknown outcomes"
        ),
        Binding("r", "go_on", "Resume", tooltip="Resume the journal: finish what is left"),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("l", "ledger", "Ledger", tooltip="Account for every record of this incident"),
        Binding("a", "add_replicas", "Add replicas", tooltip="Make the rest readable"),
        Binding("o", "groups", "Offsets", tooltip="Move groups past the end to the log end"),
        Binding(
            "p",
            "copy_put_back",
            "Put back",
            tooltip="Copy the command that appends what was rescued to the elected logs",
        ),
        Binding("c", "copy_journal", "Copy path", tooltip="Copy the journal's path"),
    ]

    _worker: ElectionWorker

    def __init__(self, context: Context, act: Elect | ResumeJournal) -> None:
        folder = context.state_folder
        rescue = RescueChoice(to=None if folder is None else folder / "rescue")
        self.state = ElectionState(context.armed, act.doing, rescue)
        self._left_out: set[TopicPartition] = set()
        """By the operator, however often it is read again."""
        self._counting = False
        """Something is being left out: a phrase for what is shown still is none for the rest."""
        super().__init__(context, act)
        self._typed = self.state.given

    def body(self) -> Iterator[Widget]:
        yield GuardedView(self.state)

    def on_mount(self) -> None:
        self.consent.cancel.focus()
        self._freeze()

    def on_unmount(self) -> None:
        self._worker.left.set()

    def new_worker(self, number: int) -> ElectionWorker:
        act = replace(self.act, rescue=self.state.rescue)  # type: ignore[type-var]
        left_out = frozenset(self._left_out)
        return ElectionWorker(
            number, self.context, act, self.post_message, self.post_app, left_out=left_out
        )

    # Steps.

    def _freeze(self) -> None:
        self.state.phase = Phase.READING
        self._begin(lambda worker: worker.freeze())
        self.say("")

    def carry_out(self) -> None:
        subject = self.state.subject
        assert subject is not None
        self.table.focus()
        self.state.reread(subject)
        super().carry_out()
        self.say("")

    # What the thread tells.

    def heard(self, message: GuardMessage) -> None:
        state = self.state
        match message:
            case SubjectFrozen():
                frozen = self._frozen = message.frozen
                subject = subject_in(frozen)
                reasons = {change.what: change.reason for change in message.changed}
                rows = {str(row.partition): row.partition for row in self.state.every_row}
                rows |= {str(row.partition): row.partition for row in message.rows}
                self.state.changed = {
                    rows[name]: why for name, why in reasons.items() if name in rows
                }
                self.state.review(subject, message.rows, frozen.asked)
                self._review(wording.changed_told(reasons, subject), Role.FAILED)
                if message.changed:
                    self.table.action_jump(0)
            case ActFailed():
                self._failed(message.error)
            case ActReported(event=Underway(text=text)):
                if text:
                    self.say(f"Waiting: {text}", Role.RUNNING)
            case ActReported():
                if isinstance(message.event, Armed):
                    state.phase = Phase.RUNNING
                    state.progress.begin(tuple(state.progress.standings))
                state.progress.take(message.event)
                self.say("")
            case ActEnded():
                state.progress.end(message.ending)
                self._finish()
                self.say("")
                self.table.action_jump(0)
            case AftermathFound():
                state.aftermath = message.aftermath
                self._show()
            case LadderMoved():
                state.progress.told(message.outcomes)
                self._show()
            case UnknownsAnswered():
                state.answered = wording.answers_told(message.found)
                left = message.found.remains
                state.reopened = bool(left.offline or left.led)
                state.progress.told(message.settled)
                self.say("")

    def _failed(self, error: BreakglassError | None) -> None:
        told = "Cancelled: nothing was sent." if error is None else str(error)
        if self.state.phase is Phase.RUNNING:
            self._finish()
        if self.state.phase is Phase.DONE:
            self.say(told, Role.FAILED)
        else:
            subject = self.state.subject or ElectionSubject("")
            asked = () if self._frozen is None else self._frozen.asked
            self.state.review(subject, self.state.every_row, asked)
            self._review(told, Role.FAILED)

    def _review(self, note: str = "", role: Role | None = None) -> None:
        self._counting = False
        self.consent.restart()
        self.say(note, role)
        self._view.point_at(self.state.next_asked)

    def _finish(self) -> None:
        self.state.phase = Phase.DONE
        self.table.focus()

    # What the operator does.

    @property
    def phrase(self) -> str | None:
        asked = self.state.next_asked
        unseen = self._counting or self._view.too_small
        return None if asked is None or unseen else asked.phrase

    def ask_next(self) -> None:
        self.say("")
        self._view.point_at(self.state.next_asked)

    def action_leave(self) -> None:
        """Leave; before anything was sent give that up; never leave a request under way."""
        if self.state.phase is Phase.REREADING:
            self._worker.give_up()
            self.say("Cancelling: nothing is sent.", Role.RUNNING)
        elif self.state.phase is Phase.RUNNING:
            self.say("Still running: s stops it after the current batch.", Role.RUNNING)
        else:
            self._worker.left.set()
            self.dismiss()

    def action_stop(self) -> None:
        self._worker.stop_asked.set()
        self.say("Stopping: the current batch is finished and journaled.", Role.RUNNING)

    def action_ask_refresh(self) -> None:
        if self.state.phase is Phase.REVIEW:
            self._freeze()
        super().action_ask_refresh()

    def action_rescue(self) -> None:
        self.state.rescue = RescueChoice(not self.state.rescue.without, self.state.rescue.to)
        self._show()

    def action_leave_out(self) -> None:
        row = self.table.current
        if row is not None:
            self._leave_out({row.partition})

    def action_leave_out_alone(self) -> None:
        if self.state.subject is not None:
            self._leave_out(self.state.subject.why_alone.keys())

    def _leave_out(self, partitions: Collection[TopicPartition]) -> None:
        frozen = self._frozen
        if frozen is not None:
            self._counting = True
            self._left_out.update(partitions)
            self._begin(lambda worker: worker.leave_out(frozen))

    def action_check_again(self) -> None:
        journal = self.state.progress.journal
        if journal is not None:
            unknown = self.state.progress.unknown
            self._in_thread(partial(self._worker.check_again, journal, unknown))
            self.say("Asking the cluster again; nothing is elected.", Role.RUNNING)

    def action_go_on(self) -> None:
        journal = self.state.progress.journal
        if journal is not None:
            self.app.post_message(ResumeAsked(journal))
            self.action_leave()

    def action_copy_journal(self) -> None:
        journal = self.state.progress.journal
        if journal is not None:
            self.app.post_message(CopyAsked(str(journal), "the journal's path"))

    def action_groups(self) -> None:
        self.app.push_screen(GroupsPage(self.context, MoveGroups()))

    def action_add_replicas(self) -> None:
        waiting = {
            outcome.partition.topic
            for outcome in self.state.progress.outcomes.values()
            if outcome.not_yet_readable
        }
        self.app.push_screen(AddReplicasPage(self.context, AddReplicas(tuple(sorted(waiting)))))

    def action_copy_put_back(self) -> None:
        command = put_back_command(self.state.progress, self.context.connection_words)
        self.app.post_message(CopyAsked(command, "the command"))

    def action_ledger(self) -> None:
        journal = self.state.progress.journal
        if journal is not None:
            make = partial(make_ledger, self.context, journal)
            in_thread(self, "election", make, self._ledger_made)
            self.say("Accounting for every record.", Role.RUNNING)

    def _ledger_made(self, made: MadeLedger | Unknown) -> None:
        if isinstance(made, Unknown):
            self.say(made.reason, Role.FAILED)
        else:
            self.say("")
            self.app.push_screen(LedgerScreen(self.context, made, self._ledger_saved))

    def _ledger_saved(self, saved: Path | Unknown) -> None:
        self.say(saved_words(saved), Role.FAILED if isinstance(saved, Unknown) else None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """The keys that mean something now; the others are not offered."""
        if action.startswith("leave_out") and isinstance(self.act, ResumeJournal):
            return False
        meant = _MEANT.get(action)
        return meant is None or meant(self.state)

    # What is shown.

    @property
    def _view(self) -> GuardedView:
        return self.query_one(GuardedView)

    def say(self, told: str, role: Role | None = None) -> None:
        self.state.say(told, role)
        self._show()

    def _show(self) -> None:
        self._view.show()
        self.refresh_bindings()


def _reviewed(state: ElectionState) -> ElectionSubject | None:
    return state.subject if state.phase is Phase.REVIEW else None


_MEANT: dict[str, Callable[[ElectionState], bool]] = {
    "rescue": lambda state: bool((one := _reviewed(state)) and one.rescue.records > 0),
    "leave_out": lambda state: bool((one := _reviewed(state)) and one.wanted),
    "leave_out_alone": lambda state: bool((one := _reviewed(state)) and one.why_alone),
    "stop": lambda state: state.phase is Phase.RUNNING,
    "check_again": lambda state: (
        state.phase is Phase.DONE and state.progress.count(RecoveryResult.UNKNOWN) > 0
    ),
    "go_on": lambda state: state.resumable,
    "ledger": lambda state: state.phase is Phase.DONE and state.progress.journal is not None,
    "groups": lambda state: (
        state.phase is Phase.DONE
        and state.aftermath is not None
        and bool(state.aftermath.groups_past_end)
    ),
    "add_replicas": lambda state: (
        state.phase is Phase.DONE
        and any(outcome.not_yet_readable for outcome in state.progress.outcomes.values())
    ),
    "copy_put_back": lambda state: (
        state.phase is Phase.DONE and any(one.saved for one in state.progress.rescued)
    ),
    "copy_journal": lambda state: state.progress.journal is not None,
}
"""When an action means something; the others always do."""


@dataclass(frozen=True)
class PickedPartitions:
    """Proposes the recommended replica of each of *partitions*."""

    known: Known
    """What the watch read last; only what it has not read yet is read."""
    partitions: tuple[TopicPartition, ...]

    def __call__(self, front: Front) -> ElectionSubject:
        incident = self.known.incident
        with front.reading() as client:
            if incident is not None and all(map(partial(_judged, incident), self.partitions)):
                cluster_id, native = incident.snapshot.cluster_id, incident.native
                # What is known of them, with the contents that the watch has not read yet.
                known = list(incident.assessments(self.partitions))
                reading = ContentsReading(client, front.cluster.contents, stop=front.stop)
                before = [assessment.evidence for assessment in known]
                if any(reading.due(before)):
                    # Beside each replica stands who was not reached.
                    with suppress(BreakglassError):
                        client.describe(Deadline.after(patience.SNAPSHOT))
                now = reading.read(before)
                known = [
                    row if evidence is row.evidence else assess(evidence, incident.circumstances)
                    for row, evidence in zip(known, now, strict=True)
                ]
                return subject_of(cluster_id, self.partitions, known, native)
            selection = select(client, self.partitions)
            cluster_id = selection.snapshot.cluster_id
            if incident is not None:
                require_same_cluster(incident.snapshot.cluster_id, cluster_id)
            gone = () if incident is None else tuple(incident.circumstances.ruled_out)
            judged, native = judgements(client, selection, front, gone)
        return subject_of(cluster_id, self.partitions, judged, native)


@dataclass(frozen=True)
class PlannedElections:
    """Proposes the elections of *plan*, on evidence read now."""

    plan: Plan

    def __call__(self, front: Front) -> ElectionSubject:
        from breakglass.services.recovery.plan.check import require_cluster
        from breakglass.services.recovery.plan.make import appraise

        leaders = self.plan.leaders
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.SNAPSHOT)).cluster_id
            require_cluster(self.plan, cluster_id, "the plan")
            selection = select(client, tuple(leaders))
            judged, native = judgements(
                client, selection, front, chosen=lambda evidence: leaders.get(evidence.partition)
            )
        return subject_of_plan(appraise(self.plan, selection, judged), cluster_id, native)


def judgements(
    client: ReadClient,
    selection: Selection,
    front: Front,
    gone: Sequence[int] = (),
    chosen: Callable[[PartitionEvidence], int | None] = lambda _: None,
) -> tuple[Iterable[Assessment], NativeRpc]:
    """The judgements of what is offline in *selection*, on evidence read now."""
    found: Triage | None = None
    if selection.offline:
        access = front.cluster
        for found in judge(
            client,
            selection.snapshot,
            selection.offline,
            patience.LOGS,
            access.native_rpc,
            gone,
            front.stop,
            contents=access.contents,
            chosen=chosen,
        ):
            front.tell(Underway(waiting_for(found)))
    return ((), STOCK) if found is None else (found.assessments, found.native)


def _judged(incident: Incident, partition: TopicPartition) -> bool:
    """Whether nothing is to be read of *partition*: it was judged, or is not offline any more."""
    row = incident.row(partition)
    return row is None or row.judged is not None


class ElectScreen(ElectionPage):
    """The elections of picked partitions, each its recommended replica, or of a plan."""

    TITLE = "Elect"
    ABOUT = (
        "Who is elected, and what each election loses. Type the phrase to confirm. Everything is "
        "read again before anything is sent, and the records to be cut off are saved first."
    )

    def __init__(
        self, context: Context, partitions: Sequence[TopicPartition] = (), plan: Plan | None = None
    ) -> None:
        find = PickedPartitions(context.known, tuple(partitions))
        super().__init__(context, Elect(find if plan is None else PlannedElections(plan)))


class ResumeScreen(ElectionPage):
    """What an unfinished journal left: carried on, or its orders put back."""

    TITLE = "Resume"
    ABOUT = (
        "Where a journal stopped, and what is left to do. Elections already made are confirmed "
        "and their assignment order is put back; the rest is elected at the price already agreed "
        "to."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+y", "undo", "Finish/undo", tooltip="Put assignment orders back; elect nobody")
    ]

    def __init__(self, context: Context, journal: Path) -> None:
        super().__init__(context, ResumeJournal(journal, asks_again=True))

    def action_undo(self) -> None:
        assert isinstance(self.act, ResumeJournal)
        self.state.undo = not self.state.undo
        self.act = replace(self.act, undo=self.state.undo)
        self._freeze()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "undo":
            return self.state.phase is Phase.REVIEW
        return super().check_action(action, parameters)

    def _review(self, note: str = "", role: Role | None = None) -> None:
        if self._frozen is not None:
            view = self._frozen.plan.survey.view
            self.state.intro = wording.journal_told(view.path, view.who, view.result)
        super()._review(note, role)
