"""How an execution is written to its journal, read back, and measured before its first change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from breakglass.services.guard.journal_view import Details, Items
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.batches import LARGEST, ExecutionLimits
from breakglass.services.recovery.execution.target import ElectionTarget

SUCCEEDED = "succeeded"
PARTLY_FAILED = "partly failed"
UNDONE = "undone"
"""How a journal records that its execution ended."""


class ExecutionJournal(Protocol):
    """The journal, as far as an execution needs it: each line is on disk when this returns."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that is changed."""

    def request(self, step: str, items: Items, **details: Any) -> int: ...
    def outcome(self, request: int, items: Items, **details: Any) -> int: ...
    def note(self, text: str, **details: Any) -> int: ...


def described(target: ElectionTarget) -> dict[str, Any]:
    """*target* as an item of a plan or a request: all that finishing or undoing needs."""
    return {
        "topic_id": target.topic_id,
        "designee": target.designee,
        "order": target.order,
        "assignment": target.assignment,
        "leader_epoch": target.leader_epoch,
        "log_end": target.log_end,
        "min_insync_replicas": target.min_insync_replicas,
        "live": target.live,
        "log_start": target.log_start,
    }


def target_of_item(partition: TopicPartition, item: Details) -> ElectionTarget | None:
    """The target that *item* describes; None when a field is missing."""
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
            log_start=_number(item.get("log_start")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


OUTCOME_BYTES = 150
"""Bytes for one partition in an outcome: its name, its result, its leader."""
REASON_BYTES = 350
"""Bytes for the sentence that ends an outcome."""
RESCUE_BYTES = 800
"""Bytes for one partition in a rescue, request and outcome: spans, places of what was saved."""
LINE_BYTES = 150
"""Bytes of a line without its partitions."""
STEPS = 3
"""Steps of a partition: its order written, its election, its order put back."""
LINES_A_BATCH = 2 * STEPS + 2
"""Lines of a batch: those of its steps, a note of what was not sent, and a rescue."""
MARGIN = 1.25


def journal_bytes(
    targets: Sequence[ElectionTarget], *, rescued: bool, limits: ExecutionLimits | None = None
) -> int:
    """The most that the journal of electing *targets* takes from here on.

    Every step of every partition once, in batches of one at worst; one largest batch with all
    its retries; and a margin.
    """
    if not targets:
        return 0
    retries = (limits or ExecutionLimits()).retries
    items = [_item_bytes(target) for target in targets]
    once = sum(STEPS * (item + OUTCOME_BYTES) + REASON_BYTES for item in items)
    once += RESCUE_BYTES * rescued * len(items)
    again = retries * sum(sorted(items)[-LARGEST:]) * STEPS
    again += retries * min(len(items), LARGEST) * STEPS * OUTCOME_BYTES
    lines = LINES_A_BATCH * LINE_BYTES * (len(targets) + retries)
    return int((once + again + lines) * MARGIN)


def _item_bytes(target: ElectionTarget) -> int:
    named = {"topic": target.partition.topic, "partition": target.partition.partition}
    return len(json.dumps({**named, **described(target)}, default=str)) + len(", ")
