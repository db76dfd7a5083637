"""What is asked of the operator before an edit: who, what, why.

Rules for many partitions at once: which one, and for which brokers.

Choosing who leads one partition: every replica, what it loses, and why others cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.align import Align
from rich.console import Group as Lines
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.widgets.dialog import Dialog, Field, Prompt, Question
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.clock import now_ms
from breakglass.services.model import TopicPartition, known
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.plan.candidates import ReplicaCandidate
from breakglass.services.words.figures import count, partitions_text
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from breakglass.screens.plan.messages import Editing
    from breakglass.screens.plan.view import PlanView
    from breakglass.services.incident.incident import Incident
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.plan.rows import PlanRow


class LeaderDialog(Dialog[int]):
    """Ends with a broker that can be elected, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "Choose it")]

    def __init__(
        self,
        partition: TopicPartition,
        candidates: Sequence[ReplicaCandidate],
        leader: int | None,
        recommended: int | None,
    ) -> None:
        super().__init__(f"Who leads {partition}?")
        self._candidates, self._leader, self._recommended = candidates, leader, recommended

    def body(self) -> Iterator[Widget]:
        yield LineTable(
            self._columns(), lambda candidate: candidate.broker, empty="no replica is known"
        )

    def on_mount(self) -> None:
        table = self._table()
        table.set_rows(self._candidates)
        table.move_to(self._leader if self._leader is not None else self._recommended)
        table.focus()
        self._explain(table.current)

    @on(LineTable.Moved)
    def _moved(self, message: LineTable.Moved) -> None:
        self._explain(message.row)

    @on(LineTable.Chosen)
    def _chosen(self, message: LineTable.Chosen) -> None:
        chosen: ReplicaCandidate = message.row
        if chosen.eligible:
            self.dismiss(chosen.broker)
        else:
            self.say(f"b{chosen.broker} cannot be elected: {chosen.refusal}")

    def action_choose(self) -> None:
        self._table().action_choose()

    def _table(self) -> LineTable[ReplicaCandidate]:
        return self.query_one(LineTable)

    def _explain(self, candidate: ReplicaCandidate | None) -> None:
        if candidate is None:
            return
        if candidate.refusal:
            self.say(f"b{candidate.broker} cannot be elected: {candidate.refusal}", Role.UNKNOWN)
            return
        told = [_price(candidate)]
        if candidate.own_consent:
            told.append(f"Needs its own consent: {candidate.own_consent}.")
        self.say(
            " ".join(told),
            Role.LOST if _wipes(candidate) else Role.UNKNOWN if candidate.own_consent else None,
        )

    def _columns(self) -> Sequence[LineColumn[ReplicaCandidate]]:
        return (
            LineColumn("Broker", self._broker),
            LineColumn("Role", lambda candidate: Cell(candidate.replica.role.value)),
            LineColumn("LEO", lambda candidate: Cell(count(candidate.replica.log_end)), right=True),
            LineColumn(
                "Epoch",
                lambda candidate: Cell(count(candidate.replica.last_written_epoch)),
                right=True,
            ),
            LineColumn("Loses", _loses, right=True),
            LineColumn("Can lead", _can, shrinks=True),
        )

    def _broker(self, candidate: ReplicaCandidate) -> Cell:
        remarks = []
        if candidate.broker == self._leader:
            remarks.append("elected")
        if candidate.broker == self._recommended:
            remarks.append("best")
        said = f" {', '.join(remarks)}" if remarks else ""
        return Cell(
            f"b{candidate.broker}{said}",
            Role.DESIGNEE if candidate.broker == self._leader else None,
        )


def _wipes(candidate: ReplicaCandidate) -> bool:
    """Its log has no record: electing it destroys all that the others hold."""
    return not holds_records(candidate.replica) and candidate.loses.records != 0


def _price(candidate: ReplicaCandidate) -> str:
    counted = candidate.loses if known(candidate.loses.records) else "an unknown number of records"
    if _wipes(candidate):
        return f"b{candidate.broker} is EMPTY: electing it DESTROYS {counted}."
    return f"Electing b{candidate.broker} loses {counted}."


def _loses(candidate: ReplicaCandidate) -> Cell:
    if not known(candidate.loses.records):
        return Cell("DESTROYS ?", Role.LOST) if _wipes(candidate) else Cell("?", Role.UNKNOWN)
    if _wipes(candidate):
        return Cell(f"DESTROYS {candidate.loses}", Role.LOST)
    return Cell(str(candidate.loses), Role.LOST if candidate.loses.records else None)


def _can(candidate: ReplicaCandidate) -> Cell:
    if candidate.refusal:
        return Cell(f"no: {candidate.refusal}", Role.MUTED)
    return Cell("with its own consent" if candidate.own_consent else "yes")


SHOWN = 300
"""Characters of a note in the list; the whole is below."""

NumberedNote = tuple[int, str]


class NotesDialog(Dialog[tuple[str, ...]]):
    """Ends with the notes as they are to be, or None where nothing was changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Done"),
        Binding("n", "write", "New note"),
        Binding("x", "remove", "Remove"),
    ]

    def __init__(self, notes: Sequence[str]) -> None:
        super().__init__("Notes: kept in the plan, not part of its digest")
        self._before = self._notes = tuple(notes)

    def body(self) -> Iterator[Widget]:
        columns = (
            LineColumn[NumberedNote]("No", lambda note: Cell(f"{note[0] + 1}"), right=True),
            LineColumn[NumberedNote](
                "Note", lambda note: Cell(bounded(note[1], SHOWN)), most=SHOWN, shrinks=True
            ),
        )
        yield LineTable(columns, lambda note: note[0], empty="no notes yet: n writes a note")
        field = Field(placeholder="a new note, Enter keeps it", max_length=1_000, compact=True)
        field.display = False
        yield field

    def on_mount(self) -> None:
        self._show()
        self.query_one(LineTable).focus()

    @on(LineTable.Moved)
    @on(LineTable.Chosen)
    def _tell(self, message: LineTable.Moved | LineTable.Chosen) -> None:
        self.say(message.row[1] if message.row else "", None)

    @on(Field.Submitted)
    def _written(self, message: Field.Submitted) -> None:
        from breakglass.services.recovery.plan.notes import note_fault, number_fault

        note = message.value.strip()
        fault = note_fault(note) or number_fault((*self._notes, note)) if note else ""
        if fault:
            self.say(fault)
            return
        if note:
            self._notes = (*self._notes, note)
        self._close_field()

    def action_write(self) -> None:
        field = self.query_one(Field)
        field.display = True
        field.focus()

    def action_remove(self) -> None:
        table: LineTable[NumberedNote] = self.query_one(LineTable)
        if table.current is not None:
            gone = table.current[0]
            self._notes = (*self._notes[:gone], *self._notes[gone + 1 :])
            self._show()

    def action_leave(self) -> None:
        if self.query_one(Field).display:
            self._close_field()
        else:
            self.dismiss(None if self._notes == self._before else self._notes)

    def _close_field(self) -> None:
        field = self.query_one(Field)
        field.value, field.display = "", False
        self._show()
        self.query_one(LineTable).focus()

    def _show(self) -> None:
        self.query_one(LineTable).set_rows(list(enumerate(self._notes)))
        self.say("", None)


class Needs(Enum):
    """What a rule is about."""

    NOTHING = "nothing"
    BROKERS = "brokers"
    RACK = "a rack"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the list."""

    title: str
    does: str
    name: str
    """As `screens.plan.acts` knows it."""
    needs: Needs = Needs.NOTHING


RENEW = "renew"
RULES = (
    Rule("Least loss", "the replica that loses the fewest records is elected", "least loss"),
    Rule(
        "Prefer brokers",
        "they are elected where their log is as good and loses the same",
        "prefer",
        Needs.BROKERS,
    ),
    Rule("Prefer a rack", "the same for all brokers of a rack", "prefer", Needs.RACK),
    Rule("Never brokers", "the next best is elected, or nobody", "never", Needs.BROKERS),
    Rule("Without waiting", "leave out what an intact broker brings back whole", "without waiting"),
    Rule("As recommended", "every choice is undone", "as recommended"),
    Rule("Current evidence", "the plan uses what was read last", RENEW),
)


class RulesDialog(Dialog[Rule]):
    """Ends with a rule, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "Apply")]

    def __init__(self, scope: str) -> None:
        super().__init__(f"A rule for {scope}")

    def body(self) -> Iterator[Widget]:
        columns = (
            LineColumn[Rule]("Rule", lambda rule: Cell(rule.title)),
            LineColumn[Rule]("What it does", lambda rule: Cell(rule.does), most=60, shrinks=True),
        )
        yield LineTable(columns, lambda rule: rule.title)

    def on_mount(self) -> None:
        table: LineTable[Rule] = self.query_one(LineTable)
        table.set_rows(RULES)
        table.focus()
        self._explain(table.current)

    @on(LineTable.Moved)
    def _moved(self, message: LineTable.Moved) -> None:
        self._explain(message.row)

    def _explain(self, rule: Rule | None) -> None:
        if rule is not None:
            self.say(f"{rule.title}: {rule.does}.", None)

    @on(LineTable.Chosen)
    def _chosen(self, message: LineTable.Chosen) -> None:
        self.dismiss(message.row)

    def action_choose(self) -> None:
        self.query_one(LineTable).action_choose()


class BrokerGroup(NamedTuple):
    """Brokers that can be chosen together: one, or those of a rack."""

    name: str
    brokers: frozenset[int]
    rack: str
    leads: int
    """Partitions of the plan that they are elected for."""


class BrokersDialog(Dialog[frozenset[int]]):
    """Ends with the brokers that are marked, or the one under the cursor; or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Apply"),
        Binding("space", "mark", "Mark several"),
    ]

    def __init__(self, title: str, groups: Sequence[BrokerGroup], kind: str) -> None:
        super().__init__(title)
        self._groups, self._kind = groups, kind
        self._marked: set[str] = set()

    def body(self) -> Iterator[Widget]:
        columns = (
            LineColumn[BrokerGroup](self._kind, lambda group: Cell(group.name)),
            LineColumn[BrokerGroup]("Rack", lambda group: Cell(group.rack)),
            LineColumn[BrokerGroup](
                "Elected for", lambda group: Cell(f"{group.leads:,}"), right=True
            ),
        )
        yield LineTable(columns, lambda group: group.name, empty="the cluster names none")

    def on_mount(self) -> None:
        table: LineTable[BrokerGroup] = self.query_one(LineTable)
        table.set_rows(self._groups, marked=self._marked)
        table.focus()

    @on(LineTable.Chosen)
    def _chosen(self, message: LineTable.Chosen) -> None:
        names = self._marked or {message.row.name}
        chosen = [group.brokers for group in self._groups if group.name in names]
        self.dismiss(frozenset().union(*chosen))

    def action_choose(self) -> None:
        self.query_one(LineTable).action_choose()

    def action_mark(self) -> None:
        table: LineTable[BrokerGroup] = self.query_one(LineTable)
        if table.current is not None:
            self._marked ^= {table.current.name}
            table.set_marked(self._marked)
            table.action_move(1)


class Agreement(NamedTuple):
    """What was given."""

    name: str
    heard: str
    """The digest as they read it out; empty: they looked at this screen."""


class ApproveDialog(Dialog[Agreement]):
    """Ends with an `Agreement`, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_on", "Go on"),
        Binding("tab", "app.focus_next", "Other field"),
        Binding("escape", "leave", "Clear it, then cancel"),
    ]

    def __init__(
        self, spoken: str, totals: str, approved: Sequence[str], void: Sequence[str], name: str
    ) -> None:
        super().__init__("Approve this plan: read the digest out loud")
        self._spoken, self._totals, self._name = spoken, totals, name
        self._approved, self._void = approved, void

    def body(self) -> Iterator[Widget]:
        # Each group on a line of its own, its letters apart.
        style = role_style(self.app, Role.HEADING)
        groups = [Text("  ".join(group.upper()), style) for group in self._spoken.split("-")]
        yield Static(Align.center(Lines(Text(""), *groups, Text(""))), markup=False)
        yield Static(self.styled(f"It {self._totals}."), markup=False)
        yield Static(self.styled(self._who()), markup=False)
        yield Static(self.styled("Who approves?", Role.HEADING), markup=False)
        yield Field(self._name, id="name", max_length=100, compact=True)
        yield Static(
            self.styled(
                "The digest as they read it from their own copy (empty: they are here)",
                Role.HEADING,
            ),
            markup=False,
        )
        yield Field(id="heard", max_length=80, placeholder="xxxxx-xxxxx-xxxxx", compact=True)

    def on_mount(self) -> None:
        self.query_one("#name", Field).focus()

    @on(Field.Submitted, "#name")
    def _named(self) -> None:
        self.query_one("#heard", Field).focus()

    @on(Field.Submitted, "#heard")
    def _heard(self, message: Field.Submitted) -> None:
        name = self.query_one("#name", Field).value.strip()
        if not name:
            self.say("Say who approves.")
            self.query_one("#name", Field).focus()
            return
        self.dismiss(Agreement(name, message.value.strip()))

    async def action_go_on(self) -> None:
        if isinstance(self.focused, Field):
            await self.focused.action_submit()

    def _who(self) -> str:
        given = bounded(", ".join(self._approved), 200) or "nobody yet"
        names = ", ".join(self._void)
        void = f" Void, because the plan was edited since: {names}." if names else ""
        return f"Approved by: {given}.{bounded(void, 200)}"


async def may_discard(screen: Editing) -> bool:
    """Whether the plan may be put away: nothing of it is unsaved, or the operator says so."""
    view = screen.view
    if view is None or not view.draft.unsaved:
        return True
    if not (view.draft.history.last or view.approved or view.notes):
        return True
    asked = Question("This plan is not saved", "Its edits, notes and approvals would be lost.")
    answer = await screen.app.push_screen_wait(asked)
    return answer is True


async def choose_leader(screen: Editing, row: PlanRow) -> None:
    """Ask who leads the partition of *row*."""
    from breakglass.screens.plan import acts
    from breakglass.services.recovery.plan.candidates import candidates

    view = screen.view
    record = None if view is None else view.draft.plan.records.get(row.partition)
    if record is None:
        screen.say("The plan has no evidence yet: read everything again (ctrl+r).", failed=True)
        return
    dialog = LeaderDialog(row.partition, candidates(record), row.leader, row.recommended)
    broker = await screen.app.push_screen_wait(dialog)
    if broker is not None:
        screen.desk.change(lambda draft: acts.elect(draft, row.partition, broker))


async def leave_out(screen: Editing, partitions: Collection[TopicPartition]) -> None:
    """Ask why *partitions* are left out, and leave them out."""
    from breakglass.screens.plan import acts

    if not partitions:
        return
    named = (
        str(next(iter(partitions))) if len(partitions) == 1 else partitions_text(len(partitions))
    )
    reason = await screen.app.push_screen_wait(
        Prompt(f"Why is {named} left out?", about="Kept in the plan.", longest=1_000)
    )
    if reason is not None:
        screen.desk.change(lambda draft: acts.leave_out(draft, partitions, reason.strip()))


async def apply_rule(screen: Editing) -> None:
    """Ask for a rule and for what it is about, and apply it to what is marked or to all."""
    from breakglass.screens.plan import acts

    view = screen.view
    if view is None:
        return
    only = frozenset(screen.marked) or None
    scope = f"all {partitions_text(len(view.rows))}"
    if only:
        scope = f"the {partitions_text(len(only))} marked"
    rule = await screen.app.push_screen_wait(RulesDialog(scope))
    if rule is None:
        return
    if rule.name == RENEW:
        screen.renew()
        return
    brokers: frozenset[int] = frozenset()
    if rule.needs is not Needs.NOTHING:
        by_rack = rule.needs is Needs.RACK
        groups = (
            rack_groups(view, screen.incident) if by_rack else broker_groups(view, screen.incident)
        )
        kind = "In rack" if by_rack else "Broker"
        chosen = await screen.app.push_screen_wait(BrokersDialog(rule.title, groups, kind))
        if chosen is None:
            return
        brokers = chosen
    screen.desk.change(lambda draft: acts.rule(draft, rule.name, brokers, only))


def broker_groups(view: PlanView, incident: Incident | None) -> Sequence[BrokerGroup]:
    """Each broker that the plan's partitions are assigned to."""
    leads = Counter(row.leader for row in view.rows if row.leader is not None)
    racks = _racks(incident)
    held = {
        broker
        for record in view.draft.plan.records.values()
        for broker in record.evidence.state.assignment
    }
    return [
        BrokerGroup(f"b{broker}", frozenset((broker,)), racks.get(broker, "-"), leads[broker])
        for broker in sorted(held)
    ]


def rack_groups(view: PlanView, incident: Incident | None) -> Sequence[BrokerGroup]:
    """The brokers of each rack that the cluster names."""
    leads = Counter(row.leader for row in view.rows if row.leader is not None)
    racks = _racks(incident)
    groups = []
    for rack in sorted(set(racks.values())):
        brokers = frozenset(broker for broker, its in racks.items() if its == rack)
        named = ", ".join(f"b{broker}" for broker in sorted(brokers))
        groups.append(BrokerGroup(named, brokers, rack, sum(leads[broker] for broker in brokers)))
    return groups


def _racks(incident: Incident | None) -> dict[int, str]:
    if incident is None:
        return {}
    return {
        broker.id: broker.rack for broker in incident.snapshot.brokers if broker.rack is not None
    }


async def approve(screen: Editing) -> None:
    """Show the digest and ask who agrees to it."""
    from breakglass.screens.plan import acts
    from breakglass.services.guard.lock import operator

    view = screen.view
    if view is None:
        return
    name = "" if view.approved else operator()
    given = await screen.app.push_screen_wait(
        ApproveDialog(view.spoken, str(view.totals), view.approved, view.void, name)
    )
    if given is not None:
        now = now_ms()
        screen.desk.change(lambda draft: acts.agree(draft, given.name, given.heard, now))


async def write_notes(screen: Editing) -> None:
    """Show the notes, to be added to and removed."""
    from breakglass.screens.plan import acts

    view = screen.view
    if view is None:
        return
    notes = await screen.app.push_screen_wait(NotesDialog(view.notes))
    if notes is not None:
        screen.desk.change(lambda draft: acts.write_notes(draft, notes))


async def contained_text(screen: Editing, before: str) -> str | None:
    """Ask for a text that names are to contain."""
    return await screen.app.push_screen_wait(
        Prompt("Only partitions whose names contain", value=before, longest=249)
    )
