"""Says how many records of what was elected are readable, and what the rest waits for (R30). Pure.

A leader moves its high watermark only while min.insync.replicas are in sync, and consumers read no
further than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from breakglass.services.recovery.execution.target import PartitionOutcome, Rung
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.words.figures import partitions_text

NAMED = 3
"""More partitions than these are counted."""


def reach_text(outcome: PartitionOutcome) -> str:
    """``31 of 92 records readable``; empty where consumers read to the end, or nobody leads."""
    if outcome.rung is None or outcome.rung >= Rung.READABLE:
        return ""
    left, held = outcome.not_yet_readable, outcome.held
    if left is None:
        if outcome.reach is None and outcome.target.log_end is None:
            return ""  # Of a preferred election, which keeps every record.
        return "how many of its records are readable is not known"
    if held is None:
        return f"{left:,} records are not readable yet"
    return f"{held - left:,} of {held:,} records readable"


def waits_for(outcomes: Iterable[PartitionOutcome]) -> Iterator[str]:
    """What records that are not readable yet wait for, and what to do, one sentence a cause."""
    alike: dict[tuple[int | None, int, tuple[int, ...], tuple[int, ...]], list[PartitionOutcome]]
    alike = {}
    for outcome in outcomes:
        if outcome.not_yet_readable and outcome.reach is not None:
            target = outcome.target
            live = tuple(broker for broker in target.live if broker in target.assignment)
            away = tuple(
                broker for broker in target.assignment if broker not in (target.designee, *live)
            )
            key = (target.min_insync_replicas, outcome.reach.in_sync, live, away)
            alike.setdefault(key, []).append(outcome)
    for (minimum, in_sync, live, away), found in alike.items():
        yield f"{_what(found)}: {_until(minimum, in_sync)}; {_what_to_do(live, away)}"


def _what(found: Sequence[PartitionOutcome]) -> str:
    records = sum(outcome.not_yet_readable or 0 for outcome in found)
    partitions = ", ".join(str(outcome.partition) for outcome in found[:NAMED])
    more = f" and {partitions_text(len(found) - NAMED)} more" if found[NAMED:] else ""
    return f"{records:,} records of {partitions}{more} are not readable yet"


def _until(minimum: int | None, in_sync: int) -> str:
    if minimum is None:
        return "they become readable when another replica is in sync"
    if in_sync >= minimum:
        return f"{in_sync:,} replicas are in sync, and copy them"
    return (
        f"min.insync.replicas is {minimum:,} and {in_sync:,} in sync: they become readable when "
        f"{minimum:,} are"
    )


def _what_to_do(live: tuple[int, ...], away: tuple[int, ...]) -> str:
    move = "move the partition to a live broker (kafka-reassign-partitions.sh)"
    if live:
        return f"{named(live)} copies them; if it does not come in sync, {move}"
    back = f", or bring back {named(away)} once its log folder is copied" if away else ""
    return f"{move}{back}"
