"""What an execution writes down, and how a target is written and read back."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from breakglass.services.guard.journal_view import Details, Items
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.target import ElectionTarget

SUCCEEDED = "succeeded"
PARTLY_FAILED = "partly failed"
UNDONE = "undone"
"""How a journal says that its execution ended."""


class ExecutionJournal(Protocol):
    """The journal, as far as an execution needs it: each line is on disk when this returns."""

    @property
    def cluster_id(self) -> str:
        """The cluster that it is about."""

    def request(self, step: str, items: Items, **details: Any) -> int: ...
    def outcome(self, request: int, items: Items, **details: Any) -> int: ...
    def note(self, text: str, **details: Any) -> int: ...


def described(target: ElectionTarget) -> dict[str, Any]:
    """*target* as an item of a plan or a request: all it takes to finish or to undo it."""
    return {
        "topic_id": target.topic_id,
        "designee": target.designee,
        "order": target.order,
        "assignment": target.assignment,
        "leader_epoch": target.leader_epoch,
        "log_end": target.log_end,
        "min_insync_replicas": target.min_insync_replicas,
        "live": target.live,
    }


def target_of_item(partition: TopicPartition, item: Details) -> ElectionTarget | None:
    """The target that *item* describes; None when it does not say everything."""
    try:
        return ElectionTarget(
            partition=partition,
            topic_id=UUID(str(item["topic_id"])),
            designee=int(item["designee"]),
            order=tuple(map(int, item["order"])),
            assignment=tuple(map(int, item["assignment"])),
            leader_epoch=int(item["leader_epoch"]),
            log_end=_number(item["log_end"]),
            min_insync_replicas=_number(item["min_insync_replicas"]),
            live=tuple(map(int, item["live"])),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
