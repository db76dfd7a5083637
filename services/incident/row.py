"""One offline partition in a list: what was concluded of it, and where its evidence lies cold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from breakglass.services.incident.compressed_evidence import EvidenceChunk, chunks_of
from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Action, Assessment, Verdict
from breakglass.services.recovery.judgement.circumstances import Circumstances
from breakglass.services.recovery.judgement.conclusion import Judged
from breakglass.services.recovery.judgement.heard_before import remembering
from breakglass.services.recovery.judgement.verdict import assess


@dataclass(frozen=True, slots=True, eq=False)
class IncidentRow:
    """An offline partition. Small, because there may be 100,000; a new one for each change."""

    state: PartitionState
    """As the metadata has it now; the evidence holds what was so when that was read."""
    judged: Judged | None = None
    """None: its replicas have not been read yet."""
    log_end: int | Unknown | None = None
    """Of the designee; None without one."""
    chunk: EvidenceChunk | None = None
    place: int = 0
    """Where in the chunk its evidence lies."""

    @property
    def partition(self) -> TopicPartition:
        return self.state.partition

    @property
    def assignment(self) -> tuple[int, ...]:
        return self.state.assignment

    @property
    def verdict(self) -> Verdict | None:
        """None: not judged yet, as are the other conclusions."""
        return None if self.judged is None else self.judged.verdict

    @property
    def action(self) -> Action | None:
        return None if self.judged is None else self.judged.action

    @property
    def designee(self) -> int | None:
        return None if self.judged is None else self.judged.designee

    @property
    def epoch(self) -> int | Unknown | None:
        """Last written epoch of the designee."""
        return None if self.judged is None else self.judged.epoch

    @property
    def loss(self) -> int | Unknown | None:
        """Records lost by electing the designee; None without one."""
        return None if self.judged is None else self.judged.loss

    @property
    def approximate(self) -> bool:
        return self.judged is not None and self.judged.approximate

    @property
    def unread(self) -> tuple[int, ...]:
        """Assigned brokers whose log could not be read."""
        return () if self.judged is None else self.judged.unread

    @property
    def unread_at_least(self) -> int | Unknown | None:
        """Records known to be in none but unread logs; None: not judged yet."""
        return None if self.judged is None else self.judged.unread_at_least

    @property
    def heard(self) -> tuple[int, int] | None:
        """How many replicas have answered, of how many."""
        return None if self.judged is None else self.judged.heard

    @property
    def restorers(self) -> tuple[int, ...]:
        """Brokers that would each bring the partition back whole, once started."""
        return () if self.judged is None else self.judged.restorers

    @property
    def automatable(self) -> bool:
        """The designee may be elected on a consent given for many partitions at once."""
        return self.judged is not None and self.judged.automatable

    @property
    def evidence(self) -> PartitionEvidence | None:
        """What the judgement rests on, thawed; None: not judged yet."""
        return None if self.chunk is None else self.chunk.evidence(self.place)


def row_partition(row: IncidentRow) -> TopicPartition:
    """What rows are sorted by."""
    return row.state.partition


def judged_rows(
    evidence: Sequence[PartitionEvidence],
    circumstances: Circumstances,
    read_at_ms: int,
    turn: int = 0,
) -> Iterator[IncidentRow]:
    """Judge *evidence*, read at that time in that turn, and freeze it: a row each, in its order."""
    alike: dict[Judged, Judged] = {}
    for chunk, together in chunks_of(evidence, read_at_ms, turn):
        for place, one in enumerate(together):
            assessment = assess(one, circumstances)
            judged = Judged.of(assessment)
            yield IncidentRow(
                state=one.state,
                judged=alike.setdefault(judged, judged),
                log_end=_log_end(assessment),
                chunk=chunk,
                place=place,
            )


def bare_row(assessment: Assessment) -> IncidentRow:
    """The row of an *assessment* that is at hand, without evidence of its own."""
    return IncidentRow(assessment.evidence.state, Judged.of(assessment), _log_end(assessment))


def remembered(before: IncidentRow, evidence: PartitionEvidence) -> PartitionEvidence:
    """*evidence*, just read, with what unread replicas told when the row *before* was made."""
    unread = {one.broker for one in evidence.replicas if isinstance(one.log_end, Unknown)}
    judged = before.judged
    if not unread or judged is None:
        return evidence
    never_told = set(judged.unread) - set(judged.remembered)
    # Thawing takes time, and tells nothing of those that were as silent before.
    return evidence if unread <= never_told else remembering(before.evidence, evidence)


def judged_again(row: IncidentRow, circumstances: Circumstances) -> IncidentRow:
    """*row* under other *circumstances*, its evidence unread."""
    evidence = row.evidence
    if evidence is None:
        return row
    judged = Judged.of(assess(evidence, circumstances))
    return IncidentRow(row.state, judged, row.log_end, row.chunk, row.place)


def _log_end(assessment: Assessment) -> int | Unknown | None:
    designee = assessment.designee
    best = None if designee is None else assessment.evidence.replica(designee)
    return None if best is None else best.log_end
