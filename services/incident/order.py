"""In which order offline partitions are listed: what cannot wait first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import chain
from typing import Any

from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import INTERNAL_TOPICS, Unknown
from breakglass.services.recovery.judgement.assessment import Verdict

_URGENCY = {verdict: place for place, verdict in enumerate(Verdict)}
_NOT_JUDGED = len(_URGENCY)
_INTERNAL = {topic: place for place, topic in enumerate(INTERNAL_TOPICS)}
_UNKNOWN = 1 << 62
"""More than any number: what is not known may be the worst."""


class RowOrder(StrEnum):
    """What a list is sorted by; where it is the same, by urgency."""

    URGENCY = "urgency"
    """Time bombs, then internal topics, then by verdict."""
    TOPIC = "topic"
    LOSS = "loss"
    """The largest first; unknown ones before them."""
    UNREAD = "unread"
    LEO = "leo"
    EPOCH = "epoch"
    HEARD = "heard"
    """Those of which fewest replicas have answered first."""


def ordered(rows: Sequence[IncidentRow], order: RowOrder = RowOrder.URGENCY) -> list[IncidentRow]:
    """*rows*, which are sorted by partition, as *order* wants them."""
    if order is RowOrder.TOPIC:
        return list(rows)
    listed = _by_urgency(rows)
    if order is not RowOrder.URGENCY:
        listed.sort(key=_KEYS[order])
    return listed


Kind = tuple[bool, int, int, str]
"""If it is no time bomb, place of an internal topic and of the verdict, action: what is first."""


def _by_urgency(rows: Sequence[IncidentRow]) -> list[IncidentRow]:
    """Time bombs, internal topics, then verdict, action and name.

    There are few kinds of rows: each is compared once, and of a row nothing is kept but its kind.
    """
    rows_of: dict[Kind, list[IncidentRow]] = {}
    kinds: dict[tuple[int, int], Kind] = {}
    for row in rows:
        internal = _INTERNAL.get(row.state.partition.topic, len(_INTERNAL))
        alike = (internal, id(row.judged))
        kind = kinds.get(alike)
        if kind is None:
            kind = kinds[alike] = _kind(row, internal)
        rows_of.setdefault(kind, []).append(row)
    return list(chain.from_iterable(rows_of[kind] for kind in sorted(rows_of)))


def _kind(row: IncidentRow, internal: int) -> Kind:
    if row.judged is None:
        return True, internal, _NOT_JUDGED, ""
    verdict = row.judged.verdict
    return verdict is not Verdict.BOMB, internal, _URGENCY[verdict], str(row.judged.action)


def _most_first(value: int | Unknown | None) -> int:
    """The largest first, what is not known before it, what there is none of last."""
    if isinstance(value, int):
        return -value
    return 1 if value is None else -_UNKNOWN


def _fewest_heard(row: IncidentRow) -> tuple[int, int]:
    heard, of = row.heard or (0, 0)
    return heard, -of


_KEYS: dict[RowOrder, Callable[[IncidentRow], Any]] = {
    RowOrder.LOSS: lambda row: _most_first(row.loss),
    RowOrder.UNREAD: lambda row: _most_first(row.unread_at_least),
    RowOrder.LEO: lambda row: _most_first(row.log_end),
    RowOrder.EPOCH: lambda row: _most_first(row.epoch),
    RowOrder.HEARD: _fewest_heard,
}
