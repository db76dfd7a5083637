"""Checks whether a committed segment's bytes are unchanged, once for each state of the file.

A process that checks an unchanged file again gets the first answer; in an object store, only if
the store proves that the object is unchanged. A failed read is repeated each time, because the next
request may succeed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import partial

from breakglass.services.errors import BreakglassError, DamagedBackup
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.segment_bytes import sha256
from breakglass.services.topic_backup.summary import SegmentSummary

OTHER_BYTES = "its bytes are not those that were committed (SHA-256)"
MOST_KEPT = 4096
BLOCK_BYTES = 1024 * 1024

_known: dict[Hashable, str] = {}
"""Answers by question, file, state of the file and committed figures."""
_blocks: dict[str, bytes] = {}
"""The SHA-256 of each `BLOCK_BYTES` of records files, one after the other, by that of the file."""


def altered(folder: Folder, segment: SegmentSummary) -> str:
    """What is wrong with the records file of *segment*; empty if nothing is."""
    try:
        prefix, size, committed = segment.prefix, segment.records_bytes, segment.sha256
        answer = partial(_judged, folder, prefix, size, committed)
        return remembered(folder, segment, "altered", answer)
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


def known_blocks(segment: SegmentSummary) -> bytes:
    """The SHA-256 of each block of the records file of *segment*, if its bytes were checked here.

    They prove what is read later: a store may answer each request with other bytes.
    """
    return _blocks.get(segment.sha256, b"")


def blocks_of(folder: Folder, prefix: str, size: int, committed: str) -> bytes:
    """The same of the segment that was *committed* with that SHA-256; its file is read if need be.

    Raises:
        DamagedBackup: its bytes are not those that were committed.
        StorageError: they cannot be read.
    """
    why = "" if committed in _blocks else _judged(folder, prefix, size, committed)
    if why:
        raise DamagedBackup(folder.where(records_name(prefix)), 0, why)
    return _blocks[committed]


def judged(
    folder: Folder, segment: SegmentSummary, see: Callable[[bytes], None] = lambda _: None
) -> str:
    """Like `altered`, without the memory; *see* is called with each chunk that is read."""
    try:
        return _judged(folder, segment.prefix, segment.records_bytes, segment.sha256, see)
    except BreakglassError as error:
        return str(error)


def _judged(
    folder: Folder,
    prefix: str,
    committed_bytes: int,
    committed: str,
    see: Callable[[bytes], None] = lambda _: None,
) -> str:
    name = records_name(prefix)
    try:
        size = folder.size(name)
        if size is None:
            return "the manifest has this segment, the folder has not"
        if size < committed_bytes:
            return f"it has {size:,} bytes, and {committed_bytes:,} were committed"
        blocks = _Blocks(see)
        digest = sha256(folder, name, committed_bytes, blocks.add)
    except DamagedBackup as error:
        return f"byte {error.position}: {error.reason}"
    if digest != committed:
        return OTHER_BYTES
    if len(_blocks) >= MOST_KEPT:
        _blocks.clear()
    _blocks[digest] = b"".join(blocks.found)
    return ""


class _Blocks:
    """Hashes blocks of a file whose chunks come in any size."""

    def __init__(self, see: Callable[[bytes], None]) -> None:
        self._see = see
        self._size, self._digest, self._found = 0, hashlib.sha256(), list[bytes]()

    def add(self, chunk: bytes) -> None:
        self._see(chunk)
        at = 0
        while at < len(chunk):
            some = memoryview(chunk)[at : at + BLOCK_BYTES - self._size]
            self._digest.update(some)
            at, self._size = at + len(some), self._size + len(some)
            if self._size == BLOCK_BYTES:
                self._found.append(self._digest.digest())
                self._size, self._digest = 0, hashlib.sha256()

    @property
    def found(self) -> list[bytes]:
        return [*self._found, *([self._digest.digest()] if self._size else [])]
