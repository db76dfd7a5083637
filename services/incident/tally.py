"""What many rows come to: worked out once for as long as they stay the same. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import Quorum, Unknown
from breakglass.services.recovery.judgement.summary import Summary, sum_up


@dataclass(frozen=True, slots=True)
class IncidentTally:
    """Figures over all rows of an incident."""

    summary: Summary
    """Of the rows that are judged; its total counts the others too."""
    judged: int
    """How many have been judged."""
    evidence_at_ms: int | None
    """When the oldest evidence was read, in milliseconds of the epoch; None: there is none."""


def tally_of(rows: Sequence[IncidentRow], quorum: Quorum | Unknown) -> IncidentTally:
    """The figures of *rows*, judged while *quorum* was what brokers told of the controllers."""
    judged = [one.judged for one in rows if one.judged is not None]
    read_at = {one.chunk.read_at_ms for one in rows if one.chunk is not None}
    summary = replace(sum_up(judged, quorum), total=len(rows))
    if rows and not judged:
        doing = f"Reading the replicas of {len(rows):,} offline partitions."
        summary = replace(summary, headline=doing)
    return IncidentTally(summary, len(judged), min(read_at, default=None))
