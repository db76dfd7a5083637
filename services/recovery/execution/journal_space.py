"""How many bytes the journal of a run may take, counted before its first change. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from breakglass.services.recovery.execution.batches import LARGEST
from breakglass.services.recovery.execution.limits import ExecutionLimits
from breakglass.services.recovery.execution.record import described
from breakglass.services.recovery.execution.target import ElectionTarget

OUTCOME_BYTES = 150
"""Of one partition in an outcome: its name, its result, who leads."""
REASON_BYTES = 350
"""A sentence that ends what is done about a partition."""
RESCUE_BYTES = 800
"""Of one partition in a rescue, announced and told: spans, places of what was saved."""
LINE_BYTES = 150
"""Of a line beside its partitions."""
STEPS = 3
"""Announced of a partition: its order written, its election, its order put back."""
LINES_A_BATCH = 2 * STEPS + 2
"""With a note of what was not sent, and a rescue."""
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
