"""The Plan screen: what is elected where, edited, saved, approved, and sent to be executed.

Nothing that is imported here imports the plan: it comes with the first one that is made or
opened, in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual import on, work
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.reactive import reactive
from textual.widget import Widget
from typing_extensions import override

from breakglass.screens.messages import DiffAsked, ElectionAsked
from breakglass.screens.page import Page
from breakglass.screens.plan.asking import (
    RENEW,
    ApproveDialog,
    BrokersDialog,
    LeaderDialog,
    Needs,
    NotesDialog,
    ProblemsDialog,
    RulesDialog,
    broker_groups,
    edited,
    rack_groups,
)
from breakglass.screens.plan.desk import Desk, DraftChanged, acts, required
from breakglass.screens.widgets.dialog import Prompt, Question
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.lock import operator
from breakglass.services.model import Unknown
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words, role_style

if TYPE_CHECKING:
    from breakglass.screens.context import Context
    from breakglass.screens.plan.acts import PlanView
    from breakglass.services.incident.incident import Incident
    from breakglass.services.incident.row import IncidentRow
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.plan.edit_form import Problem
    from breakglass.services.recovery.plan.make import PlanRow


VERDICT_ROLES = {
    "BOMB": Role.BOMB,
    "FORK": Role.FORK,
    "LOSS": Role.LOST,
    "STUCK": Role.STUCK,
    "WAIT": Role.WAITING,
    "SAFE": Role.SAFE,
}
STATUS_ROLES = {
    CheckStatus.UNCHANGED: Role.VERIFIED,
    CheckStatus.RERANKED: Role.VERIFIED,
    CheckStatus.NEW: Role.VERIFIED,
    CheckStatus.ONLINE: Role.VERIFIED,
    CheckStatus.CHANGED: Role.STALE,
    CheckStatus.DELETED: Role.STALE,
    CheckStatus.REFUSED: Role.FAILED,
}


def _leader(row: PlanRow) -> Words:
    """Elected whom; a sign of its own where that is not what is recommended."""
    sign = "≠" if row.departs else ""
    if row.leader is None:
        return Words(f"{sign}out", Role.DIFFERENT if row.departs else Role.MUTED)
    return Words(f"{sign}b{row.leader}", Role.DIFFERENT if row.departs else Role.DESIGNEE)


def _loses(row: PlanRow) -> Words:
    if row.loses is None:
        return Words("-") if row.leader is None else Words("?", Role.UNKNOWN)
    if isinstance(row.loses.records, Unknown):
        return Words("?", Role.UNKNOWN)
    return Words(str(row.loses), Role.LOST if row.loses.records else None)


def _now(row: PlanRow) -> Words:
    if row.checked is None:
        return Words("-", Role.MUTED)
    return Words(row.checked.status.value, STATUS_ROLES[row.checked.status])


WIDE = 100
"""Characters of a screen that has room for sentences in its rows."""


def columns_for(width: int) -> tuple[LineColumn[PlanRow], ...]:
    """The columns of a table of so many characters; names give way before sentences are there."""
    wide = width >= WIDE
    columns: tuple[LineColumn[PlanRow], ...] = (
        LineColumn(
            "Verdict", lambda row: Words(row.verdict or "?", VERDICT_ROLES.get(row.verdict))
        ),
        LineColumn("Topic-partition", lambda row: str(row.partition), shrinks=not wide, tail="-"),
        LineColumn("Elects", _leader),
        LineColumn("Best", lambda row: "-" if row.recommended is None else f"b{row.recommended}"),
        LineColumn("Loses", _loses, right=True),
        LineColumn("Unread", lambda row: row.unread, right=True),
        LineColumn("By", lambda row: row.chosen_by or "-", least_width=64),
        LineColumn("Now", _now),
    )
    return (
        (*columns, LineColumn("Why", lambda row: row.why, most=200, shrinks=True))
        if wide
        else columns
    )


class RowKind(NamedTuple):
    """One sort of rows."""

    words: str
    """Empty: all of them."""
    keeps: Callable[[PlanRow], bool]


KINDS = (
    RowKind("", lambda row: True),  # noqa: ARG005 -- every row is kept
    RowKind("what departs from the recommendation", lambda row: row.departs),
    RowKind("what is left out", lambda row: row.leader is None),
    RowKind(
        "what cannot be elected as planned",
        lambda row: row.checked is not None and not row.checked.status.fine,
    ),
)


class PlanFilter(NamedTuple):
    """A kind of rows, and what their names contain."""

    kind: int = 0
    contains: str = ""

    def rows(self, rows: Sequence[PlanRow]) -> Sequence[PlanRow]:
        if not self:
            return rows
        keeps, contains = KINDS[self.kind].keeps, self.contains
        return [row for row in rows if keeps(row) and contains in str(row.partition)]

    def __bool__(self) -> bool:
        return bool(self.kind or self.contains)

    def words(self, shown: int, total: int) -> str:
        """``showing what is left out (3 of 2,000); Esc shows all``; empty where all are shown."""
        if not self:
            return ""
        named = f"names with {bounded(self.contains, 40)}" if self.contains else ""
        what = ", ".join(filter(None, (KINDS[self.kind].words, named)))
        return f"showing {what} ({shown:,} of {total:,}); Esc shows all"

    def next_kind(self) -> PlanFilter:
        """The same names, another kind."""
        return self._replace(kind=(self.kind + 1) % len(KINDS))


SAID_LENGTH = 300
NAME_LENGTH = 40
CHANGED_SINCE = "the cluster has changed since: ctrl+r checks it"


class PlanSummary(Widget):
    """Digest, totals, file, approvals, the last edit, and whether it must be read again."""

    DEFAULT_CSS = """
    PlanSummary { height: auto; max-height: 7; }
    """

    view: reactive[PlanView | None] = reactive(None, layout=True)
    said: reactive[str] = reactive("", layout=True)
    """What was done last."""
    failed: reactive[bool] = reactive(False)
    """That was refused."""
    outdated: reactive[bool] = reactive(False, layout=True)
    """The cluster was read again since the plan was made or checked."""
    showing: reactive[str] = reactive("", layout=True)
    """Which rows are shown and marked; empty: all and none."""

    def render(self) -> Text:
        text = Text(no_wrap=False)
        for number, (line, role) in enumerate(self._lines()):
            style = role_style(self.app, role)
            text.append("\n " if number else " ").append(inert(line), style)
        return text

    def _lines(self) -> Iterator[tuple[str, Role | None]]:
        if self.view is not None:
            view = self.view
            left = view.totals.left_out
            out = f"; leaves out {left:,}" if left else ""
            yield f"{view.spoken}  {view.totals}{out}", Role.HEADING
            yield "  ".join(_standing(view)), None
            draft = self.view.draft
            if draft.plan.breakglass is None:
                yield "NO EVIDENCE: a file in Kafka's format; ctrl+r reads it", Role.STALE
            elif draft.stale:
                yield f"STALE: {draft.stale}; ctrl+r reads everything again", Role.STALE
            elif self.view.statuses:
                role = (
                    Role.VERIFIED
                    if all(status.fine for status in self.view.statuses)
                    else Role.STALE
                )
                counts = ", ".join(
                    f"{number:,} {status}" for status, number in self.view.statuses.items()
                )
                yield f"checked {time_text(draft.checked_at_ms)}: {counts}", role
                if self.outdated:
                    yield CHANGED_SINCE, Role.STALE
            elif self.outdated:
                yield CHANGED_SINCE, Role.STALE
        if self.showing:
            yield self.showing, Role.MARKED
        if self.said:
            yield bounded(self.said, SAID_LENGTH), Role.FAILED if self.failed else None


def _standing(view: PlanView) -> Iterator[str]:
    draft = view.draft
    name = "in no file" if draft.opened is None else bounded(draft.opened.path.name, NAME_LENGTH)
    yield f"{name} (not saved)" if draft.unsaved and draft.opened else name
    if draft.plan.breakglass is not None:
        yield f"made {time_text(draft.plan.breakglass.made_at_ms)}"
    approved = f"approved {len(view.approved)} of {view.wanted}"
    yield f"{approved}: {bounded(', '.join(view.approved), 60)}" if view.approved else approved
    if view.void:
        yield f"void: {bounded(', '.join(view.void), 40)}"
    if view.notes:
        yield f"{len(view.notes)} note{'s' * (len(view.notes) != 1)}"
    if view.departing:
        yield f"{view.departing:,} ≠ best"


class RowDetail(Widget):
    """The row under the cursor in full sentences."""

    DEFAULT_CSS = """
    RowDetail { height: 3; }
    """

    row: reactive[PlanRow | None] = reactive(None)

    def render(self) -> Text:
        row = self.row
        if row is None:
            return Text("")
        text = Text(" ", no_wrap=False)
        text.append(inert(bounded(f"{row.partition}", 80)), role_style(self.app, Role.HEADING))
        text.append(inert(bounded(f": {_sentence(row)}", SAID_LENGTH)))
        if row.checked is not None and row.checked.reason:
            role = Role.STALE if not row.checked.status.fine else Role.MUTED
            said = bounded(row.checked.reason, SAID_LENGTH)
            text.append(f"\n {row.checked.status}: {said}", role_style(self.app, role))
        return text


def _sentence(row: PlanRow) -> str:
    why = f": {row.why}" if row.why else ""
    if row.leader is None:
        return f"left out{why}" if row.why != "left out by hand" else row.why
    by = f" by {row.chosen_by}" if row.chosen_by else ""
    return f"elects b{row.leader}{by}{f'; {row.why}' if row.why else ''}"


class Basis:
    """The essence of each partition's row; None for one that was not read."""

    def __init__(self, incident: Incident, partitions: Iterable[TopicPartition]) -> None:
        self._essences = {partition: _essence(incident.row(partition)) for partition in partitions}
        self._rows: object = incident.rows
        """Those that were looked at last: the very same ones need no second look."""
        self._outdated = False

    def outdated_by(self, incident: Incident) -> bool:
        """Whether *incident* says something else of one of the partitions."""
        if incident.rows is not self._rows:
            self._rows, self._outdated = incident.rows, self._differs(incident)
        return self._outdated

    def _differs(self, incident: Incident) -> bool:
        for partition, then in self._essences.items():
            now = _essence(incident.row(partition))
            if now is not None and now != then:
                return True
        return False


def _essence(row: IncidentRow | None) -> object:
    """What a plan rests on, as far as a list tells it; None: it was not read yet."""
    if row is None:
        return "has a leader"
    if row.judged is None:
        return None
    state = row.state
    figures = (row.loss, row.log_end, row.epoch, row.unread_at_least)
    return (
        state.topic_id,
        state.leader_epoch,
        state.assignment,
        row.verdict,
        row.designee,
        tuple(["?" if isinstance(figure, Unknown) else figure for figure in figures]),
    )


NO_TERMINAL = (
    "There is no terminal here for an editor: save the plan (s), edit the file, open it (o)."
)
NO_PLAN = "No plan yet: p makes one of all that is offline, o opens one from a file."
NOTHING_READ = "The cluster has not been read yet: wait for the first answer."
NO_ROWS = "No row matches: Esc shows all."


class PlanScreen(Page):
    """The plan as a document that is edited."""

    TITLE = "Plan"
    ABOUT = (
        "Whom to elect for each partition, and what that loses. Nothing here changes the cluster: "
        "e opens the guarded election. ≠ marks what differs from the recommendation."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "leader", "Leader", tooltip="Choose who leads this partition (also Enter)"),
        Binding(
            "x", "out_or_in", "Out/in", tooltip="Leave out what is marked, or take it in again"
        ),
        Binding("X", "leave_out", "Leave out, saying why", show=False),
        Binding("b", "rules", "Rules", tooltip="A rule for many: least loss, prefer, never ..."),
        Binding("u", "undo", "Undo", tooltip="Undo the last edit"),
        Binding("ctrl+y", "redo", "Redo", show=False, tooltip="Redo what was undone"),
        Binding("a", "approve", "Approve", tooltip="Approve: read out the digest, name who agrees"),
        Binding("s", "save", "Save", tooltip="Save the plan to a file"),
        Binding("e", "elect", "Elect", tooltip="Open the guarded election of this plan"),
        Binding("p", "make", "New", tooltip="Make a plan of all that is offline"),
        Binding("o", "open", "Open", tooltip="Open a plan from a file"),
        Binding("v", "edit_text", "As text", tooltip="Edit the plan as text, in your $EDITOR"),
        Binding("n", "notes", "Notes", tooltip="Read and write notes"),
        Binding("space", "mark", "Mark", show=False, tooltip="Mark rows: x and b are for them"),
        Binding("f", "next_kind", "Show", show=False, tooltip="All, departures, left out, stopped"),
        Binding("slash", "find", "Filter", show=False, tooltip="Only names that contain a text"),
        Binding("d", "diff", "Diff", show=False, tooltip="Compare what two replicas hold"),
        Binding("escape", "show_all", "Show all", show=False, tooltip="No filter, no marks"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.desk = Desk(self, self._changed, self._refused)
        self._filter = PlanFilter()
        self._marked: frozenset[TopicPartition] = frozenset()
        self._read_again = False
        """The operator has asked for everything to be read; it is checked when it is there."""
        self._asked_at = 0.0
        self._against: Incident | None = None
        """What the plan is being made of, or checked against."""
        self._basis: Basis | None = None

    @override
    def body(self) -> Iterator[Widget]:
        yield PlanSummary()
        yield LineTable(columns_for(0), lambda row: row.partition, empty=NO_PLAN)
        yield RowDetail()

    @property
    def view(self) -> PlanView | None:
        return self.desk.view

    @property
    def incident(self) -> Incident | None:
        return self.context.known.incident

    @property
    def current(self) -> PlanRow | None:
        return self._table.current

    @property
    def marked(self) -> tuple[TopicPartition, ...]:
        rows = () if self.view is None else self.view.rows
        return tuple([row.partition for row in rows if row.partition in self._marked])

    @property
    def _table(self) -> LineTable[PlanRow]:
        return self.query_one(LineTable)

    @override
    def unsaved(self) -> str:
        draft = None if self.view is None else self.view.draft
        if draft is None or not draft.unsaved or draft.history.last is None:
            return ""
        return "The plan has edits that are not saved (3 shows it, s saves it)."

    def say(self, text: str, *, failed: bool = False) -> None:
        summary = self.query_one(PlanSummary)
        summary.said, summary.failed = text, failed

    def on_mount(self) -> None:
        self._table.focus()

    def on_resize(self, event: Resize) -> None:
        self._table.set_columns(columns_for(event.size.width))

    @override
    def show_known(self) -> None:
        self._check_when_read()
        known = self.context.known.incident
        basis = self._basis
        outdated = known is not None and basis is not None and basis.outdated_by(known)
        self.query_one(PlanSummary).outdated = outdated

    @override
    def tick(self) -> None:
        self._check_when_read()

    @override
    def action_ask_refresh(self) -> None:
        if self.view is not None:
            self._read_again, self._asked_at = True, self.context.clock()
            self.say("Reading everything again.")
        super().action_ask_refresh()

    def _check_when_read(self) -> None:
        known = self.context.known
        if not self._read_again or known.incident is None:
            return
        fresh = known.read_at is not None and known.read_at >= self._asked_at
        if fresh and (known.incident.complete or not known.reading):
            self._read_again = False
            self.hold(known.incident)

    def hold(self, incident: Incident) -> None:
        self._against = incident
        self.desk.change(lambda draft: acts.hold(draft, incident))

    def renew(self) -> None:
        incident = self.incident
        if incident is None:
            self.say(NOTHING_READ, failed=True)
            return
        self._against = incident
        self.desk.change(lambda draft: acts.renew(draft, incident))

    @work(group="dialog")
    async def begin(self, partitions: Sequence[TopicPartition] = ()) -> None:
        """Make a plan of *partitions*, or of all that are offline."""
        incident = self.incident
        if incident is None:
            self.say(NOTHING_READ, failed=True)
        elif await self._may_discard():
            self._against = incident
            self.say("Making a plan.")
            self.desk.begin(lambda _: acts.make(incident, partitions))

    async def _may_discard(self) -> bool:
        """Whether the plan may be put away: nothing of it is unsaved, or the operator says so."""
        view = self.view
        if view is None or not view.draft.unsaved:
            return True
        if not (view.draft.history.last or view.approved or view.notes):
            return True
        asked = Question("This plan is not saved", "Its edits, notes and approvals would be lost.")
        return await self.app.push_screen_wait(asked) is True

    def _changed(self, changed: DraftChanged) -> None:
        partitions = [row.partition for row in changed.view.rows]
        self._marked &= frozenset(partitions)
        if self._against is not None:
            self._basis = Basis(self._against, partitions)
            self._against = None
        self.say(changed.said)
        self._show_rows()
        self.show_known()

    def _refused(self, error: BreakglassError) -> None:
        self._against = None
        self.say(str(error), failed=True)

    @on(LineTable.Moved)
    def _moved(self, message: LineTable.Moved) -> None:
        self.query_one(RowDetail).row = message.row

    @on(LineTable.Chosen)
    def _chosen(self) -> None:
        self.action_leader()

    def _show_rows(self) -> None:
        view = self.view
        assert view is not None, "there is a plan"
        rows = self._filter.rows(view.rows)
        table, summary = self._table, self.query_one(PlanSummary)
        table.set_empty(NO_ROWS)
        table.set_rows(rows, marked=self._marked)
        summary.view = view
        self._show_what_is_shown()
        self.query_one(RowDetail).row = table.current
        self.refresh_bindings()

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs a plan is off without one; undo and redo are off with nothing to take back."""
        view = self.view
        if view is None:
            return None if action in _NEED_A_PLAN else True
        if action == "undo":
            return True if view.draft.history.last else None
        if action == "redo":
            return True if view.draft.history.next else None
        return True

    @work(group="dialog")
    async def action_leader(self) -> None:
        from breakglass.services.recovery.plan.make import candidates

        row, view = self.current, self.view
        if row is None:
            return
        record = None if view is None else view.draft.plan.records.get(row.partition)
        if record is None:
            self.say("The plan has no evidence yet: read everything again (ctrl+r).", failed=True)
            return
        dialog = LeaderDialog(row.partition, candidates(record), row.leader, row.recommended)
        broker = await self.app.push_screen_wait(dialog)
        if broker is not None:
            self.desk.change(lambda draft: acts.elect(draft, row.partition, broker))

    def action_out_or_in(self) -> None:
        meant = self._meant()
        self.desk.change(lambda draft: acts.out_or_in(draft, meant))

    @work(group="dialog")
    async def action_leave_out(self) -> None:
        meant = self._meant()
        if not meant:
            return
        prompt = Prompt(
            f"Why is {acts.named(meant)} left out?", about="Kept in the plan.", longest=1_000
        )
        reason = await self.app.push_screen_wait(prompt)
        if reason is not None:
            self.desk.change(lambda draft: acts.leave_out(draft, meant, reason.strip()))

    @work(group="dialog")
    async def action_rules(self) -> None:
        """Ask for a rule and for what it is about, and apply it to what is marked or to all."""
        view = self.view
        if view is None:
            return
        only = frozenset(self.marked) or None
        scope = f"all {partitions_text(len(view.rows))}"
        if only:
            scope = f"the {partitions_text(len(only))} marked"
        rule = await self.app.push_screen_wait(RulesDialog(scope))
        if rule is None:
            return
        if rule.name == RENEW:
            self.renew()
            return
        brokers: frozenset[int] | None = frozenset()
        if rule.needs is not Needs.NOTHING:
            known = () if self.incident is None else self.incident.snapshot.brokers
            racks = {broker.id: broker.rack for broker in known if broker.rack is not None}
            by_rack = rule.needs is Needs.RACK
            groups = (rack_groups if by_rack else broker_groups)(view, racks)
            dialog = BrokersDialog(rule.title, groups, "In rack" if by_rack else "Broker")
            brokers = await self.app.push_screen_wait(dialog)
        if brokers is not None:
            self.desk.change(lambda draft: acts.rule(draft, rule.name, brokers, only))

    def action_undo(self) -> None:
        self.desk.change(lambda draft: acts.undo(draft))

    def action_redo(self) -> None:
        self.desk.change(lambda draft: acts.redo(draft))

    @work(group="dialog")
    async def action_approve(self) -> None:
        """Show the digest and ask who agrees to it."""
        view = self.view
        if view is None:
            return
        name = "" if view.approved else operator()
        dialog = ApproveDialog(view.spoken, str(view.totals), view.approved, view.void, name)
        given = await self.app.push_screen_wait(dialog)
        if given is not None:
            now = now_ms()
            self.desk.change(lambda draft: acts.agree(draft, given.name, given.heard, now))

    @work(group="dialog")
    async def action_notes(self) -> None:
        if self.view is None:
            return
        notes = await self.app.push_screen_wait(NotesDialog(self.view.notes))
        if notes is not None:
            self.desk.change(lambda draft: acts.write_notes(draft, notes))

    @work(group="dialog")
    async def action_save(self) -> None:
        if self.view is None:
            return
        opened = self.view.draft.opened
        prompt = Prompt(
            "Save the plan to which file?",
            about="An existing file is never overwritten, except the plan's own.",
            value=str(opened.path) if opened else f"plan-{datetime.now(UTC):%Y%m%d-%H%M%S}.json",
            fault=_no_name,
        )
        given = await self.app.push_screen_wait(prompt)
        if given is not None:
            path = Path(given.strip()).expanduser()
            self.desk.change(lambda draft: acts.save(draft, path))

    @work(group="dialog")
    async def action_open(self) -> None:
        if not await self._may_discard():
            return
        about = "A Breakglass plan, or a file in Kafka's format."
        prompt = Prompt("Open which plan?", about=about, fault=_no_name)
        given = await self.app.push_screen_wait(prompt)
        if given is not None:
            path = Path(given.strip()).expanduser()
            # It is an older one: changes of the cluster since then are not reported.
            self._basis = self._against = None
            self.desk.begin(lambda _: acts.open_file(path))

    def action_edit_text(self) -> None:
        """Write the plan out as a text, and give it to the operator's editor."""
        self.desk.ask(lambda draft: acts.write_out(required(draft)), self._edit_text)

    def _edit_text(self, text: str, line: int = 1) -> None:
        """Give the terminal to the operator's editor until the text is edited, and take it back."""
        try:
            after = edited(text, line, self.app.suspend)
        except SuspendNotSupported:
            self.say(NO_TERMINAL, failed=True)
        except BreakglassError as error:
            self.say(str(error), failed=True)
        else:
            if after is None:
                self.say("The text was not edited: the plan is unchanged.")
            else:
                self.desk.ask(
                    lambda draft: acts.take_back(required(draft), after),
                    partial(self._taken_back, after),
                )

    def _taken_back(self, text: str, found: DraftChanged | tuple[Problem, ...]) -> None:
        if isinstance(found, DraftChanged):
            self._changed(found)
        else:
            self._mend(text, found)

    @work(group="dialog")
    async def _mend(self, text: str, problems: Sequence[Problem]) -> None:
        """Show what is wrong with *text*; it is edited again at the line that is chosen."""
        line = await self.app.push_screen_wait(ProblemsDialog(problems))
        if line is None:
            self.say("The text was discarded; the plan is unchanged.")
        else:
            self._edit_text(text, line)

    def action_make(self) -> None:
        self.begin()

    def action_elect(self) -> None:
        # The edits before are part of what is elected, be they still under way.
        self.desk.when_done(self._elect)

    def _elect(self) -> None:
        view = self.view
        if view is None:
            return
        if view.draft.barrier:
            self.say(f"Cannot be elected: {view.draft.barrier}.", failed=True)
        else:
            self.app.post_message(ElectionAsked(plan=view.draft.plan))

    def action_diff(self) -> None:
        if self.current is not None:
            self.app.post_message(DiffAsked(self.current.partition))

    def action_mark(self) -> None:
        if self.current is not None:
            self._marked ^= {self.current.partition}
            self._table.set_marked(self._marked)
            self._table.action_move(1)
            self._show_what_is_shown()

    def action_next_kind(self) -> None:
        self._keep(self._filter.next_kind())

    @work(group="dialog")
    async def action_find(self) -> None:
        before = self._filter.contains
        prompt = Prompt("Only partitions whose names contain", value=before, longest=249)
        contains = await self.app.push_screen_wait(prompt)
        if contains is not None:
            self._keep(self._filter._replace(contains=contains))

    def action_show_all(self) -> None:
        self._marked = frozenset()
        self._keep(PlanFilter())

    def _keep(self, wanted: PlanFilter) -> None:
        self._filter = wanted
        if self.view is not None:
            self._show_rows()

    def _show_what_is_shown(self) -> None:
        total = 0 if self.view is None else len(self.view.rows)
        number = len(self._marked)
        marked = f"{number:,} marked: x and b are for them" if number else ""
        shown = self._filter.words(len(self._table.rows), total)
        self.query_one(PlanSummary).showing = "; ".join(filter(None, (marked, shown)))

    def _meant(self) -> Sequence[TopicPartition]:
        if self.marked:
            return self.marked
        return [] if self.current is None else [self.current.partition]


_NEED_A_PLAN = {
    *("leader", "out_or_in", "leave_out", "rules", "undo", "redo", "approve", "save", "elect"),
    *("edit_text", "notes", "mark", "next_kind", "find", "diff"),
}


def _no_name(text: str) -> str:
    return "" if text.strip() else "Give the file a name."
