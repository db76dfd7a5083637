"""The key of a command: the entity and the action, as ksqlDB writes them (CommandId.java).

The key is JSON: one value in UTF-8, with surrogates as Java writes them.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic_core import from_json


def parse_json(text: bytes) -> Any:
    """Read *text* at a third of the cost of `json.loads`, which dominates a replay.

    Raises: ValueError, RecursionError.
    """
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
            raise InvalidCommandId(f"{wrong!r} is no {what} of a command")
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
