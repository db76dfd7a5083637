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
    """A sum of figures of which some may not be known."""

    known: int = 0
    unknown: int = 0
    """How many could not be read."""
    counted: int = 0
    """How many could."""

    @property
    def at_least(self) -> int | Unknown | None:
        """What the sum is, or is at least; Unknown where no part of it is known, None of none."""
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
    """Of all of them; None where they differ, or have none."""
    various: bool
    """They do not have the same designee."""
    loss: Sum
    approximate: bool
    unread: Sum
    """Records known to be in none but unread logs."""
    unread_brokers: tuple[int, ...]
    """Whose log could not be read, of any of the partitions."""
    heard: tuple[int, int] | None
    """Of the partition of which fewest replicas have answered."""
    numbers: str
    """``0..2`` where they are consecutive, else ``*``."""

    @property
    def key(self) -> GroupKey:
        return self.verdict, self.action, self.topic

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple([one.partition for one in self.rows])


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
    """One group of *rows*, which are of one topic and have one verdict and one action."""
    first = rows[0]
    conclusions = {id(one.judged): one.judged for one in rows}.values()
    judged = [one for one in conclusions if one is not None]
    designees = {one.designee for one in judged}
    return PartitionGroup(
        verdict=first.verdict,
        action=first.action,
        topic=first.partition.topic,
        rows=tuple(rows),
        designee=next(iter(designees)) if len(designees) == 1 else None,
        various=len(designees) > 1,
        loss=_sum([one.loss for one in rows]),
        approximate=any(one.approximate for one in judged),
        unread=_sum([one.unread_at_least for one in rows]),
        unread_brokers=tuple(sorted({broker for one in judged for broker in one.unread})),
        heard=min((one.heard for one in judged), key=lambda heard: heard[0], default=None),
        numbers=numbers_text([one.state.partition.partition for one in rows]),
    )


def numbers_text(numbers: Sequence[int]) -> str:
    """``0..2`` where *numbers* are consecutive, ``3`` for a single one, else ``*``."""
    first, last = min(numbers), max(numbers)
    if last - first + 1 != len(numbers):
        return "*"
    return str(first) if first == last else f"{first}..{last}"


def _sum(values: Sequence[int | Unknown | None]) -> Sum:
    known = [one for one in values if isinstance(one, int)]
    unknown = sum(isinstance(one, Unknown) for one in values)
    return Sum(sum(known), unknown, len(known))
