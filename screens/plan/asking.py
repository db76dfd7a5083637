"""What is asked of the operator before an edit: who leads, which rule, why, and who agrees."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.align import Align
from rich.console import Group as Lines
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.widgets.dialog import ChoiceDialog, Dialog, Field
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.services.connection.secret import without_secrets
from breakglass.services.errors import StorageError, UsageError
from breakglass.services.model import TopicPartition, known
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.regular_file import read_regular
from breakglass.services.words.figures import count
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, Words, role_style

if TYPE_CHECKING:
    from breakglass.screens.plan.acts import PlanView
    from breakglass.services.recovery.plan.edit_form import Problem
    from breakglass.services.recovery.plan.make import ReplicaCandidate


class LeaderDialog(ChoiceDialog[int, "ReplicaCandidate"]):
    """Ends with a broker that can be elected, or None."""

    EMPTY = "no replica is known"

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "Choose it")]

    def __init__(
        self,
        partition: TopicPartition,
        candidates: Sequence[ReplicaCandidate],
        leader: int | None,
        recommended: int | None,
    ) -> None:
        self._leader, self._recommended = leader, recommended
        columns: tuple[LineColumn[ReplicaCandidate], ...] = (
            LineColumn("Broker", self._broker),
            LineColumn("Role", lambda candidate: candidate.replica.role.value),
            LineColumn("LEO", lambda candidate: count(candidate.replica.log_end), right=True),
            LineColumn(
                "Epoch", lambda candidate: count(candidate.replica.last_written_epoch), right=True
            ),
            LineColumn("Loses", _loses, right=True),
            LineColumn("Can lead", _can, shrinks=True),
        )
        super().__init__(
            f"Who leads {partition}?", columns, candidates, lambda candidate: candidate.broker
        )
        self.at = recommended if leader is None else leader

    def choose(self, row: ReplicaCandidate) -> None:
        if row.eligible:
            self.dismiss(row.broker)
        else:
            self.say(f"b{row.broker} cannot be elected: {row.refusal}")

    def explain(self, row: ReplicaCandidate) -> None:
        if row.refusal:
            self.say(f"b{row.broker} cannot be elected: {row.refusal}", Role.UNKNOWN)
            return
        own = f" Needs its own consent: {row.own_consent}." if row.own_consent else ""
        role = Role.LOST if _wipes(row) else Role.UNKNOWN if row.own_consent else None
        self.say(f"{_price(row)}{own}", role)

    def _broker(self, candidate: ReplicaCandidate) -> Words:
        elected = candidate.broker == self._leader
        remarks = ["elected"] if elected else []
        remarks += ["best"] if candidate.broker == self._recommended else []
        said = f" {', '.join(remarks)}" if remarks else ""
        return Words(f"b{candidate.broker}{said}", Role.DESIGNEE if elected else None)


def _wipes(candidate: ReplicaCandidate) -> bool:
    """Its log has no record: electing it destroys all that the others hold."""
    return not holds_records(candidate.replica) and candidate.loses.records != 0


def _price(candidate: ReplicaCandidate) -> str:
    counted = candidate.loses if known(candidate.loses.records) else "an unknown number of records"
    if _wipes(candidate):
        return f"b{candidate.broker} is EMPTY: electing it DESTROYS {counted}."
    return f"Electing b{candidate.broker} loses {counted}."


def _loses(candidate: ReplicaCandidate) -> Words:
    if not known(candidate.loses.records):
        return Words("DESTROYS ?", Role.LOST) if _wipes(candidate) else Words("?", Role.UNKNOWN)
    if _wipes(candidate):
        return Words(f"DESTROYS {candidate.loses}", Role.LOST)
    return Words(str(candidate.loses), Role.LOST if candidate.loses.records else None)


def _can(candidate: ReplicaCandidate) -> Words:
    if candidate.refusal:
        return Words(f"no: {candidate.refusal}", Role.MUTED)
    return Words("with its own consent" if candidate.own_consent else "yes")


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
        super().__init__("Notes: a change voids the approvals, not the digest")
        self._before = self._notes = tuple(notes)

    def body(self) -> Iterator[Widget]:
        columns = (
            LineColumn[NumberedNote]("No", lambda note: f"{note[0] + 1}", right=True),
            LineColumn[NumberedNote](
                "Note", lambda note: bounded(note[1], SHOWN), most=SHOWN, shrinks=True
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
        from breakglass.services.recovery.plan.edit import note_fault, number_fault

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


class RulesDialog(ChoiceDialog[Rule, Rule]):
    """Ends with a rule, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "Apply")]

    def __init__(self, scope: str) -> None:
        columns: tuple[LineColumn[Rule], ...] = (
            LineColumn("Rule", lambda rule: rule.title),
            LineColumn("What it does", lambda rule: rule.does, most=60, shrinks=True),
        )
        super().__init__(f"A rule for {scope}", columns, RULES, lambda rule: rule.title)

    def explain(self, row: Rule) -> None:
        self.say(f"{row.title}: {row.does}.", None)

    def choose(self, row: Rule) -> None:
        self.dismiss(row)


class BrokerGroup(NamedTuple):
    """Brokers that can be chosen together: one, or those of a rack."""

    name: str
    brokers: frozenset[int]
    rack: str
    leads: int
    """Partitions of the plan that they are elected for."""


class BrokersDialog(ChoiceDialog[frozenset[int], BrokerGroup]):
    """Ends with the brokers that are marked, or the one under the cursor; or None."""

    EMPTY = "the cluster names none"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Apply"),
        Binding("space", "mark", "Mark several"),
    ]

    def __init__(self, title: str, groups: Sequence[BrokerGroup], kind: str) -> None:
        columns: tuple[LineColumn[BrokerGroup], ...] = (
            LineColumn(kind, lambda group: group.name),
            LineColumn("Rack", lambda group: group.rack),
            LineColumn("Elected for", lambda group: f"{group.leads:,}", right=True),
        )
        super().__init__(title, columns, groups, lambda group: group.name)
        self.marked = set()

    def choose(self, row: BrokerGroup) -> None:
        names = self.marked or {row.name}
        chosen = [group.brokers for group in self._rows if group.name in names]
        self.dismiss(frozenset().union(*chosen))

    def action_mark(self) -> None:
        if self.table.current is not None and self.marked is not None:
            self.marked ^= {self.table.current.name}
            self.table.set_marked(self.marked)
            self.table.action_move(1)


def broker_groups(view: PlanView, racks: Mapping[int, str]) -> Sequence[BrokerGroup]:
    """Each broker that the plan's partitions are assigned to."""
    leads = Counter(row.leader for row in view.rows if row.leader is not None)
    held = {
        broker
        for record in view.draft.plan.records.values()
        for broker in record.evidence.state.assignment
    }
    return [
        BrokerGroup(f"b{broker}", frozenset((broker,)), racks.get(broker, "-"), leads[broker])
        for broker in sorted(held)
    ]


def rack_groups(view: PlanView, racks: Mapping[int, str]) -> Sequence[BrokerGroup]:
    """The brokers of each rack that the cluster names."""
    leads = Counter(row.leader for row in view.rows if row.leader is not None)
    groups = []
    for rack in sorted(set(racks.values())):
        brokers = frozenset(broker for broker, its in racks.items() if its == rack)
        named = ", ".join(f"b{broker}" for broker in sorted(brokers))
        groups.append(BrokerGroup(named, brokers, rack, sum(leads[broker] for broker in brokers)))
    return groups


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
        given = bounded(", ".join(self._approved), 200) or "nobody yet"
        names = ", ".join(self._void)
        void = f" Void, because the plan was edited since: {names}." if names else ""
        yield Static(self.styled(f"Approved by: {given}.{bounded(void, 200)}"), markup=False)
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


class ProblemsDialog(ChoiceDialog[int, "Problem"]):
    """Ends with the line to edit again at, or None: the text is dropped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Edit again at this line"),
        Binding("escape", "leave", "Discard the text"),
    ]

    def __init__(self, problems: Sequence[Problem]) -> None:
        number = len(problems)
        title = f"The text is not a valid plan: {number:,} fault{'s' * (number != 1)}"
        columns: tuple[LineColumn[Problem], ...] = (
            LineColumn("Line", lambda problem: f"{problem.line}", right=True),
            LineColumn("Col", lambda problem: f"{problem.column}", right=True),
            LineColumn("What", lambda problem: problem.what, most=200, shrinks=True),
        )
        super().__init__(title, columns, problems, lambda one: (one.line, one.column, one.what))

    def explain(self, row: Problem) -> None:
        self.say(str(row))

    def choose(self, row: Problem) -> None:
        self.dismiss(row.line)


FALLBACKS = ("sensible-editor", "vi", "nano")
"""Tried where neither VISUAL nor EDITOR is set."""
GO_TO_LINE = {
    *("vi", "vim", "nvim", "vim.tiny", "vim.basic", "view", "nano", "pico", "emacs"),
    *("emacsclient", "joe", "jed", "mg", "micro", "ne"),
}
"""Editors that take ``+12``."""
LARGEST = 256_000_000
"""Bytes of an edited file that are read back."""


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The operator's editor as words of a command.

    Raises UsageError: none is named that exists, and none is found.
    """
    named = environ.get("VISUAL") or environ.get("EDITOR")
    if not named:
        found = next((editor for editor in FALLBACKS if shutil.which(editor)), None)
        if found is None:
            raise UsageError("No editor was found: set EDITOR to your editor.")
        return [found]
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"EDITOR is no command ({error}): set it to your editor.") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"The editor {named!r} was not found: set EDITOR to an installed editor.")
    return words


def edited(
    text: str, line: int, terminal: Callable[[], AbstractContextManager[None]]
) -> str | None:
    """*text* as the operator's editor left it, begun at *line*; None if it was not changed.

    *terminal* gives the terminal over for as long as the editor runs.

    Raises:
        UsageError: there is no editor, or it failed.
        StorageError: the text cannot be written or read back.
    """
    command = editor_command()
    with tempfile.TemporaryDirectory(prefix="breakglass-plan-") as folder:
        path = Path(folder, "plan.json")
        try:
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"{path} cannot be written ({error.strerror}): make room there or set TMPDIR."
            ) from error
        at = [f"+{line}"] if Path(command[0]).name in GO_TO_LINE else []
        whole, environ = [*command, *at, str(path)], without_secrets(os.environ)
        with terminal(), _interrupts_are_the_editors():
            try:
                code = subprocess.run(whole, env=environ, check=False).returncode
            except OSError as error:
                why = f"{command[0]} cannot be run ({error.strerror}): set EDITOR."
                raise UsageError(why) from error
        if code:
            raise UsageError(f"{command[0]} ended with {code}, so its text was not used.")
        try:
            if path.stat().st_size > LARGEST:
                raise UsageError("The edited file is far too large to be a plan.")
            after = read_regular(path, LARGEST).decode("utf-8-sig")
        except OSError as error:
            raise StorageError(
                f"The edited file cannot be read ({error.strerror}): edit it again."
            ) from error
        except UnicodeDecodeError as error:
            raise UsageError(
                f"The edited file is not UTF-8 at byte {error.start}: edit it again."
            ) from error
    return None if after == text else after


@contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """Ctrl+C reaches the whole job: while the editor has the terminal it does not end us.

    Ignored and not handled, for a handler would still wake the loop's own. An editor that goes
    by this signal sets it for itself.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
