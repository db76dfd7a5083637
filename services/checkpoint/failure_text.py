"""Why a checkpoint has failed or is refused, in few words: equal reasons once, topics by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from breakglass.services.checkpoint.protocol.coordinator import NotHigher
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import NumberedPartition
from breakglass.services.checkpoint.store.stored import StoredCheckpoint, StoredPartition

ANOTHER_FAILED = "another partition of the checkpoint has failed"
MOST = 5
"""Runs of partitions that are named."""


def why_failed(part: StoredPartition, found: StoredCheckpoint) -> str | None:
    """Why one partition of *found* has failed; None where it has not."""
    if part.status is not Status.FAILED:
        return None
    if part.failure is not None:
        return part.failure
    return ANOTHER_FAILED if found.failed is None else found.failed.reason


def reasons(found: StoredCheckpoint) -> Iterator[str]:
    """Why it has failed: as a whole, then its partitions, those with equal reasons together."""
    if found.failed is not None:
        yield found.failed.reason
    parts: dict[str, list[StoredPartition]] = {}
    for one in found.partitions:
        if one.failure is not None:
            parts.setdefault(one.failure, []).append(one)
    for reason, of in parts.items():
        yield f"{named(of)}: {reason}"


def name_of(part: StoredPartition) -> str:
    """``orders-3``; by its number where the checkpoint does not say which partition that is."""
    subject = part.subject
    return f"number {part.number}" if subject is None else f"{subject.topic}-{subject.partition}"


def named(parts: Sequence[StoredPartition]) -> str:
    """``orders-0..2, orders-7 (4 partitions)``; a single one by its name alone."""
    if len(parts) == 1:
        return name_of(parts[0])
    runs = [_run(one) for one in _runs(parts)]
    more = ", ..." if len(runs) > MOST else ""
    return f"{', '.join(runs[:MOST])}{more} ({len(parts):,} partitions)"


def _runs(parts: Sequence[StoredPartition]) -> list[list[StoredPartition]]:
    """Partitions of one topic that follow each other, together."""
    found: list[list[StoredPartition]] = []
    for one in parts:
        if found and _follows(found[-1][-1].subject, one.subject):
            found[-1].append(one)
        else:
            found.append([one])
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
    """Why an id cannot be had, and what to do; Zeebe's clients are told in Zeebe's words."""
    return (
        f"checkpoint {refused.requested} cannot be taken: ids increase, and {refused.latest} was "
        "asked for before, deleted and failed ones counted. Leave --id out for the next one, or "
        f"give one above {refused.latest}."
    )


def overtaken(refused: NotHigher) -> str:
    """The same of an id that nobody chose: it was the next one a moment ago."""
    return (
        f"checkpoint {refused.latest} was asked for in between, so {refused.requested} is not the "
        "next one any more: begin again"
    )
