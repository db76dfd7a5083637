"""Everything known about the offline partitions of a cluster at one moment, and its totals.

Totals are worked out once for as long as the rows stay the same. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from breakglass.services.incident.elections_seen import Observation
from breakglass.services.incident.row import IncidentRow, judged_rows
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import Assessment, Summary, sum_up
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.triage import Triage
from breakglass.services.same_ends import differing
from breakglass.services.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class IncidentTally:
    """Figures over all rows of an incident."""

    summary: Summary
    """The summary of judged rows; its total counts the others too."""
    judged: int
    """How many rows have been judged."""
    evidence_at_ms: int | None
    """When the oldest evidence was read, in milliseconds of the epoch; None: there is none."""


def tally_of(rows: Sequence[IncidentRow], snapshot: ClusterSnapshot) -> IncidentTally:
    """The figures of *rows*, judged while the cluster was as *snapshot* has it."""
    judged = [row.judged for row in rows if row.judged is not None]
    summary = replace(sum_up(judged, snapshot.quorum, snapshot.led_without), total=len(rows))
    if rows and not judged:
        doing = f"Reading the replicas of {len(rows):,} offline partitions."
        summary = replace(summary, headline=doing)
    return IncidentTally(summary, len(judged), _oldest(rows))


def tally_again(
    tally: IncidentTally, before: Sequence[IncidentRow], rows: Sequence[IncidentRow]
) -> IncidentTally | None:
    """*tally*, which is of the rows *before*, for *rows*; None where other things are concluded."""
    if rows is before:
        return tally
    was, now = differing(before, rows)
    if [row.judged for row in before[was]] != [row.judged for row in rows[now]]:
        return None
    return replace(tally, evidence_at_ms=_oldest(rows))


def _oldest(rows: Sequence[IncidentRow]) -> int | None:
    read_at = {row.chunk.read_at_ms for row in rows if row.chunk is not None}
    return min(read_at, default=None)


@dataclass(frozen=True, eq=False)
class Incident:
    """The offline partitions as far as they have been read. A new one for each change."""

    snapshot: ClusterSnapshot
    """The whole cluster's metadata, online partitions included."""
    circumstances: Circumstances
    """What is the same for every partition while it is judged."""
    rows: tuple[IncidentRow, ...] = ()
    """A row for each offline partition, sorted; the very same tuple while nothing changed."""
    silent: Mapping[int, str] = field(default_factory=dict)
    """Brokers that hold replicas and do not answer, with the reason."""
    awaited: frozenset[int] = frozenset()
    """Silent brokers that are not fenced and may still answer."""
    missing_acls: tuple[str, ...] = ()
    """The rights that this user lacks to read the rest: ``READ on topic orders``."""
    native: NativeRpc = STOCK
    observations: tuple[Observation, ...] = ()
    """Elections that were seen to cost records, the newest first, acknowledged ones included."""
    unwritten: str = ""
    """Why the elections could not be written down; empty when they were."""
    carried: IncidentTally | None = None
    """The figures of these very rows, where they were worked out before."""

    @classmethod
    def of(cls, found: Triage) -> Incident:
        """The figures of a triage, in the form of lists."""
        evidence = sorted(found.evidence.partitions, key=lambda evidence: evidence.partition)
        read_at_ms = found.snapshot.observed_at_ms
        return cls(
            found.snapshot,
            found.circumstances,
            tuple(judged_rows(evidence, found.circumstances, read_at_ms)),
            found.evidence.silent,
            found.evidence.awaited,
            found.evidence.missing_acls,
            found.native,
        )

    @property
    def read_at_ms(self) -> int:
        """When the metadata was read, in milliseconds of the epoch."""
        return self.snapshot.observed_at_ms

    @cached_property
    def tally(self) -> IncidentTally:
        """Figures over all rows."""
        return self.carried or tally_of(self.rows, self.snapshot)

    @property
    def summary(self) -> Summary:
        """The summary of judged rows; its total counts the others too."""
        return self.tally.summary

    @property
    def judged(self) -> int:
        """How many of the rows have been judged."""
        return self.tally.judged

    @property
    def evidence_at_ms(self) -> int | None:
        """When the oldest evidence was read, in milliseconds of the epoch; None: there is none."""
        return self.tally.evidence_at_ms

    @property
    def complete(self) -> bool:
        """Whether every row is judged and no broker is waited for."""
        return self.judged == len(self.rows) and not self.awaited

    def row(self, partition: TopicPartition) -> IncidentRow | None:
        """The row of *partition*; None if it is not offline."""
        place = bisect_left(self.rows, partition, key=lambda row: row.partition)
        found = self.rows[place] if place < len(self.rows) else None
        return found if found is not None and found.partition == partition else None

    def assessment(self, partition: TopicPartition) -> Assessment | None:
        """The judgement of *partition* with all its evidence, made when asked for.

        None if it is not offline or has not been read yet. Takes some milliseconds.
        """
        row = self.row(partition)
        evidence = None if row is None else row.evidence
        return None if evidence is None else assess(evidence, self.circumstances)

    def assessments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> Iterator[Assessment]:
        """The judgements of *partitions*, or of all, sorted by partition; not of unread ones.

        Sorted, for the evidence of neighbours is thawed together.
        """
        rows: Iterable[IncidentRow | None] = self.rows
        if partitions is not None:
            rows = [self.row(partition) for partition in sorted(partitions, key=_by_name)]
        for row in rows:
            evidence = None if row is None else row.evidence
            if evidence is not None:
                yield assess(evidence, self.circumstances)


def _by_name(partition: TopicPartition) -> tuple[str, int]:
    """How partitions sort, found out once for each."""
    return partition.topic, partition.partition
