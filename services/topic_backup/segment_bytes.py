"""Reads, hashes and copies the committed bytes of a segment's files in chunks.

Small parts are appended to a small segment, so that frequent runs produce few segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.folder import Folder, LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.part import NewSegment, SegmentPart, followed_by, placed
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC
from breakglass.services.topic_backup.summary import SegmentSummary

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
    _write_behind(folder, name, last.records_bytes, records)
    entries = moved_entries(folder, part.index, part.count, last.records_bytes - FIRST_POSITION)
    at = FIRST_POSITION + last.count * ENTRY.size
    _write_behind(folder, segment_index_name(last.prefix), at, entries)
    folder.remove(part.records)
    folder.remove(part.index)
    behind = placed(new, last.prefix, part.first_offset, None)
    size = last.records_bytes + part.records_bytes - len(MAGIC)
    for chunk in chunks(folder, name, size, last.records_bytes):
        digest.update(chunk)
    return followed_by(last, behind, digest.hexdigest())


def _write_behind(folder: LocalFolder, name: str, at: int, content: Iterable[bytes]) -> None:
    """Write *content* at byte *at* of a file, durably, over bytes that were never committed."""
    file = folder.append(name, at)
    try:
        for chunk in content:
            file.write(chunk)
        file.sync()
    finally:
        file.close()
