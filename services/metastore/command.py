"""A ksqlDB command: its id, which is the record's key, and its value.

The key of a command: the entity and the action, as ksqlDB writes them (CommandId.java).

The key is JSON: one value in UTF-8, with surrogates as Java writes them.

The value of a command: a statement, its properties, and the plan it became (Command.java).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic_core import from_json

from breakglass.services.words.inert import bounded

MOST_VALUES = 4_000_000
"""Maximum values of a JSON text that is read: an empty list of two bytes takes a hundred."""
_BEGINNINGS = (b",", b"[", b"{")


def parse_json(text: bytes) -> Any:
    """Read *text* at a third of the cost of `json.loads`, which dominates a replay.

    Raises: ValueError, RecursionError.
    """
    if len(text) > MOST_VALUES < sum(map(text.count, _BEGINNINGS)):
        raise ValueError(f"it has more than {MOST_VALUES:,} values")
    try:
        return from_json(text, cache_strings="keys")
    except ValueError:
        # Lone surrogates, deep nesting or invalid JSON: `json.loads` reports the position.
        return json.loads(text.decode("utf-8", "surrogatepass"))


SEPARATOR = "/"


class EntityType(StrEnum):
    """The type of a command's entity."""

    TOPIC = "topic"
    STREAM = "stream"
    TABLE = "table"
    CLUSTER = "cluster"
    PAUSE = "pause"
    RESUME = "resume"
    TERMINATE = "terminate"
    TYPE = "type"


class CommandAction(StrEnum):
    """The action of a command."""

    CREATE = "create"
    DROP = "drop"
    EXECUTE = "execute"
    TERMINATE = "terminate"
    ALTER = "alter"


_TYPES = {type_.value: type_ for type_ in EntityType}
_ACTIONS = {action.value: action for action in CommandAction}


class InvalidCommandId(ValueError):
    """Bytes that are not a command id; the message says why."""


class CommandId(NamedTuple):
    """``type/entity/action``. Keys repeat: a key names the changed entity, not the change."""

    type: EntityType
    entity: str
    action: CommandAction

    def __str__(self) -> str:
        return SEPARATOR.join((self.type.value, self.entity, self.action.value))

    def to_json(self) -> bytes:
        """The key's bytes, as Jackson writes them: only necessary characters are escaped."""
        return json.dumps(str(self), ensure_ascii=False).encode("utf-8", "surrogatepass")

    @property
    def readable_by_ksqldb(self) -> bool:
        """Whether ksqlDB can read it back: it splits at the second '/', even inside the name."""
        return SEPARATOR not in self.entity

    @property
    def terminates_cluster(self) -> bool:
        """Whether a replay of the command ends the whole service and deletes its topics."""
        return self == TERMINATE_CLUSTER

    @classmethod
    def parse(cls, text: str) -> CommandId:
        """Read ``type/entity/action``; the entity itself may contain '/'.

        Raises: InvalidCommandId.
        """
        kind, _, rest = text.partition(SEPARATOR)
        entity, between, action = rest.rpartition(SEPARATOR)
        if not between:
            raise InvalidCommandId("Expected a string of the form <type>/<entity>/<action>")
        known = _TYPES.get(kind) or _TYPES.get(kind.lower())
        does = _ACTIONS.get(action) or _ACTIONS.get(action.lower())
        if known is None or does is None:
            wrong, what = (kind, "type") if known is None else (action, "action")
            raise InvalidCommandId(f"{bounded(wrong, SHOWN)!r} is no {what} of a command")
        return cls(known, entity, does)

    @classmethod
    def from_json(cls, key: bytes | None) -> CommandId:
        """Read a record's key.

        Raises: InvalidCommandId.
        """
        if key is None:
            raise InvalidCommandId("the key is null")
        try:
            text = parse_json(key)
        except (ValueError, RecursionError) as error:
            raise InvalidCommandId(f"not JSON: {error}") from None
        if type(text) is not str:
            raise InvalidCommandId("not a JSON string")
        return cls.parse(text)


TERMINATE_CLUSTER = CommandId(EntityType.CLUSTER, "TerminateCluster", CommandAction.TERMINATE)
MIGRATION = CommandId(EntityType.CLUSTER, "migration", CommandAction.ALTER)
"""Tells older servers that the topic has moved; ksqlDB never backs up this command."""


VERSION = 18
"""The newest known command version; each ksqlDB server reads versions up to its own."""
SHOWN = 80
"""Characters of a text from a backup that a message quotes."""
PLAN_TYPE = "ksqlPlanV1"

_COMMAND_FIELDS = frozenset(
    ("statement", "streamsProperties", "originalProperties", "plan", "version")
)
_PLAN_FIELDS = frozenset(("@type", "statementText", "ddlCommand", "queryPlan"))
_QUERY_FIELDS = frozenset(("sources", "sink", "physicalPlan", "queryId", "runtimeId"))


class InvalidCommand(ValueError):
    """Bytes that are not a command; the message says why."""


class IncompatibleCommand(InvalidCommand):
    """A command with a version or fields that this release does not know."""


class DdlKind(StrEnum):
    """What a plan does to the set of objects."""

    CREATE_STREAM = "createStreamV1"
    CREATE_TABLE = "createTableV1"
    REGISTER_TYPE = "registerTypeV1"
    DROP_SOURCE = "dropSourceV1"
    DROP_TYPE = "dropTypeV1"
    ALTER_SOURCE = "alterSourceV1"

    @property
    def name_field(self) -> str:
        return "typeName" if self in (DdlKind.REGISTER_TYPE, DdlKind.DROP_TYPE) else "sourceName"


_KINDS = {kind.value: (kind, kind.name_field) for kind in DdlKind}


class Ddl(NamedTuple):
    """The part of a plan that creates, changes or drops an object."""

    kind: DdlKind
    name: str
    body: Mapping[str, Any]
    """The complete part, as it was written."""

    @property
    def topic(self) -> str | None:
        topic = self.body.get("topicName")
        return topic if isinstance(topic, str) else None

    @property
    def or_replace(self) -> bool:
        return bool(self.body.get("orReplace"))


class PlannedQuery(NamedTuple):
    """The part of a plan that is a persistent query."""

    id: str
    sources: tuple[str, ...]
    sink: str | None
    body: Mapping[str, Any]


class CommandPlan(NamedTuple):
    """The plan that ksqlDB made from the statement."""

    statement: str
    ddl: Ddl | None
    query: PlannedQuery | None


class Command(NamedTuple):
    """One statement as ksqlDB distributes it to the servers of a service."""

    statement: str
    streams_properties: Mapping[str, Any]
    original_properties: Mapping[str, Any]
    plan: CommandPlan | None
    version: int | None

    @classmethod
    def from_json(cls, value: bytes | None, newest: int = VERSION) -> Command:
        """Read a record's value.

        Raises:
            IncompatibleCommand: its version is above *newest*, or it has unknown fields.
            InvalidCommand: it is not a command.
        """
        if value is None:
            raise InvalidCommand("the value is null")
        try:
            body = parse_json(value)
        except (ValueError, RecursionError) as error:
            raise InvalidCommand(f"not JSON: {error}") from None
        if type(body) is not dict:
            raise InvalidCommand("not a JSON object")
        return cls.from_document(body, newest)

    @classmethod
    def from_document(cls, body: Mapping[str, Any], newest: int = VERSION) -> Command:
        """Read a record's value from parsed JSON. Raises: IncompatibleCommand, InvalidCommand."""
        field = body.get
        version, plan = field("version"), field("plan")
        if version is not None and (type(version) is not int or version > newest):
            raise _version_error(version, newest)
        if not body.keys() <= _COMMAND_FIELDS:
            raise _unknown(body, _COMMAND_FIELDS, "a command")
        statement = field("statement")
        streams, original = field("streamsProperties"), field("originalProperties")
        if type(statement) is not str:
            raise _no_text("statement")
        return cls(
            statement,
            streams if type(streams) is dict else _map(streams, "streamsProperties"),
            original if type(original) is dict else _map(original, "originalProperties"),
            None if plan is None else _plan(plan),
            version,
        )


def _version_error(version: object, newest: int) -> InvalidCommand:
    if type(version) is not int:
        return InvalidCommand("version is no whole number")
    return IncompatibleCommand(
        "Received a command from an incompatible command topic version. Expected version "
        f"less than or equal to {newest} but got {bounded(str(version), SHOWN)}"
    )


def _plan(body: object) -> CommandPlan:
    if not isinstance(body, dict):
        raise InvalidCommand("plan is no JSON object")
    field = body.get
    if field("@type") != PLAN_TYPE:
        raise IncompatibleCommand(f"plan has the unknown type {field('@type')!r}")
    if not body.keys() <= _PLAN_FIELDS:
        raise _unknown(body, _PLAN_FIELDS, "a plan")
    statement, ddl, query = field("statementText"), field("ddlCommand"), field("queryPlan")
    if type(statement) is not str:
        raise _no_text("statementText")
    return CommandPlan(
        statement, None if ddl is None else _ddl(ddl), None if query is None else _query(query)
    )


def _ddl(body: object) -> Ddl:
    if not isinstance(body, dict):
        raise InvalidCommand("ddlCommand is no JSON object")
    told = body.get("@type")
    known = _KINDS.get(told) if type(told) is str else None
    if known is None:
        raise IncompatibleCommand(f"ddlCommand has the unknown type {told!r}")
    kind, name_field = known
    name = body.get(name_field)
    if type(name) is not str:
        raise _no_text(name_field)
    return Ddl(kind, unquoted(name), body)


def _query(body: object) -> PlannedQuery:
    if not isinstance(body, dict):
        raise InvalidCommand("queryPlan is no JSON object")
    if not body.keys() <= _QUERY_FIELDS:
        raise _unknown(body, _QUERY_FIELDS, "a query plan")
    sources, sink, query_id = body.get("sources"), body.get("sink"), body.get("queryId")
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise InvalidCommand("sources is no list of names")
    if sink is not None and not isinstance(sink, str):
        raise InvalidCommand("sink is no name")
    if not isinstance(query_id, str):
        raise _no_text("queryId")
    return PlannedQuery(
        query_id,
        tuple([unquoted(source) for source in sources]),
        None if sink is None else unquoted(sink),
        body,
    )


def unquoted(name: str) -> str:
    """A name without its enclosing backquotes; a doubled backquote inside stands for one."""
    if name[:1] == name[-1:] == "`" and len(name) >= 2:
        return name[1:-1].replace("``", "`")
    return name


def quoted(name: str) -> str:
    """A name in backquotes, as in the ids of CREATE and INSERT."""
    return "`" + name.replace("`", "``") + "`"


def _unknown(body: Mapping[str, Any], fields: frozenset[str], what: str) -> IncompatibleCommand:
    unknown = bounded(min(body.keys() - fields), SHOWN)
    return IncompatibleCommand(f"{what} has the unknown field {unknown!r}")


def _no_text(field: str) -> InvalidCommand:
    return InvalidCommand(f"{field} is missing or no text")


def _map(found: object, field: str) -> Mapping[str, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidCommand(f"{field} is no JSON object")
    return found
