"""A ksqlDB service: objects, queries, history, and the command topic beside its backup.

It looks and changes nothing. Where the session is armed, a restore is a page of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.context import Context
from breakglass.screens.messages import CopyAsked
from breakglass.screens.page import Page
from breakglass.screens.refreshing import found_or_why, in_thread
from breakglass.screens.widgets.facts import Fact, Facts, fact
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.services.metastore.glance import ServiceLook, ServiceWatch, command_topics
from breakglass.services.metastore.lines import CommandPair, CommandStanding
from breakglass.services.metastore.log.reader import AppliedCommand
from breakglass.services.metastore.metastore import PersistentQuery, StreamOrTable
from breakglass.services.metastore.settings import default_folder, service_of
from breakglass.services.model import Unknown
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words


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
    cells: tuple[Words | str, ...]
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
    return tuple(
        [
            LineColumn(
                title,
                partial(_cell, number),
                right=title in ("Offset", "Line"),
                most=MOST.get(title, LONGEST),
                shrinks=title not in NARROW,
            )
            for number, title in enumerate(TITLES[view])
        ]
    )


def _cell(number: int, row: MetastoreRow) -> Words | str:
    return row.cells[number]


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
    state = Words("wrong", Role.FAILED) if wrong else Words("ok", Role.VERIFIED)
    cells = (
        source.kind.value,
        source.name,
        source.topic or "-",
        source.query or "-",
    )
    told = [("Statement", _flat(source.statement)), ("Columns", ", ".join(source.columns) or "?")]
    if wrong:
        told.insert(0, ("Wrong", wrong))
    return MetastoreRow(("object", source.name), (*cells, state), tuple(told))


def _type(name: str, text: str) -> MetastoreRow:
    cells = (Words("type"), Words(name), Words("-"), Words("-"), Words("ok", Role.VERIFIED))
    return MetastoreRow(("type", name), cells, (("Type", text),))


def _query(query: PersistentQuery) -> MetastoreRow:
    state = Words("paused", Role.WAITING) if query.paused else Words("running", Role.RUNNING)
    sides = Words(", ".join(query.sources)), Words(query.sink or "-")
    cells = (state, Words(query.id), *sides, Words(f"{query.offset:,}"))
    return MetastoreRow(("query", query.id), cells, (("Statement", _flat(query.statement)),))


def _entry(entry: AppliedCommand) -> MetastoreRow:
    statement = _flat(entry.command.statement)
    cells = (
        f"{entry.offset:,}",
        str(entry.id),
        statement[:LONGEST],
        time_text(entry.timestamp_ms),
    )
    return MetastoreRow(("entry", str(entry.offset)), cells, (("Statement", statement),))


def _pair(pair: CommandPair) -> MetastoreRow:
    role = ROLES.get(pair.standing)
    topic, backup = _shown(pair.topic), _shown(pair.backup)
    cells = (
        Words(pair.standing.value, role),
        Words("-" if pair.offset is None else f"{pair.offset:,}"),
        Words("-" if pair.line is None else f"{pair.line:,}"),
        Words(topic[:LONGEST], role),
        Words(backup[:LONGEST], role),
    )
    told = [("Topic", topic or "-"), ("Backup", backup or "-")]
    if pair.standing is CommandStanding.SAME:
        told = [("Both", topic)]
    elif pair.standing is CommandStanding.DIFFERENT:
        # Where the two begin to differ, and how each goes on there.
        both = enumerate(zip(pair.topic, pair.backup, strict=False))
        shorter = min(len(pair.topic), len(pair.backup))
        at = next((place for place, (left, right) in both if left != right), shorter)
        sides = [_shown(side[at : at + PARTING]) or "its end" for side in (pair.topic, pair.backup)]
        told.insert(0, ("From byte", f"{at:,}: {sides[0]} <> {sides[1]}"))
    different = pair.standing is not CommandStanding.SAME
    return MetastoreRow(("pair", str(pair.number)), cells, tuple(told), different)


def _shown(command: bytes) -> str:
    return command.decode("utf-8", "replace")


def _flat(text: str) -> str:
    return " ".join(text.split())


def service_facts(look: ServiceLook, view: MetastoreView, services: int) -> Iterator[Fact]:
    """What is known of the service, the worst first."""
    for alarm in look.alarms:
        yield fact("ALARM", Words(alarm, Role.FAILED))
    if look.degraded is not None:
        yield fact("Not read on", Words(str(look.degraded), Role.FAILED))
    held = look.metastore
    types, queries = len(held.types), len(held.queries)
    counted = (
        f"{len(held.sources):,} streams and tables, {types:,} type{'s' * (types != 1)}, "
        f"{queries:,} quer{'y' if queries == 1 else 'ies'}, {len(look.entries):,} commands"
    )
    more = f"  (1 of {services:,} services)" if services > 1 else ""
    yield fact("Service", Words(look.topic, Role.HEADING), Words(more, Role.MUTED))
    yield fact("Shown", Words(f"{view.value}  ", Role.HEADING), counted)
    yield fact("Backup", *_backup(look))


def _backup(look: ServiceLook) -> Iterator[Words]:
    backup = look.backup
    if isinstance(backup, Unknown):
        yield Words(backup.reason, Role.UNKNOWN)
        return
    counts = backup.counts
    yield Words(f"{len(backup.lines):,} lines  ")
    if counts.different:
        first = counts.first.number if counts.first is not None else 0
        yield Words(f"{counts.different:,} differ, the first at {first:,}  ", Role.DIVERGED)
    if counts.only_backup:
        yield Words(f"{counts.only_backup:,} are not in the topic  ", Role.LOST)
    if counts.only_topic:
        yield Words(f"{counts.only_topic:,} behind  ", Role.WAITING)
    if not (counts.different or counts.only_backup or counts.only_topic):
        yield Words("the same as the topic  ", Role.VERIFIED)
    yield Words(str(backup.file), Role.MUTED)


LOOK_SECONDS = 2.0
NO_TOPIC = "no command topic of a ksqlDB service."


@dataclass(slots=True)
class _Looking:
    """The service that is looked at; its watch is used by one thread at a time."""

    topic: str
    watch: ServiceWatch | None = None


class MetastoreScreen(Page):
    """Objects, queries, history, comparison; what is known of the line under the cursor."""

    TITLE = "Metastore"
    ABOUT = (
        "What the command topic of a ksqlDB service amounts to, rebuilt from its first command; "
        "the state of its backup; and the two side by side, message by message. With --write, R "
        "opens the guarded restore of the backup. Without it, R copies the command. The views "
        "themselves change nothing."
    )
    DEFAULT_CSS = """
    MetastoreScreen #commands { height: 1fr; }
    MetastoreScreen #about { border-top: solid $border-blurred; max-height: 40%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "view(1)", "view", tooltip="Objects, queries, history, topic and backup"),
        Binding("V", "view(-1)", "View back", show=False, tooltip="Previous view"),
        Binding("n", "difference(1)", "next !", tooltip="Next difference between topic and backup"),
        Binding("N", "difference(-1)", "Previous difference", show=False),
        Binding("s", "service", "service", tooltip="The next ksqlDB service of this cluster"),
        Binding("y", "copy", "copy", tooltip="Copy the facts about this line"),
        Binding("R", "restore", "restore", tooltip="Restore the backup, or copy the command"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._view = MetastoreView.OBJECTS
        self._look: ServiceLook | Unknown | None = None
        self._looking: _Looking | None = None
        self._busy = False
        self._looked_at: float | None = None

    def body(self) -> Iterator[Widget]:
        yield Facts(id="service")
        yield LineTable[MetastoreRow](
            columns(self._view), lambda row: row.key, id="commands", empty=""
        )
        yield Facts(id="about")

    def on_mount(self) -> None:
        self._table.focus()

    def show_known(self) -> None:
        self._ask()
        self._tell()

    def tick(self) -> None:
        self._ask()

    def action_ask_refresh(self) -> None:
        self._looked_at = None
        self._ask()
        super().action_ask_refresh()

    def action_view(self, by: int) -> None:
        views = list(MetastoreView)
        self._turn(views[(views.index(self._view) + by) % len(views)])

    def action_difference(self, by: int) -> None:
        """To the next row where topic and backup differ; from other views, to the comparison."""
        if self._view is not MetastoreView.COMPARISON:
            self._turn(MetastoreView.COMPARISON)
        found = self._rows()
        current = self._table.current
        at = next((n for n, row in enumerate(found) if row == current), -1)
        order = range(at + 1, len(found)) if by > 0 else range(at - 1, -1, -1)
        wanted = next((found[n] for n in order if found[n].different), None)
        if wanted is None:
            self.notify("There is no other difference.", markup=False)
        else:
            self._table.move_to(wanted.key)

    def action_service(self) -> None:
        topics = self._topics()
        if len(topics) < 2 or self._busy:
            return
        at = topics.index(self._looking.topic) if self._looking is not None else -1
        self._change(topics[(at + 1) % len(topics)])
        self._ask()

    def action_copy(self) -> None:
        row = self._table.current
        if row is not None:
            told = "\n".join([f"{label}: {text}" for label, text in row.told])
            self.app.post_message(CopyAsked(told, "the facts about this line"))

    def action_restore(self) -> None:
        look = self._look
        if not isinstance(look, ServiceLook) or isinstance(look.backup, Unknown):
            self.notify("There is no backup to restore.", markup=False)
        elif self.context.armed:
            from breakglass.screens.guard import RestoreMetastorePage

            service = service_of(look.topic) or ""
            self.app.push_screen(RestoreMetastorePage(self.context, service, look.backup.file))
        else:
            words = f"breakglass ksql restore '{look.backup.file}' --write"
            self.app.post_message(CopyAsked(words, "the command that restores this backup"))

    @on(LineTable.Moved, "#commands")
    def _moved(self) -> None:
        self._tell_row()

    def _looked(self, topic: str, look: ServiceLook | Unknown) -> None:
        self._busy = False
        self._looked_at = self.context.clock()
        if self._looking is not None and topic == self._looking.topic:
            self._look = look
            self._show()

    @property
    def _table(self) -> LineTable[MetastoreRow]:
        return self.query_one("#commands", LineTable)

    def _rows(self) -> list[MetastoreRow]:
        return list(rows(self._look, self._view)) if isinstance(self._look, ServiceLook) else []

    def _topics(self) -> tuple[str, ...]:
        incident = self.context.known.incident
        if incident is None:
            return ()
        return command_topics(state.partition.topic for state in incident.snapshot.partitions)

    def _turn(self, view: MetastoreView) -> None:
        """Show *view*. Rows of one view do not fit the columns of another."""
        self._view = view
        self._table.set_rows(())
        self._table.set_columns(columns(view))
        self._show()

    def _show(self) -> None:
        self._table.set_rows(self._rows())
        self._tell()

    def _tell(self) -> None:
        self.query_one("#service", Facts).facts = tuple(self._facts())
        self._tell_row()

    def _facts(self) -> Iterator[Fact]:
        topics, look = self._topics(), self._look
        if isinstance(look, ServiceLook):
            yield from service_facts(look, self._view, len(topics))
        elif isinstance(look, Unknown):
            yield fact("Unknown", Words(look.reason, Role.UNKNOWN))
        elif self.context.known.incident is not None and not topics:
            seen = self.context.last_seen
            told = (
                f"At {seen} this cluster had {NO_TOPIC}" if seen else f"This cluster has {NO_TOPIC}"
            )
            yield fact("Service", Words(told, Role.MUTED))
        else:
            yield fact("Service", Words("reading ...", Role.MUTED))

    def _tell_row(self) -> None:
        row = self._table.current
        told = () if row is None else row.told
        facts = tuple([fact(label, text) for label, text in told])
        self.query_one("#about", Facts).facts = facts

    def _change(self, topic: str) -> None:
        self._looking, self._look, self._looked_at = _Looking(topic), None, None
        self._show()

    def _ask(self) -> None:
        """Look again in a thread, if it is time and nothing forbids it."""
        topics, now, last = self._topics(), self.context.clock(), self._looked_at
        due = last is None or now - last >= LOOK_SECONDS
        if self._busy or not due or not topics or self.context.known.paused:
            return
        if self._looking is None or self._looking.topic not in topics:
            self._change(topics[0])
        assert self._looking is not None
        self._busy, read = True, partial(self._read, self._looking)
        look = partial(found_or_why, read, "the service cannot be read")
        in_thread(self, "metastore", look, partial(self._looked, self._looking.topic))

    def _read(self, looking: _Looking) -> ServiceLook:
        """In a thread."""
        if looking.watch is None:
            folder = self.context.metastore_backups or default_folder()
            looking.watch = ServiceWatch(looking.topic, folder)
        with self.context.reading("breakglass-metastore") as client:
            return looking.watch.look(client)
