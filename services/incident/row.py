"""An offline partition in a list: its conclusion, and a reference to its compressed evidence.

The evidence of 100,000 partitions takes hundreds of megabytes as objects and about ten when it
is frozen: pickled, which is safe as it never leaves the process, and compressed by the chunk. A
chunk is thawed when one of its partitions is looked at.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from breakglass.services import model
from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition, Unknown
from breakglass.services.quick_values import maker, quickly_made
from breakglass.services.recovery.judgement.assessment import Action, Assessment, Verdict
from breakglass.services.recovery.judgement.heard_before import remembering
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import Judged
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.uncollected import uncollected

CHUNK = 64
"""Partitions that are frozen together, and thawed together to look at any of them."""
THAWED_CHUNKS = 8
"""Chunks that stay thawed: a cursor moves among neighbours."""
FAST = 1
"""zlib's level: higher levels save little and take several times as long."""


class EvidenceChunk:
    """The evidence of some partitions, frozen. A chunk is equal to itself alone."""

    __slots__ = ("_frozen", "read_at_ms", "turn")

    def __init__(
        self, evidence: Sequence[PartitionEvidence], read_at_ms: int, turn: int = 0
    ) -> None:
        self._frozen = zlib.compress(_pickled(tuple(evidence)), FAST)
        self.read_at_ms = read_at_ms
        """When the replicas were read, in milliseconds of the epoch."""
        self.turn = turn
        """The number of the reading that it belongs to: clocks may be set back."""

    def __len__(self) -> int:
        """Bytes in memory."""
        return len(self._frozen)

    def evidence(self, place: int) -> PartitionEvidence:
        """The evidence of the partition at *place*."""
        return _thawed(self)[place]

    def thaw(self) -> tuple[PartitionEvidence, ...]:
        """All evidence, as it was given."""
        thawed: tuple[PartitionEvidence, ...] = pickle.loads(  # noqa: S301 -- our own bytes
            zlib.decompress(self._frozen)
        )
        return thawed


@lru_cache(THAWED_CHUNKS)
def _thawed(chunk: EvidenceChunk) -> tuple[PartitionEvidence, ...]:
    return chunk.thaw()


def chunks_of(
    evidence: Sequence[PartitionEvidence], read_at_ms: int, turn: int = 0
) -> Iterator[tuple[EvidenceChunk, Sequence[PartitionEvidence]]]:
    """Freeze *evidence*, a chunk at a time; gives each chunk with the evidence in it."""
    for start in range(0, len(evidence), CHUNK):
        together = evidence[start : start + CHUNK]
        yield EvidenceChunk(together, read_at_ms, turn), together


def _pickled(evidence: tuple[PartitionEvidence, ...]) -> bytes:
    frozen = io.BytesIO()
    pickler = pickle.Pickler(frozen, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _REDUCTIONS
    pickler.dump(evidence)
    return frozen.getvalue()


def _by_fields(value_class: type[Any]) -> Callable[[Any], tuple[type[Any], tuple[Any, ...]]]:
    """How a value is taken apart: its fields are its constructor's arguments."""
    names = [field_.name for field_ in fields(value_class)]
    if len(names) == 1:
        (only,) = names
        return lambda value: (value_class, (getattr(value, only),))
    values = attrgetter(*names)
    return lambda value: (value_class, values(value))


_REDUCTIONS: dict[type[Any], Callable[[Any], Any]] = {
    **copyreg.dispatch_table,
    **{
        value: _by_fields(value)
        for value in vars(model).values()
        if isinstance(value, type) and is_dataclass(value)
    },
}
"""For all shared values: what dataclasses do by themselves to be pickled takes several times as
long."""


@quickly_made
@dataclass(frozen=True, slots=True, eq=False)
class IncidentRow:
    """An offline partition. Small, because there may be 100,000; each change makes a new row."""

    state: PartitionState
    """The partition as the metadata has it now; the evidence may have been read earlier."""
    judged: Judged | None = None
    """None: its replicas have not been read yet."""
    log_end: int | Unknown | None = None
    """The log end of the designee; None without designee."""
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
        """The last written epoch of the designee."""
        return None if self.judged is None else self.judged.epoch

    @property
    def loss(self) -> int | Unknown | None:
        """Records lost by electing the designee; None without designee."""
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
        """Records known to be in unread logs alone; None: not judged yet."""
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


_incident_row = maker(IncidentRow)


def row_partition(row: IncidentRow) -> TopicPartition:
    """The sort key of rows."""
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
        for place, partition in enumerate(together):
            assessment = assess(partition, circumstances)
            judged = Judged.of(assessment)
            yield IncidentRow(
                state=partition.state,
                judged=alike.setdefault(judged, judged),
                log_end=_log_end(assessment),
                chunk=chunk,
                place=place,
            )


def bare_row(assessment: Assessment) -> IncidentRow:
    """The row of an *assessment* that is at hand, without evidence of its own."""
    return _incident_row(assessment.evidence.state, Judged.of(assessment), _log_end(assessment))


def bare_rows(assessments: Sequence[Assessment]) -> list[IncidentRow]:
    """The rows of *assessments* that are at hand, in their order."""
    with uncollected(len(assessments)):
        return [bare_row(assessment) for assessment in assessments]


def remembered(before: IncidentRow, evidence: PartitionEvidence) -> PartitionEvidence:
    """*evidence*, just read, with what unread replicas had reported for the row *before*."""
    unread = {
        replica.broker for replica in evidence.replicas if isinstance(replica.log_end, Unknown)
    }
    judged = before.judged
    if not unread or judged is None:
        return evidence
    never_told = set(judged.unread) - set(judged.remembered)
    # Thawing takes time, and adds nothing for replicas that were as silent before.
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
