"""A restored topic under the offsets that its records had: those of the backup it was made from.

The restore noted which stored records went where, stretch by stretch; within a stretch the new
offsets follow each other as the stored records do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from breakglass.services.divergence.content import NOTHING
from breakglass.services.divergence.entry import Item, RecordEntry, UnreadableRange
from breakglass.services.divergence.source import Extent, Reading, Source
from breakglass.services.topic_backup.record import TimestampType


class RestoredStretch(Protocol):
    """Stored records that were restored one behind the other (a `CommittedRun` of a restore)."""

    @property
    def first_offset(self) -> int:
        """Of the first of them in the backup."""

    @property
    def next_offset(self) -> int:
        """One past the last of them in the backup."""

    @property
    def new_offset(self) -> int:
        """Of the first of them in the topic."""

    @property
    def count(self) -> int:
        """How many."""


@dataclass(frozen=True, slots=True)
class RestoredView:
    """*topic* with the offsets of *backup*. What others wrote in between is left out.

    No restore keeps leader epochs, or that a timestamp was set on append: neither is a
    difference.
    """

    topic: Source
    backup: Source
    stretches: Sequence[RestoredStretch]
    """By old offset."""

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def extent(self) -> Extent:
        """The old offsets that were restored."""
        if not self.stretches:
            return Extent(self.backup.extent.start, self.backup.extent.start)
        return Extent(self.stretches[0].first_offset, self.stretches[-1].next_offset)

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The restored records of the old offsets ``[start, end)``."""
        for one in self.stretches:
            if one.first_offset < end and start < one.next_offset:
                yield from self._stretch(one, start, end, reading)

    def tape(self, start: int, end: int, reading: Reading) -> None:
        """None: offsets are in the bytes."""

    def _stretch(
        self, one: RestoredStretch, start: int, end: int, reading: Reading
    ) -> Iterator[Item]:
        news = self.topic.read(one.new_offset, one.new_offset + one.count, reading)
        head = next(news, None)
        stored = self.backup.read(one.first_offset, one.next_offset, replace(reading, keep=NOTHING))
        for number, old in enumerate(stored):
            if isinstance(old, UnreadableRange):
                low, high = max(old.start, start), min(one.next_offset, end)
                if low < high:
                    yield UnreadableRange(low, high, f"the backup tells no offsets: {old.reason}")
                return
            if old.offset >= end:
                return
            new = one.new_offset + number
            while head is not None and _behind(head) <= new:
                head = next(news, None)
            if old.offset < start or head is None:
                continue
            if isinstance(head, UnreadableRange):
                if head.start <= new:
                    yield UnreadableRange(old.offset, old.offset + 1, head.reason)
            elif head.offset == new:
                yield _as_stored(head, old)


def _behind(item: Item) -> int:
    return item.offset + 1 if isinstance(item, RecordEntry) else item.end


def _as_stored(new: RecordEntry, old: RecordEntry) -> RecordEntry:
    kind = new.timestamp_type
    if old.timestamp_type is TimestampType.LOG_APPEND and kind is TimestampType.CREATE:
        kind = TimestampType.LOG_APPEND
    return new._replace(offset=old.offset, epoch=None, timestamp_type=kind)
