"""What the level of a checkpoint promises, in the sentence that every front end says."""

from __future__ import annotations

from collections.abc import Mapping

from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint

UNKNOWN = "unknown"
"""In place of a level: nobody has asked for the checkpoint."""


def level_of(found: StoredCheckpoint) -> str:
    """The word for its level."""
    return UNKNOWN if found.take is None else found.take.level


def promise(found: StoredCheckpoint) -> str:
    """What may be relied on after a restore of it."""
    level = Level.VECTOR if found.take is None else found.take.level
    if level is not Level.VERIFIED:
        return PROMISES[level]
    lowered = sum(found.cut.rolled_back.values()) if found.cut else None
    back = "?" if lowered is None else f"{lowered:,}"
    return f"verified: lowered by {back} offsets to be consistent by what led to each record."


PROMISES: Mapping[Level, str] = {
    Level.VECTOR: (
        "vector: ends and offsets as they were read, unverifiable: nothing is promised."
    ),
    Level.VERIFIED: "verified: lowered to be consistent by what led to each record.",
    Level.COORDINATED: "coordinated: cut at the id that every record carries.",
}
"""Of each level, whatever became of the checkpoint."""
