"""Offsets that a backup should hold and does not: which, of which partition, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.reader import LeftOut
from breakglass.services.topic_backup.soundness import altered
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary


@dataclass(frozen=True, slots=True)
class Lost:
    """Something of one partition that cannot be given back as it was."""

    partition: int
    what: LeftOut
    prefix: str = ""
    """Of the committed segment that is wrong; empty: found by reading records."""

    def phrase(self, topic: str) -> str:
        """How the offsets are named: ``orders-0 36..99``."""
        return f"{topic}-{self.partition} {self.what.offsets}"


def lost_of(folder: Folder, part: PartitionSummary) -> tuple[Lost, ...]:
    """The segments of *part* that are not what was committed, every byte read."""
    judged = ((one, altered(folder, one)) for one in part.segments)
    return tuple(_lost(folder, part, one, why) for one, why in judged if why and one.count)


def missing_of(
    names: Iterable[str], folder: Folder, part: PartitionSummary, *, sizes: bool = True
) -> tuple[Lost, ...]:
    """The segments of *part* that are gone or, with *sizes*, too short: nothing is read."""
    there = set(names)
    found = []
    for one in part.segments:
        name = records_name(one.prefix)
        if name not in there:
            found.append(_lost(folder, part, one, "the file is gone"))
        elif sizes and (size := folder.size(name) or 0) < one.records_bytes:
            why = f"it has {size:,} bytes, and {one.records_bytes:,} were committed"
            found.append(_lost(folder, part, one, why))
    return tuple(found)


def _lost(folder: Folder, part: PartitionSummary, one: SegmentSummary, why: str) -> Lost:
    end = None if one.last_offset is None else one.last_offset + 1
    where = folder.where(records_name(one.prefix))
    left_out = LeftOut(where, 0, one.records_bytes, why, True, one.first_offset, end)
    return Lost(part.partition, left_out, one.prefix)
