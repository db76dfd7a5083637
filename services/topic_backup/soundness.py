"""Whether the bytes of a committed segment are those that were committed, read once for each state.

A process that asks again about a file that did not change gets the answer of the first time, in
an object store too, where the store proves that the object did not change. What could not be read
is asked again each time: the next request may get through.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from breakglass.services.errors import BreakglassError, DamagedBackup
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.segment_bytes import sha256
from breakglass.services.topic_backup.summary import SegmentSummary

OTHER_BYTES = "its bytes are not those that were committed (SHA-256)"
MOST_KEPT = 4096

_known: dict[Hashable, str] = {}
"""By question, file, state of the file and what was committed."""


def altered(folder: Folder, segment: SegmentSummary) -> str:
    """What is wrong with the records file of *segment*; empty where nothing is."""
    try:
        return remembered(folder, segment, "altered", lambda: _judged(folder, segment))
    except BreakglassError as error:
        return str(error)


def remembered(
    folder: Folder, segment: SegmentSummary, question: str, answer: Callable[[], str]
) -> str:
    """The *answer* about the records file of *segment*, worked out once for each of its states.

    Raises: as *answer*, and then nothing is remembered.
        StorageError: the state of the file cannot be read.
    """
    name = records_name(segment.prefix)
    state = folder.state(name)
    if state is None:
        return answer()
    # Not the address alone: who opens it with another key reads other bytes.
    place = folder.where(name) if isinstance(folder, LocalFolder) else (folder, name)
    key = (question, place, state, segment.records_bytes, segment.sha256)
    if key not in _known:
        found = answer()
        if len(_known) >= MOST_KEPT:
            _known.clear()
        _known[key] = found
    return _known[key]


def judged(
    folder: Folder, segment: SegmentSummary, count: Callable[[int], None] = lambda _: None
) -> str:
    """As `altered`, read now; bytes are reported to *count* as they come."""
    try:
        return _judged(folder, segment, count)
    except BreakglassError as error:
        return str(error)


def _judged(
    folder: Folder, segment: SegmentSummary, count: Callable[[int], None] = lambda _: None
) -> str:
    name = records_name(segment.prefix)
    try:
        size = folder.size(name)
        if size is None:
            return "the manifest has this segment, the folder has not"
        if size < segment.records_bytes:
            return f"it has {size:,} bytes, and {segment.records_bytes:,} were committed"
        digest = sha256(folder, name, segment.records_bytes, count)
    except DamagedBackup as error:
        return str(error)
    return "" if digest == segment.sha256 else OTHER_BYTES
