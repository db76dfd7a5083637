"""Whether the bytes of a committed segment are those that were committed, read once for each state.

A process that asks again about a file that was not touched gets the answer of the first time.
"""

from __future__ import annotations

from collections.abc import Callable

from services.errors import BreakglassError
from services.topic_backup.folder import Folder, LocalFolder
from services.topic_backup.layout import records_name
from services.topic_backup.segment_bytes import sha256
from services.topic_backup.summary import SegmentSummary

OTHER_BYTES = "its bytes are not those that were committed (SHA-256)"
MOST_KEPT = 4096

_known: dict[tuple[str, tuple[int, ...], str], str] = {}
"""By place, state of the file and what was committed."""


def altered(folder: Folder, segment: SegmentSummary) -> str:
    """What is wrong with the records file of *segment*; empty where nothing is."""
    name = records_name(segment.prefix)
    try:
        if not isinstance(folder, LocalFolder):
            return judged(folder, segment)
        state = folder.state(name)
    except BreakglassError as error:
        return str(error)
    if state is None:
        return "the manifest has this segment, the folder has not"
    key = (folder.where(name), state, f"{segment.records_bytes} {segment.sha256}")
    if key not in _known:
        if len(_known) >= MOST_KEPT:
            _known.clear()
        _known[key] = judged(folder, segment)
    return _known[key]


def judged(
    folder: Folder, segment: SegmentSummary, count: Callable[[int], None] = lambda _: None
) -> str:
    """The same, read now; bytes are told to *count* as they come."""
    name = records_name(segment.prefix)
    try:
        size = folder.size(name)
        if size is None:
            return "the manifest has this segment, the folder has not"
        if size < segment.records_bytes:
            return f"it has {size:,} bytes, and {segment.records_bytes:,} were committed"
        digest = sha256(folder, name, segment.records_bytes, count)
    except BreakglassError as error:
        return str(error)
    return "" if digest == segment.sha256 else OTHER_BYTES
