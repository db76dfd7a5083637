"""Offline partitions that fared alike, as one line: the same verdict, action and topic. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Action, Verdict

GroupKey = tuple[Verdict | None, Action | None, str]


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
