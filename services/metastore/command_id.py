"""The key of a command: what it is about and what it does, as ksqlDB writes it (CommandId.java)."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import NamedTuple

from breakglass.services.metastore.record_json import parse_json

SEPARATOR = "/"


class EntityType(StrEnum):
    """What a command is about."""

    TOPIC = "topic"
    STREAM = "stream"
    TABLE = "table"
    CLUSTER = "cluster"
    PAUSE = "pause"
    RESUME = "resume"
    TERMINATE = "terminate"
    TYPE = "type"


class CommandAction(StrEnum):
    """What it does."""

    CREATE = "create"
    DROP = "drop"
    EXECUTE = "execute"
    TERMINATE = "terminate"
    ALTER = "alter"


_TYPES = {one.value: one for one in EntityType}
_ACTIONS = {one.value: one for one in CommandAction}


class InvalidCommandId(ValueError):
    """Bytes that are no command id; the message says why."""


class CommandId(NamedTuple):
    """``type/entity/action``. Keys repeat: one says what is changed, not which change it is."""

    type: EntityType
    entity: str
    action: CommandAction

    def __str__(self) -> str:
        return SEPARATOR.join((self.type.value, self.entity, self.action.value))

    def to_json(self) -> bytes:
        """The key's bytes, as Jackson writes them: no character but the necessary is escaped."""
        return json.dumps(str(self), ensure_ascii=False).encode("utf-8", "surrogatepass")

    @property
    def readable_by_ksqldb(self) -> bool:
        """Whether ksqlDB itself reads it back: it cuts at the second '/', be it in the name."""
        return SEPARATOR not in self.entity

    @property
    def terminates_cluster(self) -> bool:
        """Whether replaying it ends the whole service, and deletes its topics."""
        return self == TERMINATE_CLUSTER

    @classmethod
    def parse(cls, text: str) -> CommandId:
        """Read ``type/entity/action``; the entity may hold '/' itself.

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
"""Tells older servers that the topic was moved elsewhere; ksqlDB never backs it up."""
