"""The committed bytes of a segment's files, a chunk at a time: as they are, hashed, or moved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION

CHUNK_BYTES = 4 * 1024 * 1024


def chunks(folder: Folder, name: str, end: int, start: int = 0) -> Iterator[bytes]:
    """The bytes of a file from *start* to *end*.

    Raises:
        DamagedBackup: it ends before.
        StorageError: it cannot be read.
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


def sha256(folder: Folder, name: str, size: int, count: Callable[[int], None]) -> str:
    """The hash of the first *size* bytes, which are told to *count* as they come.

    Raises: as `chunks`.
    """
    digest = hashlib.sha256()
    for chunk in chunks(folder, name, size):
        digest.update(chunk)
        count(len(chunk))
    return digest.hexdigest()


def moved_entries(folder: Folder, name: str, count: int, shift: int) -> Iterator[bytes]:
    """The first *count* entries of an index, of records that lie *shift* bytes further back.

    Raises: as `chunks`.
    """
    held = b""
    for chunk in chunks(folder, name, FIRST_POSITION + count * ENTRY.size, FIRST_POSITION):
        held += chunk
        whole = len(held) - len(held) % ENTRY.size
        unpacked = ENTRY.iter_unpack(held[:whole])
        yield b"".join(ENTRY.pack(offset, at + shift, size) for offset, at, size in unpacked)
        held = held[whole:]
