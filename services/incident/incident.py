"""Everything that is known about the offline partitions of a cluster at one moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from breakglass.services.incident.observations import Observation
from breakglass.services.incident.row import IncidentRow, judged_rows
from breakglass.services.incident.tally import IncidentTally, tally_of
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import ClusterSnapshot, TopicPartition
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.judgement.circumstances import Circumstances
from breakglass.services.recovery.judgement.summary import Summary
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.triage import Triage


@dataclass(frozen=True, eq=False)
class Incident:
    """The offline partitions as far as they have been read. A new one for each change."""

    snapshot: ClusterSnapshot
    """The whole cluster's metadata, online partitions included."""
    circumstances: Circumstances
    """What holds for every partition while it is judged."""
    rows: tuple[IncidentRow, ...] = ()
    """One for each offline partition, sorted by it; the very same tuple while nothing changed."""
    silent: Mapping[int, str] = field(default_factory=dict)
    """Brokers that hold replicas and do not answer, with the reason."""
    awaited: frozenset[int] = frozenset()
    """Those of them that are not fenced and may still answer."""
    missing_acls: tuple[str, ...] = ()
    """What this user would need to be told the rest: ``READ on topic orders``."""
    native: NativeRpc = STOCK
    observations: tuple[Observation, ...] = ()
    """Elections that were seen to cost records, the newest first, acknowledged ones included."""
    unwritten: str = ""
    """Why they could not be written down; empty when they were."""
    carried: IncidentTally | None = None
    """Of these very rows, where it has been worked out before."""

    @classmethod
    def of(cls, found: Triage) -> Incident:
        """The same as a triage tells, in the form of lists."""
        evidence = sorted(found.evidence.partitions, key=lambda one: one.partition)
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
        return self.carried or tally_of(self.rows, self.snapshot.quorum)

    @property
    def summary(self) -> Summary:
        """Of the rows that are judged; its total counts the others too."""
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
        """Every row is judged and no broker is waited for."""
        return self.judged == len(self.rows) and not self.awaited

    def row(self, partition: TopicPartition) -> IncidentRow | None:
        """The row of *partition*; None if it is not offline."""
        place = bisect_left(self.rows, partition, key=lambda one: one.partition)
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
        """The judgements of *partitions*, or of all, in their order; unread ones are left out."""
        wanted = (one.partition for one in self.rows) if partitions is None else partitions
        for partition in wanted:
            found = self.assessment(partition)
            if found is not None:
                yield found
