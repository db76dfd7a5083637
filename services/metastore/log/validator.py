"""Whether a statement may become a command: asked before it is written, never when it is read.

A plug-in: whoever can do more than names and dependencies (types, schemas, functions) gives the
writer another `Validator`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from breakglass.services.errors import UsageError
from breakglass.services.metastore.command import PLAN_TYPE, VERSION
from breakglass.services.metastore.command_id import CommandId, EntityType
from breakglass.services.metastore.metastore import Metastore, StreamOrTable
from breakglass.services.metastore.statements.parsing import parse
from breakglass.services.metastore.statements.statement import ALL, Statement, StatementKind
from breakglass.services.metastore.statements.tokens import InvalidStatement
from breakglass.services.model import Unknown

TopicExists = Callable[[str], bool | Unknown]


class StatementRejected(UsageError):
    """The statement may not become a command; nothing was written."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A statement that may be written."""

    id: CommandId
    value: bytes
    """The command as JSON."""
    query_id: str | None = None
    """Of the query that begins."""
    executable: bool = True
    """ksqlDB's servers can run it. Since 0.8 they refuse objects and queries without a plan."""


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """A statement with IF [NOT] EXISTS that changes nothing."""

    reason: str


class Validator(Protocol):
    """Decides a statement."""

    def validate(
        self, text: str, metastore: Metastore, properties: Mapping[str, Any]
    ) -> Planned | NothingToDo:
        """Decide *text* by *metastore*, which is a snapshot of its own.

        Raises: StatementRejected.
        """


class NameValidator:
    """The built-in one: names, duplicates, dependencies and Kafka's topics, as ksqlDB has them."""

    def __init__(self, topic_exists: TopicExists) -> None:
        self._topic_exists = topic_exists

    def validate(
        self, text: str, metastore: Metastore, properties: Mapping[str, Any]
    ) -> Planned | NothingToDo:
        """Decide *text*. Raises: StatementRejected."""
        try:
            statement = parse(text)
        except InvalidStatement as error:
            raise StatementRejected(f"the statement was refused: {error}.") from None
        needless = _needless(statement, metastore)
        if needless:
            return NothingToDo(needless)
        problem = next(iter(self._problems(statement, metastore)), None)
        if problem is not None:
            raise StatementRejected(f"the statement was refused: {problem}.")
        query = metastore.query_id(statement) if statement.kind.begins_query else None
        if query in metastore.queries and not statement.or_replace:
            raise StatementRejected(f"the statement was refused: query id {query} already exists.")
        plan = _plan(statement, text)
        value = {
            "statement": text,
            "streamsProperties": dict(properties),
            "originalProperties": {},
            "plan": plan,
            "version": VERSION,
        }
        told = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        executable = plan is not None or statement.kind.by_query_id
        return Planned(
            statement.command_id, told.encode("utf-8", "surrogatepass"), query, executable
        )

    def _problems(self, statement: Statement, metastore: Metastore) -> Iterable[str]:
        if metastore.terminated:
            yield "the cluster was terminated"
        elif statement.kind is StatementKind.CREATE_SOURCE:
            yield from _taken(statement, metastore)
            yield from _declared(statement)
            yield from self._topic(statement.topic)
        elif statement.kind is StatementKind.CREATE_AS:
            yield from _taken(statement, metastore)
            yield from self._read(statement, metastore)
        elif statement.kind is StatementKind.INSERT_AS:
            yield from _sink(statement, metastore)
            yield from self._read(statement, metastore)
        elif statement.kind is StatementKind.DROP_SOURCE:
            yield from _dropped(statement, metastore)
        elif statement.kind is StatementKind.ALTER:
            yield from _altered(statement, metastore)
        elif statement.kind.by_query_id:
            if statement.name != ALL and statement.name not in metastore.queries:
                yield f"unknown query id {statement.name}"
        else:
            yield from _typed(statement, metastore)

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


def _declared(statement: Statement) -> Iterable[str]:
    if statement.topic is None:
        yield "Missing required property KAFKA_TOPIC, which must be set"
    if not {"FORMAT", "VALUE_FORMAT"} & set(statement.properties):
        yield "Missing required property VALUE_FORMAT, which must be set"
    if not statement.columns:
        yield "its columns would have to be read from a schema registry, which is not done here"
    if len(set(statement.columns)) < len(statement.columns):
        yield "Duplicate column names"
    if statement.primary_key != (statement.entity is EntityType.TABLE):
        needed = "needs" if statement.entity is EntityType.TABLE else "cannot have"
        yield f"a {statement.entity} {needed} a PRIMARY KEY"


def _sink(statement: Statement, metastore: Metastore) -> Iterable[str]:
    sink = metastore.sources.get(statement.name)
    if sink is None:
        yield f"{statement.name} does not exist"
    elif sink.kind is not EntityType.STREAM:
        yield f"INSERT INTO can only be used to insert into a stream. {sink.name} is a table"
    elif sink.read_only:
        yield f"Cannot insert into read-only stream: {sink.name}"


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


def _typed(statement: Statement, metastore: Metastore) -> Iterable[str]:
    there = metastore.types.get(statement.name)
    if statement.kind is StatementKind.CREATE_TYPE and there is not None:
        yield (
            f"Cannot register custom type '{statement.name}' since it is already registered with "
            f"type: {there}"
        )
    if statement.kind is StatementKind.DROP_TYPE and there is None:
        yield f"Type {statement.name} does not exist"


def _plan(statement: Statement, text: str) -> dict[str, Any] | None:
    """The plan of what needs no more than a name; None for what only a server can plan."""
    if statement.kind is StatementKind.DROP_SOURCE:
        ddl = {"@type": "dropSourceV1", "sourceName": statement.name}
    elif statement.kind is StatementKind.DROP_TYPE:
        ddl = {"@type": "dropTypeV1", "typeName": statement.name}
    else:
        return None
    return {"@type": PLAN_TYPE, "statementText": text, "ddlCommand": ddl, "queryPlan": None}


def inconsistencies(metastore: Metastore, topic_exists: TopicExists) -> dict[str, str]:
    """What is not as it was when it was created, by the object's name; nothing is changed.

    A stream or table whose topic is gone cannot be read, and neither can what is made of it.
    """
    told: dict[str, str] = {}
    for name, source in sorted(metastore.sources.items()):
        there = True if source.topic is None else topic_exists(source.topic)
        if isinstance(there, Unknown):
            told[name] = f"whether its topic {source.topic} exists is unknown ({there.reason})"
        elif not there:
            told[name] = f"its topic {source.topic} does not exist"
    for query in metastore.queries.values():
        broken = [one for one in query.sources if one in told]
        if broken and query.sink is not None and query.sink not in told:
            told[query.sink] = f"query {query.id} reads {', '.join(broken)}: {told[broken[0]]}"
    return told
