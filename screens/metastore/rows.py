"""What stands in the table of a ksqlDB service: one kind of row for each of its four views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from breakglass.screens.widgets.line_table import Cell, LineColumn
from breakglass.services.metastore.compared import CommandPair, CommandStanding
from breakglass.services.metastore.log.reader import AppliedCommand
from breakglass.services.metastore.looking import ServiceLook
from breakglass.services.metastore.metastore import PersistentQuery, StreamOrTable
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role


class MetastoreView(StrEnum):
    """What is listed."""

    OBJECTS = "objects"
    QUERIES = "queries"
    HISTORY = "history"
    COMPARISON = "topic and backup"


@dataclass(frozen=True, slots=True)
class MetastoreRow:
    """One line of the table, and all that is known of it."""

    key: tuple[str, str]
    cells: tuple[Cell, ...]
    told: tuple[tuple[str, str], ...]
    """Label and text, for below the table."""
    different: bool = False
    """Topic and backup are not the same here."""


TITLES = {
    MetastoreView.OBJECTS: ("Kind", "Name", "Topic", "Query", "State"),
    MetastoreView.QUERIES: ("State", "Query", "Reads", "Writes", "Offset"),
    MetastoreView.HISTORY: ("Offset", "Command", "Statement", "Time"),
    MetastoreView.COMPARISON: ("", "Offset", "Line", "Topic", "Backup"),
}
NARROW = frozenset({"", "Kind", "State", "Offset", "Line", "Command", "Topic", "Time"})
"""Columns that give way to no other."""
MOST = {"Command": 24, "Topic": 30}
"""Characters of columns that would leave the ones behind them no room."""
LONGEST = 400
"""Characters of a statement or command in the table; below it there is more."""
PARTING = 24
"""Bytes of each side that are shown of where they part."""
ROLES = {
    CommandStanding.DIFFERENT: Role.DIVERGED,
    CommandStanding.ONLY_BACKUP: Role.LOST,
    CommandStanding.ONLY_TOPIC: Role.WAITING,
}


def columns(view: MetastoreView) -> tuple[LineColumn[MetastoreRow], ...]:
    """The columns of *view*."""
    return tuple([_column(number, title) for number, title in enumerate(TITLES[view])])


def _column(number: int, title: str) -> LineColumn[MetastoreRow]:
    def cell(row: MetastoreRow) -> Cell:
        return row.cells[number]

    right = title in ("Offset", "Line")
    most = MOST.get(title, LONGEST)
    return LineColumn(title, cell, right=right, most=most, shrinks=title not in NARROW)


def rows(look: ServiceLook, view: MetastoreView) -> Sequence[MetastoreRow]:
    """The rows of *view*."""
    match view:
        case MetastoreView.OBJECTS:
            objects = sorted(look.metastore.sources.values(), key=lambda one: one.name)
            types = sorted(look.metastore.types.items())
            return [
                *[_source(one, look.wrong.get(one.name, "")) for one in objects],
                *[_type(name, text) for name, text in types],
            ]
        case MetastoreView.QUERIES:
            return [_query(one) for one in look.metastore.queries.values()]
        case MetastoreView.HISTORY:
            return [_entry(one) for one in look.entries]
        case MetastoreView.COMPARISON:
            return [_pair(one) for one in look.pairs]


def _source(one: StreamOrTable, wrong: str) -> MetastoreRow:
    state = Cell("wrong", Role.FAILED) if wrong else Cell("ok", Role.VERIFIED)
    cells = (Cell(one.kind.value), Cell(one.name), Cell(one.topic or "-"), Cell(one.query or "-"))
    told = [("Statement", _flat(one.statement)), ("Columns", ", ".join(one.columns) or "?")]
    if wrong:
        told.insert(0, ("Wrong", wrong))
    return MetastoreRow(("object", one.name), (*cells, state), tuple(told))


def _type(name: str, text: str) -> MetastoreRow:
    cells = (Cell("type"), Cell(name), Cell("-"), Cell("-"), Cell("ok", Role.VERIFIED))
    return MetastoreRow(("type", name), cells, (("Type", text),))


def _query(one: PersistentQuery) -> MetastoreRow:
    state = Cell("paused", Role.WAITING) if one.paused else Cell("running", Role.RUNNING)
    sides = Cell(", ".join(one.sources)), Cell(one.sink or "-")
    cells = (state, Cell(one.id), *sides, Cell(f"{one.offset:,}"))
    return MetastoreRow(("query", one.id), cells, (("Statement", _flat(one.statement)),))


def _entry(one: AppliedCommand) -> MetastoreRow:
    statement = _flat(one.command.statement)
    cells = (
        Cell(f"{one.offset:,}"),
        Cell(str(one.id)),
        Cell(statement[:LONGEST]),
        Cell(time_text(one.timestamp_ms)),
    )
    return MetastoreRow(("entry", str(one.offset)), cells, (("Statement", statement),))


def _pair(one: CommandPair) -> MetastoreRow:
    role = ROLES.get(one.standing)
    topic, backup = _shown(one.topic), _shown(one.backup)
    cells = (
        Cell(one.standing.value, role),
        Cell("-" if one.offset is None else f"{one.offset:,}"),
        Cell("-" if one.line is None else f"{one.line:,}"),
        Cell(topic[:LONGEST], role),
        Cell(backup[:LONGEST], role),
    )
    told = [("Topic", topic or "-"), ("Backup", backup or "-")]
    if one.standing is CommandStanding.SAME:
        told = [("Both", topic)]
    elif one.standing is CommandStanding.DIFFERENT:
        told.insert(0, ("From byte", _parting(one)))
    different = one.standing is not CommandStanding.SAME
    return MetastoreRow(("pair", str(one.number)), cells, tuple(told), different)


def _parting(one: CommandPair) -> str:
    """Where the two begin to differ, and how each goes on there."""
    both = enumerate(zip(one.topic, one.backup, strict=False))
    shorter = min(len(one.topic), len(one.backup))
    at = next((place for place, (left, right) in both if left != right), shorter)
    sides = [_shown(side[at : at + PARTING]) or "its end" for side in (one.topic, one.backup)]
    return f"{at:,}: {sides[0]} <> {sides[1]}"


def _shown(command: bytes) -> str:
    return command.decode("utf-8", "replace")


def _flat(text: str) -> str:
    return " ".join(text.split())
