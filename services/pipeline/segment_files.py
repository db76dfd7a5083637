"""One committed segment by what its manifest says, and records of it that lie side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.topic_backup.folder import Folder
from services.topic_backup.layout import records_name
from services.topic_backup.salvage.finding import FoundRecord
from services.topic_backup.salvage.salvage import salvaged
from services.topic_backup.segment_index import IndexedRecord
from services.topic_backup.segment_reader import Placed, read_segment

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FIELDS = len(IndexedRecord._fields)


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records that lie one behind the other in one segment."""

    offsets: Longs
    bounds: Longs
    """Where each begins in *data*, and where the last one ends; begins with 0."""
    data: Bytes


@dataclass(frozen=True)
class SegmentFiles:
    """The files of one committed segment with records."""

    folder: Folder
    prefix: str
    records_bytes: int
    count: int
    first_offset: int
    last_offset: int
    salvaged: bool = False
    """There is no manifest that says what it holds: its records are those that can be proved."""

    def walked(self) -> Longs:
        """Offset, position and length of each record, a row each.

        Of a salvaged segment by the salvaging reader, of others by the records alone.
        """
        found = self._salvaged() if self.salvaged else self._read()
        return np.array([IndexedRecord.of(one) for one in found], np.int64).reshape(-1, FIELDS)

    def _read(self) -> Iterator[Placed]:
        return read_segment(self.folder, records_name(self.prefix), end=self.records_bytes)

    def _salvaged(self) -> Iterator[Placed]:
        pieces = salvaged(
            self.folder,
            self.prefix,
            start_offset=self.first_offset,
            next_offset=self.last_offset + 1,
        )
        return (one.placed for one in pieces if isinstance(one, FoundRecord))


def together(entries: Longs) -> Iterator[Longs]:
    """*entries* divided where records do not lie one behind the other."""
    apart = np.flatnonzero(entries[:-1, 1] + entries[:-1, 2] != entries[1:, 1]) + 1
    yield from np.split(entries, apart)
