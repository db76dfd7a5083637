"""What a statement says, as far as it changes the set of objects and queries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from breakglass.services.metastore.command import quoted
from breakglass.services.metastore.command_id import CommandAction, CommandId, EntityType


class StatementKind(StrEnum):
    """What a statement does."""

    CREATE_SOURCE = "create source"
    CREATE_AS = "create as select"
    INSERT_AS = "insert into"
    CREATE_TYPE = "create type"
    DROP_SOURCE = "drop source"
    DROP_TYPE = "drop type"
    ALTER = "alter"
    TERMINATE = "terminate"
    PAUSE = "pause"
    RESUME = "resume"

    @property
    def begins_query(self) -> bool:
        """Whether a query runs from then on."""
        return self in (StatementKind.CREATE_AS, StatementKind.INSERT_AS)

    @property
    def by_query_id(self) -> bool:
        """Whether it is about queries, not about objects."""
        return self in (StatementKind.TERMINATE, StatementKind.PAUSE, StatementKind.RESUME)


ALL = "ALL"
"""In place of a query's id."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement."""

    kind: StatementKind
    entity: EntityType
    """What *name* is the name of."""
    name: str
    """Of the object, or the id of the query (`ALL` for every one)."""
    or_replace: bool = False
    if_not_exists: bool = False
    if_exists: bool = False
    read_only: bool = False
    """CREATE SOURCE: nothing can be written to it."""
    columns: tuple[str, ...] = ()
    """That it declares, or adds."""
    primary_key: bool = False
    sources: tuple[str, ...] = ()
    """What its query reads."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of its WITH, by their names in capitals."""
    type_text: str = ""
    """What a type stands for."""

    @property
    def topic(self) -> str | None:
        """The Kafka topic that it names."""
        return self.properties.get("KAFKA_TOPIC")

    @property
    def command_id(self) -> CommandId:
        """The key of its command (CommandIdAssigner.java): names are quoted when they are made."""
        if self.kind in (
            StatementKind.CREATE_SOURCE,
            StatementKind.CREATE_AS,
            StatementKind.INSERT_AS,
        ):
            return CommandId(self.entity, quoted(self.name), CommandAction.CREATE)
        action = {
            StatementKind.CREATE_TYPE: CommandAction.CREATE,
            StatementKind.DROP_SOURCE: CommandAction.DROP,
            StatementKind.DROP_TYPE: CommandAction.DROP,
            StatementKind.ALTER: CommandAction.ALTER,
        }.get(self.kind, CommandAction.EXECUTE)
        return CommandId(self.entity, self.name, action)
