"""What the level of a checkpoint promises, in the sentence that every front end says."""

from __future__ import annotations

from services.checkpoint.store.documents import Level
from services.checkpoint.store.stored import StoredCheckpoint


def promise(found: StoredCheckpoint) -> str:
    """What may be relied on after a restore of it."""
    level = Level.VECTOR if found.take is None else found.take.level
    match level:
        case Level.VECTOR:
            return "vector: ends and offsets as they were read, unverifiable: nothing is promised."
        case Level.VERIFIED:
            lowered = sum(found.cut.rolled_back.values()) if found.cut else None
            back = "?" if lowered is None else f"{lowered:,}"
            return (
                f"verified: lowered by {back} offsets to be consistent by what led to each record."
            )
        case Level.COORDINATED:
            return "coordinated: cut at the id that every record carries."
