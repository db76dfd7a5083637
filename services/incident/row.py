"""An offline partition, or a group that fared alike, as one line of a list, and its texts. Pure.

A row has its conclusion and a reference to its compressed evidence. The evidence of 100,000
partitions takes hundreds of megabytes as objects and about ten when it is frozen: pickled, which is
safe as it never leaves the process, and compressed by the chunk. A chunk is thawed when one of its
partitions is looked at.

Every front end writes a line by these texts. A reader takes "loses" for the loss of the replica
whose line it is: each text names the best replica, or says what its own adds to it.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from breakglass.services import model
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.quick_values import maker, quickly_made, uncollected
from breakglass.services.recovery.judgement.assessment import Action, Assessment, Verdict
from breakglass.services.recovery.judgement.inputs import remembering
from breakglass.services.recovery.judgement.loss import Loss, ReplicaLoss
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import Judged
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.words.figures import contents_text, count, unread_figure

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


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of figures, some of which may be unknown."""

    known: int = 0
    unknown: int = 0
    """The number of unknown figures."""
    counted: int = 0
    """The number of known figures."""

    @property
    def at_least(self) -> int | Unknown | None:
        """The sum, or its lower bound; Unknown where no figure is known, None without figures."""
        if self.counted:
            return self.known
        return Unknown("none of them is known") if self.unknown else None

    @property
    def exact(self) -> bool:
        return not self.unknown


@dataclass(frozen=True, slots=True, eq=False)
class PartitionGroup:
    """Partitions of one topic with the same verdict and action."""

    verdict: Verdict | None
    """None: not judged yet."""
    action: Action | None
    topic: str
    rows: tuple[IncidentRow, ...]
    designee: int | None
    """The designee of all; None where designees differ or are missing."""
    various: bool
    """The partitions have different designees."""
    loss: Sum
    approximate: bool
    unread: Sum
    """Records known to be in none but unread logs."""
    unread_brokers: tuple[int, ...]
    """Brokers whose log of any of the partitions could not be read."""
    heard: tuple[int, int] | None
    """The figures of the partition of which fewest replicas have answered."""
    span: range | None
    """The partitions' numbers, where they are consecutive."""

    @property
    def key(self) -> GroupKey:
        return self.verdict, self.action, self.topic

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple([row.partition for row in self.rows])


def grouped(rows: Iterable[IncidentRow]) -> list[PartitionGroup]:
    """*rows* in groups, which stand where their first row stood and keep the rows' order."""
    members: dict[tuple[int, str], list[IncidentRow]] = {}
    kinds: dict[tuple[Verdict | None, Action | None], int] = {}
    kind_of: dict[int, int] = {}
    for row in rows:
        judged = row.judged
        kind = kind_of.get(id(judged))
        if kind is None:
            conclusions = (row.verdict, row.action)
            kind = kind_of[id(judged)] = kinds.setdefault(conclusions, len(kinds))
        members.setdefault((kind, row.state.partition.topic), []).append(row)
    return [group_of(together) for together in members.values()]


def group_of(rows: Sequence[IncidentRow]) -> PartitionGroup:
    """The group of *rows*, which share topic, verdict and action."""
    first = rows[0]
    conclusions = {id(row.judged): row.judged for row in rows}.values()
    judged = [conclusion for conclusion in conclusions if conclusion is not None]
    designees = {conclusion.designee for conclusion in judged}
    return PartitionGroup(
        verdict=first.verdict,
        action=first.action,
        topic=first.partition.topic,
        rows=tuple(rows),
        designee=next(iter(designees)) if len(designees) == 1 else None,
        various=len(designees) > 1,
        loss=_sum([row.loss for row in rows]),
        approximate=any(conclusion.approximate for conclusion in judged),
        unread=_sum([row.unread_at_least for row in rows]),
        unread_brokers=tuple(
            sorted({broker for conclusion in judged for broker in conclusion.unread})
        ),
        heard=min(
            (conclusion.heard for conclusion in judged), key=lambda heard: heard[0], default=None
        ),
        span=span_of([row.state.partition.partition for row in rows]),
    )


def span_of(numbers: Sequence[int]) -> range | None:
    """All of the distinct *numbers*, where they are consecutive."""
    first, last = min(numbers), max(numbers)
    return range(first, last + 1) if last - first + 1 == len(numbers) else None


def span_text(span: range | None) -> str:
    """``0..2``, ``3`` for a single number, ``*`` where numbers are not consecutive."""
    if span is None:
        return "*"
    return str(span[0]) if len(span) == 1 else f"{span[0]}..{span[-1]}"


def _sum(values: Sequence[int | Unknown | None]) -> Sum:
    known = [value for value in values if isinstance(value, int)]
    unknown = sum(isinstance(value, Unknown) for value in values)
    return Sum(sum(known), unknown, len(known))


Listed = IncidentRow | PartitionGroup
"""What a line of a list stands for."""


def verdict_text(listed: Listed) -> str:
    """``BOMB``; ``...`` where the replicas are still being read."""
    return "..." if listed.verdict is None else listed.verdict.value


def action_text(listed: Listed) -> str:
    """``stop b4 NOW``."""
    return "" if listed.action is None else str(listed.action)


def name_text(listed: Listed) -> str:
    """``ledger-3``, ``carts-0..2 (3)``, ``orders-* (1,874)``."""
    if isinstance(listed, IncidentRow):
        return str(listed.partition)
    return f"{listed.topic}-{span_text(listed.span)} ({len(listed.rows):,})"


def best_text(listed: Listed) -> str:
    """The designee: ``b1``, ``various``, ``-``."""
    if isinstance(listed, PartitionGroup) and listed.various:
        return "various"
    return "-" if listed.designee is None else f"b{listed.designee}"


def log_end_text(listed: Listed) -> str:
    """The log end of the designee; a group has none."""
    return count(listed.log_end) if isinstance(listed, IncidentRow) else ""


def epoch_text(listed: Listed) -> str:
    """Last written epoch of the designee; a group has none."""
    return count(listed.epoch) if isinstance(listed, IncidentRow) else ""


def loses_text(listed: Listed) -> str:
    """``50``, ``~50``, ``>= 50``, ``?``; ``-`` where nobody is chosen."""
    if isinstance(listed, PartitionGroup):
        return _sum_text(listed.loss, about=listed.approximate)
    about = "~" if listed.approximate and isinstance(listed.loss, int) and listed.loss else ""
    return about + count(listed.loss)


def unread_text(listed: Listed) -> str:
    """Which replicas are unread, and what only they may hold: ``0``, ``b3``, ``b3 >= 25``."""
    if listed.verdict is None:
        return "-"
    if isinstance(listed, PartitionGroup):
        return _unread(listed.unread_brokers, listed.unread.at_least)
    return _unread(listed.unread, listed.unread_at_least)


def _unread(brokers: tuple[int, ...], at_least: int | Unknown | None) -> str:
    return "-" if at_least is None else unread_figure(brokers, at_least)


def heard_text(listed: Listed) -> str:
    """``2 of 3`` replicas have answered."""
    return "-" if listed.heard is None else f"{listed.heard[0]} of {listed.heard[1]}"


TEXTS = (
    verdict_text,
    action_text,
    name_text,
    best_text,
    log_end_text,
    epoch_text,
    loses_text,
    unread_text,
    heard_text,
)
"""What is written of a row or a group, column by column."""


def _sum_text(total: Sum, *, about: bool) -> str:
    value = total.at_least
    if not isinstance(value, int):
        return count(value)
    sign = "" if total.exact else ">= "
    return f"{sign}{'~' if about and value else ''}{value:,}"


def against(assessment: Assessment, loss: Loss, replica: ReplicaLog) -> str:
    """``adds 50 past 100, committed up to 120``, ``adds nothing to b1``; why it was not read."""
    broker = replica.broker
    if broker == loss.candidate:
        place = "would be elected" if broker == assessment.designee else "ranks first"
        return place if replica.corrupt_at is None else f"{place}, {contents_text(replica)}"
    lost = loss.of(broker)
    if lost is None:
        return unread_reason(replica)
    best = f"b{loss.candidate}"
    parts = [part for part in (_tail(lost, replica, best), _head(lost, best)) if part]
    candidate = assessment.ranking.candidate(broker)
    remark = "" if candidate is None else candidate.remark
    return ", ".join([*parts, *([remark] if remark else [])]) or f"adds nothing to {best}"


def unread_reason(replica: ReplicaLog) -> str:
    """Why the log end is unknown; empty if it is known."""
    return replica.log_end.reason if isinstance(replica.log_end, Unknown) else ""


def parting_text(loss: Loss) -> str:
    """``b1 and b2 diverge at 100``: which replicas diverge from the chosen replica, and where."""
    parted = [
        dropped
        for dropped in loss.against
        if dropped.tail != 0 and isinstance(dropped.divergence, int)
    ]
    return "; ".join(
        [
            f"b{loss.candidate} and b{dropped.broker} diverge at {count(dropped.divergence)}"
            for dropped in parted
        ]
    )


def _tail(lost: ReplicaLoss, replica: ReplicaLog, best: str) -> str:
    if lost.whole_log:
        return f"ends before {best} starts: adds all it holds"
    if isinstance(lost.tail, Unknown):
        return f"may add records to {best}: {lost.tail.reason}"
    if not lost.tail:
        return ""
    return f"adds {count(lost.tail)} past {count(lost.divergence)}, {_committed(lost, replica)}"


def _committed(lost: ReplicaLoss, replica: ReplicaLog) -> str:
    """Up to where the records of a tail are proved to be committed (R29)."""
    if lost.committed_past_divergence is True:
        return f"committed up to {count(replica.high_watermark)}"
    return "not known if committed"


def _head(lost: ReplicaLoss, best: str) -> str:
    if isinstance(lost.head, Unknown):
        return f"may add records before {best} starts: {lost.head.reason}"
    return (
        f"adds {count(lost.head)} before {best} starts" if lost.head and not lost.whole_log else ""
    )


GroupKey = tuple[Verdict | None, Action | None, str]
