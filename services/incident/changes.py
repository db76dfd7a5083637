"""What has changed between two readings of the metadata, so that only that is read again. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import (
    ClusterDescription,
    ClusterSnapshot,
    PartitionState,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows of the newer metadata, and which of them rest on evidence that is out of date."""

    rows: tuple[IncidentRow, ...]
    """Sorted by partition; the very same tuple if nothing changed."""
    outdated: Sequence[TopicPartition]
    """Those whose replicas have to be read again; others have not been read at all."""


def changes(
    rows: tuple[IncidentRow, ...],
    before: ClusterSnapshot | None,
    now: ClusterSnapshot,
    returned: Collection[int] = (),
) -> Changes:
    """Bring *rows*, which were made when *before* held, up to *now*.

    A row whose partition has changed keeps its conclusions until it has been read again. Those
    of brokers that have *returned*, or were fenced or unfenced, are out of date as well.
    """
    if before is None:
        before = ClusterSnapshot(now.description, now.quorum, (), 0, now.settings)
    brokers = standing_changed(before.description, now.description) | set(returned)
    topics = _topics_changed(before, now)
    if now.partitions is before.partitions and not brokers and not topics:
        return Changes(rows, ())
    fresh: list[IncidentRow] = []
    outdated: list[TopicPartition] = []
    for row, state in _matched(rows, sorted(now.offline, key=lambda one: one.partition)):
        if row is not None and row.chunk is not None:
            same = row.state is state or row.state == state
            topic = state.partition.topic
            if not same or topic in topics or not brokers.isdisjoint(state.assignment):
                outdated.append(state.partition)
        fresh.append(_current(row, state))
    return Changes(rows if _same(rows, fresh) else tuple(fresh), tuple(outdated))


def standing_changed(before: ClusterDescription, now: ClusterDescription) -> set[int]:
    """Brokers that were registered, removed, fenced or unfenced in between."""
    then, since = ({one.id: one.fenced for one in held.brokers} for held in (before, now))
    return {
        broker for broker in then.keys() | since.keys() if then.get(broker) != since.get(broker)
    }


def _topics_changed(before: ClusterSnapshot, now: ClusterSnapshot) -> set[str]:
    """Topics whose settings are others than before."""
    return {
        topic
        for topic, settings in now.settings.items()
        if topic in before.settings and before.settings[topic] != settings
    }


def _matched(
    rows: Sequence[IncidentRow], states: Sequence[PartitionState]
) -> Iterator[tuple[IncidentRow | None, PartitionState]]:
    """Each state with the row of its partition; both are sorted by partition."""
    place = 0
    for state in states:
        while place < len(rows) and rows[place].partition < state.partition:
            place += 1
        held = rows[place] if place < len(rows) else None
        yield (held if held is not None and held.partition == state.partition else None), state


def _current(row: IncidentRow | None, state: PartitionState) -> IncidentRow:
    if row is None:
        return IncidentRow(state)
    return row if row.state is state or row.state == state else replace(row, state=state)


def _same(rows: Sequence[IncidentRow], fresh: Sequence[IncidentRow]) -> bool:
    return len(rows) == len(fresh) and all(old is new for old, new in zip(rows, fresh, strict=True))
