"""Reads, hashes and copies the committed bytes of a segment's files in chunks.

Whether a committed segment's bytes are unchanged is checked once for each state of the file: a
process that checks an unchanged file again gets the first answer; in an object store, only if the
store proves that the object is unchanged. A failed read is repeated each time, because the next
request may succeed.

Small parts are appended to a small segment, so that frequent runs produce few segments.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from breakglass.services.errors import BreakglassError, DamagedBackup
from breakglass.services.topic_backup.folder import Folder, LocalFolder, storage_errors, write_at
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.part import NewSegment, SegmentPart, followed_by, placed
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC
from breakglass.services.topic_backup.store.blobs import SeekableBytes
from breakglass.services.topic_backup.summary import SegmentSummary

if TYPE_CHECKING:
    from typing_extensions import Buffer

CHUNK_BYTES = 4 * 1024 * 1024


def chunks(folder: Folder, name: str, end: int, start: int = 0) -> Iterator[bytes]:
    """The bytes of a file from *start* to *end*.

    Raises:
        DamagedBackup: the file ends before *end*.
        StorageError: the file cannot be read.
    """
    where, at = folder.where(name), start
    with folder.open(name) as file, storage_errors(where):
        file.seek(start)
        while at < end:
            chunk = file.read(min(end - at, CHUNK_BYTES))
            if not chunk:
                raise DamagedBackup(where, at, f"{end} bytes were committed")
            yield chunk
            at += len(chunk)


def sha256(folder: Folder, name: str, size: int, see: Callable[[bytes], None]) -> str:
    """The hash of the first *size* bytes; *see* is called with each chunk.

    Raises: as `chunks`.
    """
    digest = hashlib.sha256()
    for chunk in chunks(folder, name, size):
        digest.update(chunk)
        see(chunk)
    return digest.hexdigest()


def moved_entries(folder: Folder, name: str, count: int, shift: int) -> Iterator[bytes]:
    """The first *count* entries of an index, for records that move *shift* bytes further.

    Raises: as `chunks`.
    """
    held = b""
    for chunk in chunks(folder, name, FIRST_POSITION + count * ENTRY.size, FIRST_POSITION):
        held += chunk
        whole = len(held) - len(held) % ENTRY.size
        unpacked = ENTRY.iter_unpack(held[:whole])
        yield b"".join(ENTRY.pack(offset, at + shift, size) for offset, at, size in unpacked)
        held = held[whole:]


SMALL_BYTES = 16 * 1024 * 1024
"""Segments and parts below this size are joined."""


def fits(last: SegmentSummary, part: SegmentPart, most: int) -> bool:
    """Whether to append *part* to the segment *last*, which may grow to *most* bytes."""
    together = last.records_bytes + part.records_bytes - len(MAGIC)
    return max(last.records_bytes, part.records_bytes) < SMALL_BYTES and together <= most


def appended(folder: LocalFolder, last: SegmentSummary, new: NewSegment) -> SegmentSummary | None:
    """Append a part to the segment *last*, durably, and remove the part's files.

    None, and nothing is changed, if *last* is not as it was committed: a hash of all its bytes
    would vouch for the damage (B29).

    Raises:
        DamagedBackup: a file of the part is shorter than it was written.
        StorageError: a file cannot be read or written.
    """
    part, name = new.part, records_name(last.prefix)
    digest = hashlib.sha256()
    for chunk in chunks(folder, name, last.records_bytes):
        digest.update(chunk)
    if digest.hexdigest() != last.sha256:
        return None
    records = chunks(folder, part.records, part.records_bytes, len(MAGIC))
    write_at(folder, name, last.records_bytes, records)
    entries = moved_entries(folder, part.index, part.count, last.records_bytes - FIRST_POSITION)
    at = FIRST_POSITION + last.count * ENTRY.size
    write_at(folder, segment_index_name(last.prefix), at, entries)
    folder.remove(part.records)
    folder.remove(part.index)
    behind = placed(new, last.prefix, part.first_offset, None)
    size = last.records_bytes + part.records_bytes - len(MAGIC)
    for chunk in chunks(folder, name, size, last.records_bytes):
        digest.update(chunk)
    return followed_by(last, behind, digest.hexdigest())


OTHER_BYTES = "its bytes are not those that were committed (SHA-256)"
MOST_KEPT = 4096
BLOCK_BYTES = 1024 * 1024
DIGEST_BYTES = hashlib.sha256().digest_size

_known: dict[Hashable, str] = {}
"""Answers by question, file, state of the file and committed figures."""
_blocks: dict[str, bytes] = {}
"""The SHA-256 of each `BLOCK_BYTES` of records files, one after the other, by that of the file."""


class CommittedFile(Protocol):
    """A records file as its manifest has it: `SegmentSummary`, and what a task reads of one."""

    @property
    def prefix(self) -> str: ...
    @property
    def records_bytes(self) -> int: ...
    @property
    def sha256(self) -> str: ...


def altered(folder: Folder, segment: CommittedFile) -> str:
    """What is wrong with the records file of *segment*; empty if nothing is."""
    try:
        return remembered(folder, segment, "altered", lambda: _judged(folder, segment))
    except BreakglassError as error:
        return str(error)


def remembered(
    folder: Folder, segment: CommittedFile, question: str, answer: Callable[[], str]
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


def known_blocks(segment: CommittedFile) -> bytes:
    """The SHA-256 of each block of the records file of *segment*, if its bytes were checked here.

    They prove what is read later: a store may answer each request with other bytes.
    """
    return _blocks.get(segment.sha256, b"")


def blocks_of(folder: Folder, segment: CommittedFile) -> bytes:
    """The same; the file is read if it was not.

    Raises:
        DamagedBackup: its bytes are not those that were committed.
        StorageError: they cannot be read.
    """
    why = "" if segment.sha256 in _blocks else _judged(folder, segment)
    if why:
        raise DamagedBackup(folder.where(records_name(segment.prefix)), 0, why)
    return _blocks[segment.sha256]


class _Proved(SeekableBytes):
    """The committed bytes of a records file, each block compared with its hash when it is read."""

    size = 0

    def __init__(self, file: BinaryIO, where: str, size: int, hashes: bytes) -> None:
        self._file, self._where, self._hashes, self.size = file, where, hashes, size
        self._first, self._held = 0, b""
        """The blocks that were read last, from position `_first` on."""

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Buffer) -> int:
        view, start = memoryview(buffer).cast("B"), self._position
        end = min(start + len(view), self.size)
        if end <= start:
            return 0
        if not self._first <= start < self._first + len(self._held):
            self._first = start - start % BLOCK_BYTES
            self._held = self._blocks(self._first, min(end + -end % BLOCK_BYTES, self.size))
        some = self._held[start - self._first : end - self._first]
        view[: len(some)] = some
        self._position += len(some)
        return len(some)

    def _blocks(self, start: int, end: int) -> bytes:
        with storage_errors(self._where):
            self._file.seek(start)
            blocks = self._file.read(end - start)
        for at in range(0, end - start, BLOCK_BYTES):
            number = (start + at) // BLOCK_BYTES * DIGEST_BYTES
            digest = hashlib.sha256(memoryview(blocks)[at : at + BLOCK_BYTES]).digest()
            if digest != self._hashes[number : number + DIGEST_BYTES]:
                raise DamagedBackup(self._where, start + at, OTHER_BYTES)
        return blocks


def open_proved(folder: Folder, segment: CommittedFile, hashes: bytes = b"") -> BinaryIO:
    """Open the records file of *segment*; what is read from it is what was checked here.

    A store may answer each request with other bytes, so each block is compared with its hash:
    *hashes* are those of `known_blocks` in another process. A file on this machine is opened as it
    is. Reading raises DamagedBackup if the bytes differ.

    Raises:
        DamagedBackup: its bytes are not those that were committed.
        StorageError: they cannot be read.
    """
    name = records_name(segment.prefix)
    if isinstance(folder, LocalFolder):
        return folder.open(name)
    hashes = hashes or blocks_of(folder, segment)
    proved = _Proved(folder.open(name), folder.where(name), segment.records_bytes, hashes)
    return cast("BinaryIO", io.BufferedReader(proved, BLOCK_BYTES))


def judged(
    folder: Folder, segment: CommittedFile, see: Callable[[bytes], None] = lambda _: None
) -> str:
    """Like `altered`, without the memory; *see* is called with each chunk that is read."""
    try:
        return _judged(folder, segment, see)
    except BreakglassError as error:
        return str(error)


def _judged(
    folder: Folder, segment: CommittedFile, see: Callable[[bytes], None] = lambda _: None
) -> str:
    name, blocks, held = records_name(segment.prefix), list[bytes](), bytearray()
    # Files on this machine are mapped, not asked for again, and are not hashed twice.
    local = isinstance(folder, LocalFolder)

    def add(chunk: bytes) -> None:
        see(chunk)
        held.extend(chunk)
        while len(held) >= BLOCK_BYTES:
            blocks.append(hashlib.sha256(held[:BLOCK_BYTES]).digest())
            del held[:BLOCK_BYTES]

    try:
        size = folder.size(name)
        if size is None:
            return "the manifest has this segment, the folder has not"
        if size < segment.records_bytes:
            return f"it has {size:,} bytes, and {segment.records_bytes:,} were committed"
        digest = sha256(folder, name, segment.records_bytes, see if local else add)
    except DamagedBackup as error:
        return f"byte {error.position}: {error.reason}"
    if digest == segment.sha256 and not local:
        if len(_blocks) >= MOST_KEPT:
            _blocks.clear()
        _blocks[digest] = b"".join([*blocks, *([hashlib.sha256(held).digest()] if held else [])])
    return "" if digest == segment.sha256 else OTHER_BYTES


@dataclass(frozen=True, slots=True)
class SegmentExtent:
    """How much of one segment is read, be it present or missing."""

    prefix: str
    start_offset: int
    end: int | None
    """Where to stop in the records file; None: after the last complete record."""
    next_offset: int | None = None
    """The segment's offsets are lower; None: no segment follows."""
    summary: SegmentSummary | None = None
    """The segment as it was committed; None without a manifest."""
    missing: str = ""
    """Why the segment cannot be read; empty: it can."""

    def altered(self, folder: Folder) -> str:
        """What is wrong with the committed bytes; empty if nothing is, or without a manifest."""
        if self.summary is None or self.missing:
            return self.missing
        return altered(folder, self.own_summary)

    def opened(self, folder: Folder) -> BinaryIO:
        """The records file; with a manifest, as `open_proved`."""
        if self.summary is None:
            return folder.open(records_name(self.prefix))
        return open_proved(folder, self.own_summary)

    @property
    def own_summary(self) -> SegmentSummary:
        """The summary with the name of the file: names may pad the same offset differently."""
        assert self.summary is not None
        same = self.summary.prefix == self.prefix
        return self.summary if same else replace(self.summary, prefix=self.prefix)
