"""Takes that died before they were acknowledged: nobody but their own request goes on with them."""

from __future__ import annotations

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.stored import StoredCheckpoint

ABANDONED_MS = 120_000
"""Longer than a take that lives needs to be acknowledged, and clocks differ."""
NEVER_ACKNOWLEDGED = "its coordinator was gone before it was acknowledged"


def abandoned(found: StoredCheckpoint, node: int, before_ms: int) -> bool:
    """Whether a checkpoint that was asked for until then will never be acknowledged.

    Nobody but *node* has begun to copy it, which asks itself.
    """
    nodes = {copy.id.node for part in found.partitions for copy in part.copies}
    asked = found.created_at_ms
    waiting = found.started is None and found.status is not Status.FAILED
    return waiting and nodes <= {node} and asked is not None and asked <= before_ms
