"""Rules for many partitions at once: which one, and for which brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.widgets.dialog import Dialog
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.line_table import LineTable


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
    Rule(
        "Without waiting",
        "leave out what an intact broker brings back whole",
        "without waiting",
    ),
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
