"""What stands in the table of a ksqlDB service: one kind of row for each of its four views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from breakglass.screens.widgets.facts import Fact
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.metastore.log.reader import AppliedCommand
from breakglass.services.metastore.looking import ServiceLook
from breakglass.services.metastore.metastore import PersistentQuery, StreamOrTable
from breakglass.services.metastore.records import CommandPair, CommandStanding
from breakglass.services.model import Unknown
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
"""Most characters of columns that would leave no room for the columns after them."""
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
            objects = sorted(look.metastore.sources.values(), key=lambda source: source.name)
            types = sorted(look.metastore.types.items())
            return [
                *[_source(source, look.wrong.get(source.name, "")) for source in objects],
                *[_type(name, text) for name, text in types],
            ]
        case MetastoreView.QUERIES:
            return [_query(query) for query in look.metastore.queries.values()]
        case MetastoreView.HISTORY:
            return [_entry(entry) for entry in look.entries]
        case MetastoreView.COMPARISON:
            return [_pair(pair) for pair in look.pairs]


def _source(source: StreamOrTable, wrong: str) -> MetastoreRow:
    state = Cell("wrong", Role.FAILED) if wrong else Cell("ok", Role.VERIFIED)
    cells = (
        Cell(source.kind.value),
        Cell(source.name),
        Cell(source.topic or "-"),
        Cell(source.query or "-"),
    )
    told = [("Statement", _flat(source.statement)), ("Columns", ", ".join(source.columns) or "?")]
    if wrong:
        told.insert(0, ("Wrong", wrong))
    return MetastoreRow(("object", source.name), (*cells, state), tuple(told))


def _type(name: str, text: str) -> MetastoreRow:
    cells = (Cell("type"), Cell(name), Cell("-"), Cell("-"), Cell("ok", Role.VERIFIED))
    return MetastoreRow(("type", name), cells, (("Type", text),))


def _query(query: PersistentQuery) -> MetastoreRow:
    state = Cell("paused", Role.WAITING) if query.paused else Cell("running", Role.RUNNING)
    sides = Cell(", ".join(query.sources)), Cell(query.sink or "-")
    cells = (state, Cell(query.id), *sides, Cell(f"{query.offset:,}"))
    return MetastoreRow(("query", query.id), cells, (("Statement", _flat(query.statement)),))


def _entry(entry: AppliedCommand) -> MetastoreRow:
    statement = _flat(entry.command.statement)
    cells = (
        Cell(f"{entry.offset:,}"),
        Cell(str(entry.id)),
        Cell(statement[:LONGEST]),
        Cell(time_text(entry.timestamp_ms)),
    )
    return MetastoreRow(("entry", str(entry.offset)), cells, (("Statement", statement),))


def _pair(pair: CommandPair) -> MetastoreRow:
    role = ROLES.get(pair.standing)
    topic, backup = _shown(pair.topic), _shown(pair.backup)
    cells = (
        Cell(pair.standing.value, role),
        Cell("-" if pair.offset is None else f"{pair.offset:,}"),
        Cell("-" if pair.line is None else f"{pair.line:,}"),
        Cell(topic[:LONGEST], role),
        Cell(backup[:LONGEST], role),
    )
    told = [("Topic", topic or "-"), ("Backup", backup or "-")]
    if pair.standing is CommandStanding.SAME:
        told = [("Both", topic)]
    elif pair.standing is CommandStanding.DIFFERENT:
        told.insert(0, ("From byte", _parting(pair)))
    different = pair.standing is not CommandStanding.SAME
    return MetastoreRow(("pair", str(pair.number)), cells, tuple(told), different)


def _parting(pair: CommandPair) -> str:
    """Where the two begin to differ, and how each goes on there."""
    both = enumerate(zip(pair.topic, pair.backup, strict=False))
    shorter = min(len(pair.topic), len(pair.backup))
    at = next((place for place, (left, right) in both if left != right), shorter)
    sides = [_shown(side[at : at + PARTING]) or "its end" for side in (pair.topic, pair.backup)]
    return f"{at:,}: {sides[0]} <> {sides[1]}"


def _shown(command: bytes) -> str:
    return command.decode("utf-8", "replace")


def _flat(text: str) -> str:
    return " ".join(text.split())


def service_facts(look: ServiceLook, view: MetastoreView, services: int) -> Iterator[Fact]:
    """What is known of the service, the worst first."""
    for alarm in look.alarms:
        yield Fact("ALARM", (LinePart(alarm, Role.FAILED),))
    if look.degraded is not None:
        yield Fact("Not read on", (LinePart(str(look.degraded), Role.FAILED),))
    held = look.metastore
    types, queries = len(held.types), len(held.queries)
    counted = (
        f"{len(held.sources):,} streams and tables, {types:,} type{'s' * (types != 1)}, "
        f"{queries:,} quer{'y' if queries == 1 else 'ies'}, {len(look.entries):,} commands"
    )
    more = f"  (1 of {services:,} services)" if services > 1 else ""
    yield Fact("Service", (LinePart(look.topic, Role.HEADING), LinePart(more, Role.MUTED)))
    yield Fact("Shown", (LinePart(f"{view.value}  ", Role.HEADING), LinePart(counted)))
    yield Fact("Backup", tuple(_backup(look)))


def _backup(look: ServiceLook) -> Iterator[LinePart]:
    backup = look.backup
    if isinstance(backup, Unknown):
        yield LinePart(backup.reason, Role.UNKNOWN)
        return
    counts = backup.counts
    yield LinePart(f"{len(backup.lines):,} lines  ")
    if counts.different:
        first = counts.first.number if counts.first is not None else 0
        yield LinePart(f"{counts.different:,} differ, the first at {first:,}  ", Role.DIVERGED)
    if counts.only_backup:
        yield LinePart(f"{counts.only_backup:,} are not in the topic  ", Role.LOST)
    if counts.only_topic:
        yield LinePart(f"{counts.only_topic:,} behind  ", Role.WAITING)
    if not (counts.different or counts.only_backup or counts.only_topic):
        yield LinePart("the same as the topic  ", Role.VERIFIED)
    yield LinePart(str(backup.file), Role.MUTED)


def restore_words(look: ServiceLook) -> str:
    """The command that puts the backup back; empty where there is none."""
    if isinstance(look.backup, Unknown):
        return ""
    return f"breakglass metastore restore '{look.backup.file}' --write"
