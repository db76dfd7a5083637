"""Folds the records of an internal partition into a state by key, as its coordinator does.

Offsets that a transaction commits count only once its commit marker is read, not after an abort.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from breakglass.services.recovery.internal_topics.records import (
    SegmentState,
    SharePosition,
    StateChange,
    StateKey,
    StateValue,
    change_of,
)
from breakglass.services.recovery.internal_topics.wire import NotThatRecord
from breakglass.services.recovery.transactions.source import LoggedBatch


@dataclass(slots=True)
class StateFold:
    """The state of one partition, batch by batch."""

    topic: str
    state: dict[StateKey, StateValue] = field(default_factory=dict)
    touched: set[StateKey] = field(default_factory=set)
    """Keys of all records, including removed keys."""
    not_understood: int = 0
    """Number of records of an unknown version."""
    _open: dict[int, list[StateChange]] = field(default_factory=dict)
    """By producer id, the changes of its open transaction, which count once it commits."""

    def copy(self) -> StateFold:
        """A copy to which other batches can be added; `touched` starts empty."""
        waiting = {producer: list(changes) for producer, changes in self._open.items()}
        return StateFold(self.topic, dict(self.state), _open=waiting)

    def add(self, batch: LoggedBatch) -> None:
        """Add the next batch of the log."""
        if batch.commit is not None:
            ended = self._open.pop(batch.producer_id, [])
            for held in ended if batch.commit else ():
                self._apply(held)
            return
        for record in batch.records:
            try:
                change = change_of(self.topic, record)
            except NotThatRecord:
                self.not_understood += 1
                continue
            if change is None:
                continue
            if batch.transactional:
                self._open.setdefault(batch.producer_id, []).append(change)
            else:
                self._apply(change)

    def _apply(self, change: StateChange) -> None:
        self.touched.add(change.key)
        if change.value is None:
            self.state.pop(change.key, None)
        else:
            self.state[change.key] = merged(self.state.get(change.key), change.value)


def merged(before: StateValue | None, after: StateValue) -> StateValue:
    """The state of a key after a record, which may change only a part of the state."""
    if isinstance(after, SharePosition) and isinstance(before, SharePosition):
        if after.snapshot:
            return after
        start = before.start_offset if after.start_offset < 0 else after.start_offset
        finished = joined((*before.finished, *after.finished), start)
        return SharePosition(start, finished, snapshot=True)
    if isinstance(after, SegmentState) and isinstance(before, SegmentState):
        return replace(after, offsets=after.offsets or before.offsets)
    return after


def joined(ranges: tuple[tuple[int, int], ...], start: int) -> tuple[tuple[int, int], ...]:
    """*ranges* of first and last offsets from *start* on, sorted, with adjacent ranges merged."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((max(first, start), last) for first, last in ranges if last >= start):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def finished_beyond(position: SharePosition) -> int:
    """How many offsets from its start offset on a share group has finished."""
    ranges = joined(position.finished, position.start_offset)
    return sum(last - first + 1 for first, last in ranges)


def differences(
    lost: StateFold, left: Mapping[StateKey, StateValue]
) -> dict[StateKey, tuple[StateValue | None, StateValue | None]]:
    """The states of *lost* and *left*, for keys of the lost records whose states differ."""
    return {
        key: (lost.state.get(key), left.get(key))
        for key in sorted(lost.touched)
        if lost.state.get(key) != left.get(key)
    }
