"""One committed segment by what its manifest says, and records of it that lie side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.topic_backup.folder import Folder
from services.topic_backup.layout import records_name
from services.topic_backup.segment_index import Entry
from services.topic_backup.segment_reader import read_segment

Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FIELDS = len(Entry._fields)


@dataclass(frozen=True, slots=True)
class Run:
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

    def walked(self) -> Longs:
        """Offset, position and length of each record, a row each, by the records alone."""
        placed = read_segment(self.folder, records_name(self.prefix), end=self.records_bytes)
        return np.array([Entry.of(one) for one in placed], np.int64).reshape(-1, FIELDS)
