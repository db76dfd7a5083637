"""What endangers a command topic, judged from one look at it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from breakglass.services.metastore.events import Event
from breakglass.services.metastore.topic_state import (
    CLEANUP,
    RETENTION_BYTES,
    RETENTION_TIME,
    Setting,
    TopicState,
)

FOREVER = "-1"
DELETE_POLICY = "delete"


class Danger(StrEnum):
    """What is wrong."""

    RETENTION_TIME = "retention.ms"
    RETENTION_BYTES = "retention.bytes"
    CLEANUP_POLICY = "cleanup.policy"
    RECORDS_DELETED = "records deleted"
    TOPIC_MISSING = "topic missing"
    TOPIC_RECREATED = "topic recreated"
    PARTITIONS = "partitions"
    WATCH_BLIND = "watch blind"
    LOG_CUT = "log cut"


@dataclass(frozen=True, slots=True)
class Alarm(Event):
    """Something that loses commands, or already did."""

    kind: ClassVar[str] = "alarm"
    danger: Danger
    message: str
    evidence: dict[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.message


def log_cut(topic: str, what: str) -> Alarm:
    """What to tell when a log lost commands that were read from it before."""
    return Alarm(
        Danger.LOG_CUT,
        f"the log of topic {topic} was cut back at an election, and what was cut off was in the "
        f"backup: {what}. Compare topic and backup before a ksqlDB server starts",
    )


def dangers(state: TopicState | None, topic: str, topic_id: str | None) -> Iterator[Alarm]:
    """What is wrong with *topic*, whose id should be *topic_id* (None: any)."""
    if state is None:
        yield Alarm(
            Danger.TOPIC_MISSING,
            f"topic {topic} is gone: stop every ksqlDB server of the service before one creates it "
            "empty, then `breakglass metastore restore`",
            {"topic_id": topic_id},
        )
        return
    if topic_id is not None and state.topic_id != topic_id:
        yield Alarm(
            Danger.TOPIC_RECREATED,
            f"topic {topic} was deleted and created again: its id is {state.topic_id}, and the "
            f"backup is of {topic_id}",
            {"topic_id": state.topic_id, "before": topic_id},
        )
    yield from _settings(state, topic)
    yield from _log(state, topic)


def _settings(state: TopicState, topic: str) -> Iterator[Alarm]:
    wanted = (
        (RETENTION_TIME, FOREVER, Danger.RETENTION_TIME),
        (RETENTION_BYTES, FOREVER, Danger.RETENTION_BYTES),
        (CLEANUP, DELETE_POLICY, Danger.CLEANUP_POLICY),
    )
    for name, good, danger in wanted:
        held = state.settings.get(name)
        if held is not None and held.value is not None and held.value != good:
            yield _unsafe(topic, name, held, good, danger)


def _unsafe(topic: str, name: str, held: Setting, good: str, danger: Danger) -> Alarm:
    does = "keeps the last command of each id alone" if name == CLEANUP else "removes commands"
    return Alarm(
        danger,
        f"topic {topic} has {name}={held.value} ({held.source}), which {does}: set it to {good}",
        {"setting": name, "value": held.value, "source": held.source},
    )


def _log(state: TopicState, topic: str) -> Iterator[Alarm]:
    start = state.log_start
    if isinstance(start, int) and start > 0:
        yield Alarm(
            Danger.RECORDS_DELETED,
            f"topic {topic} begins at offset {start:,}: what was before was deleted, so a server "
            "that starts now rebuilds something else",
            {"log_start": start},
        )
    if state.partitions != 1:
        yield Alarm(
            Danger.PARTITIONS,
            f"topic {topic} has {state.partitions} partitions and a command topic has one: only "
            "partition 0 is read",
            {"partitions": state.partitions},
        )
