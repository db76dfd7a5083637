"""Checks whether a committed segment's bytes are unchanged, once for each state of the file.

A process that checks an unchanged file again gets the first answer; in an object store, only if
the store proves that the object is unchanged. A failed read is repeated each time, because the next
request may succeed.
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
"""Answers by question, file, state of the file and committed figures."""


def altered(folder: Folder, segment: SegmentSummary) -> str:
    """What is wrong with the records file of *segment*; empty if nothing is."""
    try:
        return remembered(folder, segment, "altered", lambda: _judged(folder, segment))
    except BreakglassError as error:
        return str(error)


def remembered(
    folder: Folder, segment: SegmentSummary, question: str, answer: Callable[[], str]
) -> str:
    """The *answer* about the records file of *segment*, computed once for each state of the file.

    Raises: as *answer*; then nothing is remembered.
        StorageError: the state of the file cannot be read.
    """
    name = records_name(segment.prefix)
    state = folder.state(name)
    if state is None:
        return answer()
    # The address alone is not enough: another key decrypts the file to other bytes.
    place = folder.where(name) if isinstance(folder, LocalFolder) else (folder, name)
    key = (question, place, state, segment.records_bytes, segment.sha256)
    if key not in _known:
        found = answer()
        if len(_known) >= MOST_KEPT:
            _known.clear()
        _known[key] = found
    return _known[key]


def judged(
    folder: Folder, segment: SegmentSummary, see: Callable[[bytes], None] = lambda _: None
) -> str:
    """Like `altered`, without the memory; *see* is called with each chunk that is read."""
    try:
        return _judged(folder, segment, see)
    except BreakglassError as error:
        return str(error)


def _judged(
    folder: Folder, segment: SegmentSummary, see: Callable[[bytes], None] = lambda _: None
) -> str:
    name = records_name(segment.prefix)
    try:
        size = folder.size(name)
        if size is None:
            return "the manifest has this segment, the folder has not"
        if size < segment.records_bytes:
            return f"it has {size:,} bytes, and {segment.records_bytes:,} were committed"
        digest = sha256(folder, name, segment.records_bytes, see)
    except DamagedBackup as error:
        return f"byte {error.position}: {error.reason}"
    return "" if digest == segment.sha256 else OTHER_BYTES
