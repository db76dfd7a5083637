"""Rebuilds the metastore from a command topic: streams, tables, types and queries.

Commands are applied in order and never validated: two replays of the same commands produce the same
metastore, even if Kafka's topics have changed since.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from breakglass.services.metastore.command import (
    MIGRATION,
    Command,
    CommandId,
    Ddl,
    DdlKind,
    EntityType,
    InvalidCommand,
)
from breakglass.services.metastore.statements.parsing import (
    ALL,
    InvalidStatement,
    Statement,
    StatementKind,
    columns_of,
    parse,
    tokens,
)

NO_VERSION = 0
"""In place of a version, for commands of servers that knew none."""


@dataclass(frozen=True, slots=True)
class StreamOrTable:
    """A stream or table."""

    kind: EntityType
    name: str
    topic: str | None
    statement: str
    offset: int
    columns: tuple[str, ...] = ()
    """Column names, as far as the command contains them."""
    read_only: bool = False
    query: str | None = None
    """The id of the query that CREATE ... AS SELECT started."""


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
    """The query was created with its sink, and ends when the sink is dropped."""


@dataclass(slots=True)
class Metastore:
    """A server's metastore after some commands."""

    sources: dict[str, StreamOrTable] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    queries: dict[str, PersistentQuery] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """The settings from ALTER SYSTEM."""
    next_query_number: int = 0
    """The suffix of the next query's id: the offset after the last command that changed objects."""
    terminated: bool = False
    """TERMINATE CLUSTER was the last command."""
    newest_version: int | None = None
    """The highest version of the commands; `NO_VERSION` where none has one, None before the first.

    It tells which commands the servers can read, and is no part of the content.
    """

    def snapshot(self) -> Metastore:
        return replace(
            self,
            sources=dict(self.sources),
            types=dict(self.types),
            queries=dict(self.queries),
            settings=dict(self.settings),
        )

    def document(self) -> dict[str, Any]:
        """The complete content in a fixed order."""
        document = asdict(self)
        del document["newest_version"]
        for name in ("sources", "types", "queries", "settings"):
            document[name] = dict(sorted(document[name].items()))
        return document

    @property
    def digest(self) -> str:
        """SHA-256 of `document` in hex; equal metastores have equal digests."""
        told = json.dumps(self.document(), sort_keys=True, separators=(",", ":"))
        return sha256(told.encode("utf-8", "surrogatepass")).hexdigest()

    def apply(self, offset: int, key: CommandId, command: Command) -> None:
        """Apply the command at *offset* without validating it.

        Raises: InvalidCommand for a command without a plan whose statement cannot be parsed;
            nothing was changed then.
        """
        plan, version = command.plan, command.version or NO_VERSION
        if key.type is EntityType.CLUSTER:
            if key.terminates_cluster:
                self.sources, self.types, self.queries = {}, {}, {}
                self.terminated = True
            elif key != MIGRATION:
                try:
                    words = [
                        token.text
                        for token in tokens(command.statement)
                        if token.text not in (";", "=")
                    ]
                except InvalidStatement as error:
                    raise InvalidCommand(str(error)) from None
                if words[:2] != ["ALTER", "SYSTEM"] or len(words) != 4:
                    raise InvalidCommand("it changes the cluster in a way that is not known")
                self.settings[words[2]] = words[3]
        elif plan is not None:
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
        else:
            self._statement(offset, command.statement)
        if self.newest_version is None or version > self.newest_version:
            self.newest_version = version

    def queries_of(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The ids of the queries that read a source, and of the queries that insert into it."""
        readers = [query.id for query in self.queries.values() if name in query.sources]
        writers = [
            query.id for query in self.queries.values() if query.sink == name and not query.creates
        ]
        return tuple(sorted(readers)), tuple(sorted(writers))

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
        kind, name = statement.kind, statement.name
        if kind in (StatementKind.CREATE_SOURCE, StatementKind.CREATE_AS):
            # TopicCreateInjector gives the topic the object's name; quoted names stay unchanged.
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
        self.next_query_number = offset + 1

    def query_id(self, statement: Statement) -> str:
        """The id of the query that *statement* would start now (QueryIdUtil.buildId)."""
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
        for text in wanted:
            query = self.queries.get(text)
            if query is None:
                continue
            if statement.kind is StatementKind.TERMINATE:
                del self.queries[query.id]
                made = self.sources.get(query.sink or "")
                if made is not None and made.query == query.id:
                    self.sources[made.name] = replace(made, query=None)
            else:
                paused = statement.kind is StatementKind.PAUSE
                self.queries[text] = replace(query, paused=paused)


def _columns(schema: object) -> tuple[str, ...]:
    try:
        return columns_of(tokens(schema)) if isinstance(schema, str) else ()
    except InvalidStatement:
        return ()
