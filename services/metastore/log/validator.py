"""Decides whether a statement may become a command: before it is written, never on replay.

Another `Validator` can replace the built-in one, to check queries, schemas and functions too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from breakglass.services.errors import UsageError
from breakglass.services.metastore.command import PLAN_TYPE, VERSION, CommandId, EntityType
from breakglass.services.metastore.metastore import NO_VERSION, Metastore, StreamOrTable
from breakglass.services.metastore.statements.parsing import (
    ALL,
    InvalidStatement,
    Statement,
    StatementKind,
    parse,
)
from breakglass.services.metastore.statements.plans import ddl_of, needs_server
from breakglass.services.model import Unknown

FIRST_VERSION = 1
"""The version of the first command of a topic: each server that knows versions reads it."""

TopicExists = Callable[[str], bool | Unknown]


class StatementRejected(UsageError):
    """The statement must not become a command; nothing was written."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A statement that may be written."""

    id: CommandId
    value: bytes
    """The command as JSON."""
    query_id: str | None = None
    needs_server: str = ""
    """Why only a ksqlDB server can write it; servers since 0.8 end at a command without a plan."""

    @property
    def executable(self) -> bool:
        return not self.needs_server


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """A statement with IF [NOT] EXISTS that changes nothing."""

    reason: str


class Validator(Protocol):
    """Decides whether a statement may be written."""

    def validate(
        self, text: str, metastore: Metastore, properties: Mapping[str, Any]
    ) -> Planned | NothingToDo:
        """Decide *text* against *metastore*, which is a separate snapshot.

        Raises: StatementRejected.
        """


class NameValidator:
    """The built-in validator: names, types, settings, dependencies and topics, as in ksqlDB."""

    def __init__(self, topic_exists: TopicExists, *, executable_only: bool = False) -> None:
        """*executable_only*: a statement that needs a server is rejected, too."""
        self._topic_exists = topic_exists
        self._executable_only = executable_only

    def validate(
        self, text: str, metastore: Metastore, properties: Mapping[str, Any]
    ) -> Planned | NothingToDo:
        """Decide *text*. Raises: StatementRejected."""
        try:
            statement = parse(text)
            needless = _needless(statement, metastore)
            if needless:
                return NothingToDo(needless)
            ddl = ddl_of(statement, metastore.types)
            made = statement.kind in (StatementKind.CREATE_SOURCE, StatementKind.CREATE_TYPE)
            needed = (
                "the servers that wrote this topic are older than 0.10, and plan in another form"
                if made and metastore.newest_version == NO_VERSION
                else needs_server(statement, statement.name in metastore.sources)
            )
        except InvalidStatement as error:
            told = error.placed(text)
            raise StatementRejected(f"the statement was refused: {told}.") from None
        problem = next(iter(self._problems(statement, metastore)), None)
        if problem is not None:
            raise StatementRejected(f"the statement was refused: {problem}.")
        if needed and self._executable_only:
            raise StatementRejected(f"the statement was refused: it needs a server: {needed}.")
        query = metastore.query_id(statement) if statement.kind.begins_query else None
        if query in metastore.queries and not statement.or_replace:
            raise StatementRejected(f"the statement was refused: query id {query} already exists.")
        plan = (
            None
            if needed or ddl is None
            else {"@type": PLAN_TYPE, "statementText": text, "ddlCommand": ddl, "queryPlan": None}
        )
        value = {
            "statement": text,
            "streamsProperties": dict(properties),
            "originalProperties": {},
            "plan": plan,
        } | _version(metastore)
        told = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return Planned(statement.command_id, told.encode("utf-8", "surrogatepass"), query, needed)

    def _problems(self, statement: Statement, metastore: Metastore) -> Iterable[str]:
        if metastore.terminated:
            yield "the cluster was terminated"
        elif statement.kind is StatementKind.CREATE_SOURCE:
            yield from _taken(statement, metastore)
            if not statement.elements:
                yield (
                    "its columns would have to be read from a schema registry, which only a server "
                    "does: add --server"
                )
            yield from self._topic(statement.topic)
        elif statement.kind is StatementKind.CREATE_AS:
            yield from _taken(statement, metastore)
            yield from self._read(statement, metastore)
        elif statement.kind is StatementKind.INSERT_AS:
            sink = metastore.sources.get(statement.name)
            if sink is None:
                yield f"{statement.name} does not exist"
            elif sink.kind is not EntityType.STREAM:
                yield (
                    f"INSERT INTO can only be used to insert into a stream. {sink.name} is a table"
                )
            elif sink.read_only:
                yield f"Cannot insert into read-only stream: {sink.name}"
            yield from self._read(statement, metastore)
        elif statement.kind is StatementKind.DROP_SOURCE:
            yield from _dropped(statement, metastore)
        elif statement.kind is StatementKind.ALTER:
            yield from _altered(statement, metastore)
        elif statement.kind.by_query_id:
            if statement.name != ALL and statement.name not in metastore.queries:
                yield f"unknown query id {statement.name}"
        else:
            there = metastore.types.get(statement.name)
            if statement.kind is StatementKind.CREATE_TYPE and there is not None:
                yield (
                    f"Cannot register custom type '{statement.name}' since it is already "
                    f"registered with type: {there}"
                )
            if statement.kind is StatementKind.DROP_TYPE and there is None:
                yield f"Type {statement.name} does not exist"

    def _read(self, statement: Statement, metastore: Metastore) -> Iterable[str]:
        for name in statement.sources:
            source = metastore.sources.get(name)
            if source is None:
                yield f"{name} does not exist"
            elif source.query is None:
                yield from self._topic(source.topic)

    def _topic(self, topic: str | None) -> Iterable[str]:
        if topic is None:
            return
        there = self._topic_exists(topic)
        if isinstance(there, Unknown):
            yield f"whether Kafka topic {topic} exists is unknown ({there.reason})"
        elif not there:
            yield f"Kafka topic does not exist: {topic}"


def _needless(statement: Statement, metastore: Metastore) -> str:
    name, kind = statement.name, statement.kind
    there = name in (metastore.types if statement.entity is EntityType.TYPE else metastore.sources)
    creates = kind in (
        StatementKind.CREATE_SOURCE,
        StatementKind.CREATE_AS,
        StatementKind.CREATE_TYPE,
    )
    if creates and statement.if_not_exists and there:
        return f"Cannot add {statement.entity} {name}: one with the same name already exists."
    if (
        kind in (StatementKind.DROP_SOURCE, StatementKind.DROP_TYPE)
        and statement.if_exists
        and not there
    ):
        return f"{name} does not exist."
    return ""


def _taken(statement: Statement, metastore: Metastore) -> Iterable[str]:
    there = metastore.sources.get(statement.name)
    if there is None:
        return
    if not statement.or_replace or there.kind is not statement.entity:
        yield (
            f"Cannot add {statement.entity} '{statement.name}': A {there.kind} with the same name "
            "already exists"
        )
    elif there.read_only or statement.read_only:
        yield f"Cannot add {statement.entity} '{statement.name}': source ones are not replaced"


def _dropped(statement: Statement, metastore: Metastore) -> Iterable[str]:
    source = metastore.sources.get(statement.name)
    if source is None:
        yield f"Source {statement.name} does not exist"
        return
    yield from _kind(statement, source)
    readers, writers = metastore.queries_of(statement.name)
    if readers or writers:
        yield (
            f"Cannot drop {statement.name}. The following queries read from this source: "
            f"[{', '.join(readers)}]. The following queries write into this source: "
            f"[{', '.join(writers)}]. You need to terminate them before dropping {statement.name}"
        )


def _altered(statement: Statement, metastore: Metastore) -> Iterable[str]:
    source = metastore.sources.get(statement.name)
    if source is None:
        yield f"Source {statement.name} does not exist"
        return
    yield from _kind(statement, source)
    if source.query is not None:
        yield "ALTER command is not supported for CREATE ... AS statements"
    columns = (*source.columns, *statement.columns)
    if len(set(columns)) < len(columns):
        yield f"Cannot add columns that {statement.name} has already"


def _kind(statement: Statement, source: StreamOrTable) -> Iterable[str]:
    if source.kind is not statement.entity:
        yield f"Incompatible data source type is {source.kind}, but statement is {statement.entity}"


def _version(metastore: Metastore) -> dict[str, int]:
    """The version that the service's servers read: the newest one that they wrote.

    A server ends at a command with a version above its own.
    """
    newest = metastore.newest_version
    if newest is None:
        return {"version": FIRST_VERSION}
    return {} if newest == NO_VERSION else {"version": min(newest, VERSION)}


def inconsistencies(metastore: Metastore, topic_exists: TopicExists) -> dict[str, str]:
    """What is missing since an object was created, by the object's name; changes nothing.

    A stream or table without its topic cannot be read, and neither can objects that depend on it.
    """
    told: dict[str, str] = {}
    for name, source in sorted(metastore.sources.items()):
        there = True if source.topic is None else topic_exists(source.topic)
        if isinstance(there, Unknown):
            told[name] = f"whether its topic {source.topic} exists is unknown ({there.reason})"
        elif not there:
            told[name] = f"its topic {source.topic} does not exist"
    for query in metastore.queries.values():
        broken = [source for source in query.sources if source in told]
        if broken and query.sink is not None and query.sink not in told:
            told[query.sink] = f"query {query.id} reads {', '.join(broken)}: {told[broken[0]]}"
    return told
