"""Why a checkpoint has failed or is refused, in few words, and what each level promises.

Equal reasons are combined, and partitions are named by their topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    Level,
    NumberedPartition,
)
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition

UNKNOWN = "unknown"
"""In place of a level: the checkpoint was never requested."""


def level_of(found: StoredCheckpoint) -> str:
    """The word for the checkpoint's level."""
    return UNKNOWN if found.take is None else found.take.level


def promise(found: StoredCheckpoint) -> str:
    """What a user may rely on after a restore of the checkpoint."""
    promised = _promised(found)
    return promised if found.proved else f"{promised} {NOT_PROVED}"


NOT_PROVED = (
    "Not proved: an older release wrote its groups, offsets and policies without sums, so that an "
    "edit of them cannot be found."
)


def _promised(found: StoredCheckpoint) -> str:
    if found.unread is not None:
        return f"{found.state}: nothing is promised while its documents cannot be read."
    level = Level.VECTOR if found.take is None else found.take.level
    if level is Level.TRANSACTIONAL and found.cut is not None:
        return _lowered_transactions(found.cut)
    if level is not Level.VERIFIED:
        return PROMISES[level]
    lowered = sum(found.cut.rolled_back.values()) if found.cut else None
    back = "?" if lowered is None else f"{lowered:,}"
    return f"verified: lowered by {back} offsets to be consistent by what led to each record."


def _lowered_transactions(cut: CutDocument) -> str:
    lowered = sum(cut.rolled_back.values()) - sum(map(len, cut.in_transit.values()))
    left_out = "?" if cut.left_out is None else f"{cut.left_out:,}"
    return (
        f"transactional: lowered by {lowered:,} offsets, so that every transaction is in it as a "
        f"whole or not at all; {left_out} left out."
    )


PROMISES: Mapping[Level, str] = {
    Level.VECTOR: (
        "vector: ends and offsets as they were read, unverifiable: nothing is promised."
    ),
    Level.VERIFIED: "verified: lowered to be consistent by what led to each record.",
    Level.ORDERED: (
        "ordered: read against the flow of records: nothing is lost, and at-least-once groups "
        "process some records twice."
    ),
    Level.COORDINATED: "coordinated: cut at the id that every record carries.",
    Level.TRANSACTIONAL: (
        "transactional: every transaction is in it as a whole or not at all, with its offsets."
    ),
}
"""For each level, whatever the checkpoint's status."""


ANOTHER_FAILED = "another partition of the checkpoint has failed"
MOST = 5
"""Maximum number of runs of partitions that are named."""


def why_failed(part: StoredPartition, found: StoredCheckpoint) -> str | None:
    """Why one partition of *found* has failed; None if it has not."""
    if part.status is not Status.FAILED:
        return None
    if part.failure is not None:
        return part.failure
    return ANOTHER_FAILED if found.failed is None else found.failed.reason


def reasons(found: StoredCheckpoint) -> Iterator[str]:
    """Why the checkpoint has failed: as a whole, then by partition, equal reasons combined."""
    if found.failure:
        yield found.failure
    parts: dict[str, list[StoredPartition]] = {}
    for partition in found.partitions:
        if partition.failure is not None:
            parts.setdefault(partition.failure, []).append(partition)
    for reason, of in parts.items():
        yield f"{named(of)}: {reason}"


def name_of(part: StoredPartition) -> str:
    """``orders-3``; the number if the checkpoint does not list the partition."""
    subject = part.subject
    return f"number {part.number}" if subject is None else f"{subject.topic}-{subject.partition}"


def named(parts: Sequence[StoredPartition]) -> str:
    """``orders-0..2, orders-7 (4 partitions)``; a single partition by its name alone."""
    if len(parts) == 1:
        return name_of(parts[0])
    runs = [_run(run) for run in _runs(parts)]
    more = ", ..." if len(runs) > MOST else ""
    return f"{', '.join(runs[:MOST])}{more} ({len(parts):,} partitions)"


def _runs(parts: Sequence[StoredPartition]) -> list[list[StoredPartition]]:
    """Consecutive partitions of one topic, combined."""
    found: list[list[StoredPartition]] = []
    for part in parts:
        if found and _follows(found[-1][-1].subject, part.subject):
            found[-1].append(part)
        else:
            found.append([part])
    return found


def _follows(before: NumberedPartition | None, after: NumberedPartition | None) -> bool:
    if before is None or after is None:
        return False
    return (before.topic, before.partition + 1) == (after.topic, after.partition)


def _run(parts: Sequence[StoredPartition]) -> str:
    last = parts[-1].subject
    if len(parts) == 1 or last is None:
        return name_of(parts[0])
    return f"{name_of(parts[0])}..{last.partition}"


def not_higher(refused: NotHigher) -> str:
    """Why an id is unavailable, and what to do; Zeebe's clients get Zeebe's words."""
    return (
        f"checkpoint {refused.requested} cannot be taken: ids increase, and {refused.latest} was "
        "asked for before, deleted and failed ones counted. Leave --id out for the next one, or "
        f"give one above {refused.latest}."
    )


def overtaken(refused: NotHigher) -> str:
    """The same for an id that was assigned automatically, and that was free a moment ago."""
    return (
        f"checkpoint {refused.latest} was asked for in between, so {refused.requested} is not the "
        "next one any more: begin again"
    )
