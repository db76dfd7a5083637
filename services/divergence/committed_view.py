"""A log as committed consumers see it: without markers, aborted and undecided transactions."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from breakglass.services.divergence.byte_source import Tape
from breakglass.services.divergence.entry import Item, RecordEntry
from breakglass.services.divergence.source import Extent, Reading, Source
from breakglass.services.divergence.transactions import FOREVER, Spans, uncommitted


@dataclass
class CommittedView:
    """*source* less markers and what did not commit.

    How transactions ended is looked up once, and only if there are any: that reads all batches.
    """

    source: Source
    uncommitted: bool = False
    """Leave out markers alone."""
    _hidden: Spans | None = None
    _looking: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def extent(self) -> Extent:
        return self.source.extent

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """What *source* has in ``[start, end)`` of what committed, and what it cannot read."""
        for item in self.source.read(start, end, reading):
            if isinstance(item, RecordEntry) and (
                item.marker is not None or self._hides(item, reading)
            ):
                continue
            yield item

    def tape(self, start: int, end: int, reading: Reading) -> Tape | None:
        """That of *source*, up to where transactions come into play."""
        return self.source.tape(start, end, replace(reading, plain=True))

    def _hides(self, entry: RecordEntry, reading: Reading) -> bool:
        if not entry.transactional or self.uncommitted:
            return False
        with self._looking:
            if self._hidden is None:
                self._hidden = uncommitted(self.source, reading)
        spans = self._hidden.get(entry.producer_id, [])
        place = bisect_right(spans, (entry.offset, FOREVER)) - 1
        return place >= 0 and entry.offset < spans[place][1]
