"""The metastore that a command topic stands for: streams, tables, types and queries, rebuilt.

Commands are applied in their order and never judged: two replays of the same commands give the
same metastore, whatever became of Kafka's topics meanwhile.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from breakglass.services.metastore.command import Command, CommandPlan, Ddl, DdlKind, InvalidCommand
from breakglass.services.metastore.command_id import MIGRATION, CommandId, EntityType
from breakglass.services.metastore.statements.parsing import columns_of, parse
from breakglass.services.metastore.statements.statement import ALL, Statement, StatementKind
from breakglass.services.metastore.statements.tokens import InvalidStatement, tokens


@dataclass(frozen=True, slots=True)
class StreamOrTable:
    """A stream or table."""

    kind: EntityType
    name: str
    topic: str | None
    statement: str
    """The one that made it."""
    offset: int
    """Of the command that made it."""
    columns: tuple[str, ...] = ()
    """Names, as far as the command tells them."""
    read_only: bool = False
    query: str | None = None
    """The id of the query that CREATE ... AS SELECT began."""


@dataclass(frozen=True, slots=True)
class PersistentQuery:
    """A persistent query."""

    id: str
    sources: tuple[str, ...]
    sink: str | None
    statement: str
    offset: int
    paused: bool = False
    creates: bool = False
    """It came with its sink, and ends when that is dropped."""


@dataclass(slots=True)
class Metastore:
    """What a server holds after some commands."""

    sources: dict[str, StreamOrTable] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    queries: dict[str, PersistentQuery] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """What ALTER SYSTEM set."""
    next_query_number: int = 0
    """Ends the id of the next query: one past the last command that changed objects."""
    terminated: bool = False
    """TERMINATE CLUSTER was the last word."""
    migrated: bool = False
    """The topic was moved elsewhere."""

    def snapshot(self) -> Metastore:
        """A copy that changes alone."""
        return replace(
            self,
            sources=dict(self.sources),
            types=dict(self.types),
            queries=dict(self.queries),
            settings=dict(self.settings),
        )

    def document(self) -> dict[str, Any]:
        """All of it, in one order."""
        document = asdict(self)
        for name in ("sources", "types", "queries", "settings"):
            document[name] = dict(sorted(document[name].items()))
        return document

    @property
    def digest(self) -> str:
        """The same for the same metastore: SHA-256 of `document`, in hex."""
        told = json.dumps(self.document(), sort_keys=True, separators=(",", ":"))
        return sha256(told.encode("utf-8", "surrogatepass")).hexdigest()

    def apply(self, offset: int, key: CommandId, command: Command) -> None:
        """Do what the command at *offset* does. It is not asked whether it may.

        Raises: InvalidCommand for one without a plan whose statement cannot be understood: then
            nothing was changed.
        """
        plan = command.plan
        if key.type is EntityType.CLUSTER:
            self._cluster(key, command.statement)
        elif plan is not None:
            self._plan(offset, plan)
        else:
            self._statement(offset, command.statement)

    def queries_of(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The ids of the queries that read a source, and of those that insert into it."""
        readers = [one.id for one in self.queries.values() if name in one.sources]
        writers = [one.id for one in self.queries.values() if one.sink == name and not one.creates]
        return tuple(sorted(readers)), tuple(sorted(writers))

    def _cluster(self, key: CommandId, statement: str) -> None:
        if key == MIGRATION:
            self.migrated = True
        elif key.terminates_cluster:
            self._terminate_cluster()
        else:
            self._set(statement)

    def _terminate_cluster(self) -> None:
        self.sources, self.types, self.queries = {}, {}, {}
        self.terminated = True

    def _set(self, statement: str) -> None:
        """ALTER SYSTEM 'name' = 'value'."""
        try:
            words = [one.text for one in tokens(statement) if one.text not in (";", "=")]
        except InvalidStatement as error:
            raise InvalidCommand(str(error)) from None
        if words[:2] != ["ALTER", "SYSTEM"] or len(words) != 4:
            raise InvalidCommand("it changes the cluster in a way that is not known")
        self.settings[words[2]] = words[3]

    def _plan(self, offset: int, plan: CommandPlan) -> None:
        statement, ddl, query = plan
        if ddl is not None:
            self._ddl(offset, ddl, statement)
        if query is not None:
            creates = ddl is not None
            sources, sink = query.sources, query.sink
            self._begin(
                PersistentQuery(query.id, sources, sink, statement, offset, creates=creates)
            )
        self.next_query_number = offset + 1

    def _ddl(self, offset: int, ddl: Ddl, statement: str) -> None:
        kind, name, body = ddl
        if kind is DdlKind.REGISTER_TYPE:
            self.types[name] = str(body.get("type"))
        elif kind is DdlKind.DROP_TYPE:
            self.types.pop(name, None)
        elif kind is DdlKind.DROP_SOURCE:
            self._drop(name)
        elif kind is DdlKind.ALTER_SOURCE:
            new = body.get("newColumns")
            self._alter(name, _columns(", ".join(map(str, new)) if isinstance(new, list) else ""))
        else:
            entity = EntityType.TABLE if kind is DdlKind.CREATE_TABLE else EntityType.STREAM
            columns = _columns(body.get("schema"))
            read_only = bool(body.get("isSource"))
            self._put(StreamOrTable(entity, name, ddl.topic, statement, offset, columns, read_only))

    def _statement(self, offset: int, text: str) -> None:
        try:
            statement = parse(text)
        except InvalidStatement as error:
            raise InvalidCommand(f"its statement cannot be understood: {error}") from None
        if statement.kind.by_query_id:
            self._by_id(statement)
            return
        self._object(offset, text, statement)
        self.next_query_number = offset + 1

    def _object(self, offset: int, text: str, statement: Statement) -> None:
        kind, name = statement.kind, statement.name
        if kind in (StatementKind.CREATE_SOURCE, StatementKind.CREATE_AS):
            # TopicCreateInjector names the topic as the object is named, quoted names as they are.
            topic = statement.topic or (name if kind is StatementKind.CREATE_AS else None)
            read_only = statement.read_only
            made = StreamOrTable(
                statement.entity, name, topic, text, offset, statement.columns, read_only
            )
            self._put(made)
        elif kind is StatementKind.DROP_SOURCE:
            self._drop(name)
        elif kind is StatementKind.CREATE_TYPE:
            self.types[name] = statement.type_text
        elif kind is StatementKind.DROP_TYPE:
            self.types.pop(name, None)
        elif kind is StatementKind.ALTER:
            self._alter(name, statement.columns)
        if kind.begins_query:
            query = self.query_id(statement)
            creates = kind is StatementKind.CREATE_AS
            self._begin(
                PersistentQuery(query, statement.sources, name, text, offset, creates=creates)
            )

    def query_id(self, statement: Statement) -> str:
        """The id of the query that *statement* would begin now (QueryIdUtil.buildId)."""
        own = statement.properties.get("QUERY_ID")
        if own is not None:
            return own.upper()
        if statement.kind is StatementKind.INSERT_AS:
            return f"INSERTQUERY_{self.next_query_number}"
        there = self.sources.get(statement.name)
        if statement.or_replace and there is not None and there.query is not None:
            return there.query
        word = "CTAS" if statement.entity is EntityType.TABLE else "CSAS"
        return f"{word}_{statement.name.upper()}_{self.next_query_number}"

    def _put(self, source: StreamOrTable) -> None:
        there = self.sources.get(source.name)
        kept = None if there is None else there.query
        self.sources[source.name] = replace(source, query=kept)

    def _begin(self, query: PersistentQuery) -> None:
        self.queries[query.id] = query
        made = self.sources.get(query.sink or "")
        if query.creates and made is not None:
            if made.query not in (None, query.id):
                self.queries.pop(made.query or "", None)
            self.sources[made.name] = replace(made, query=query.id)

    def _drop(self, name: str) -> None:
        dropped = self.sources.pop(name, None)
        if dropped is not None and dropped.query is not None:
            self.queries.pop(dropped.query, None)

    def _alter(self, name: str, columns: tuple[str, ...]) -> None:
        there = self.sources.get(name)
        if there is not None:
            self.sources[name] = replace(there, columns=there.columns + columns)

    def _by_id(self, statement: Statement) -> None:
        wanted = [statement.name] if statement.name != ALL else list(self.queries)
        for one in wanted:
            query = self.queries.get(one)
            if query is None:
                continue
            if statement.kind is StatementKind.TERMINATE:
                self._terminate(query)
            else:
                paused = statement.kind is StatementKind.PAUSE
                self.queries[one] = replace(query, paused=paused)

    def _terminate(self, query: PersistentQuery) -> None:
        del self.queries[query.id]
        made = self.sources.get(query.sink or "")
        if made is not None and made.query == query.id:
            self.sources[made.name] = replace(made, query=None)


def _columns(schema: object) -> tuple[str, ...]:
    """The names of the columns of a plan's schema."""
    try:
        return columns_of(tokens(schema)) if isinstance(schema, str) else ()
    except InvalidStatement:
        return ()
