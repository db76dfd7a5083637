"""A source by position, as message by message comparison has it (KLIP-31): offsets are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from breakglass.services.divergence.content import NOTHING, Content
from breakglass.services.divergence.entry import Item, RecordEntry, UnreadableRange
from breakglass.services.divergence.metastore_source import MARK_EVERY, command
from breakglass.services.divergence.source import Extent, Reading, Source


@dataclass(frozen=True, slots=True)
class PositionView:
    """The records of *source*, counted from 1, with their key and their value alone.

    What cannot be read has one position for each stretch: what follows it may be shifted.
    """

    source: Source
    extent: Extent
    marks: tuple[int, ...]
    """The offset of each thousandth of them, of the first one too."""

    @property
    def name(self) -> str:
        return self.source.name

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records at the positions of ``[start, end)``."""
        asked = self.extent.within(start, end)
        if asked.start >= asked.end:
            return
        number = (asked.start - 1) // MARK_EVERY
        position = number * MARK_EVERY + 1
        whole = self.source.extent.end
        for item in _counted(self.source.read(self.marks[number], whole, reading)):
            if position >= asked.end:
                return
            if position >= asked.start:
                yield _placed(item, position)
            position += 1

    def tape(self, start: int, end: int, reading: Reading) -> None:
        """None: bytes do not tell which position they have."""


def by_position(source: Source, reading: Reading) -> PositionView:
    """*source* by position; reads all of it once, to count."""
    marks: list[int] = []
    count = 0
    extent = source.extent
    for item in _counted(source.read(extent.start, extent.end, replace(reading, keep=NOTHING))):
        if count % MARK_EVERY == 0:
            marks.append(item.offset if isinstance(item, RecordEntry) else item.start)
        count += 1
    return PositionView(source, Extent(1, count + 1), tuple(marks))


def _counted(items: Iterator[Item]) -> Iterator[Item]:
    """What has a position: records, and stretches that could not be read."""
    return (one for one in items if isinstance(one, UnreadableRange) or one.marker is None)


def _placed(item: Item, position: int) -> Item:
    if isinstance(item, UnreadableRange):
        return UnreadableRange(position, position + 1, f"offset {item.start:,}: {item.reason}")
    plain = command(position, None, None, NOTHING)
    return plain._replace(key=_line(item.key), value=_line(item.value))


def _line(content: Content | None) -> Content:
    return Content(b"", 0) if content is None else content
