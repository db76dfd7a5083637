"""The files of a copy, and the digest by which two copies of a partition are compared.

Segments are cut where tasks end, so their hashes differ between nodes. The comparison uses the
CRC-32 of all records in sequence, combined from the CRCs of the pieces without reading them again.

::

    segments/TOPIC/...    the partition up to the cut
    channel/TOPIC/...     records after the cut that no sender repeats
    snapshot/states.json  the state that each group's owner had saved at the cut
    snapshot/moved.json   where records were before an earlier restore had written them here
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import BinaryIO

from breakglass.services.checkpoint.kafka.control import MovedRecords, moved_from, moved_rows
from breakglass.services.checkpoint.store.documents import StoredFile
from breakglass.services.checkpoint.store.files import blobs_at, stored_file
from breakglass.services.errors import MalformedInput, StorageError
from breakglass.services.topic_backup.folder import Folder, read_bounded
from breakglass.services.topic_backup.layout import records_name, segment_of
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.segment_reader import MAGIC
from breakglass.services.topic_backup.store.blobs import Blobs
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs
from breakglass.services.topic_backup.store.store import RunsFolder, Store, open_store
from breakglass.services.topic_backup.summary import PartitionSummary

POLYNOMIAL = 0xEDB88320
"""Of CRC-32 as in zlib: the lowest bit is the highest power."""
ONE, EIGHTH_POWER = 1 << 31, 1 << 23
MASK = 2**32 - 1


def records_digest(parts: Iterable[SegmentPart]) -> str:
    """Count, size and CRC of the records of *parts*, in order, from the CRCs of the parts."""
    count = size = crc = 0
    for part in parts:
        assert part.records_crc is not None
        length = part.records_bytes - len(MAGIC)
        crc = joined(crc, part.records_crc, length)
        count, size = count + part.count, size + length
    return f"{count}-{size}-{crc:08x}"


def joined(first: int, second: int, length: int) -> int:
    """The CRC-32 of two consecutive pieces; *length* is the size of the second piece in bytes."""
    return _product(_power(length), first) ^ second


def _power(length: int) -> int:
    """The polynomial that shifts a CRC by this many bytes, by repeated squaring."""
    found, square = ONE, EIGHTH_POWER
    while length:
        if length & 1:
            found = _product(square, found)
        square = _product(square, square)
        length >>= 1
    return found


def _product(one: int, other: int) -> int:
    """The product of two polynomials over GF(2), modulo the CRC's polynomial."""
    found = 0
    while one:
        if one & ONE:
            found ^= other
        one = one << 1 & MASK
        other = other >> 1 ^ (POLYNOMIAL if other & 1 else 0)
    return found


SEGMENTS, CHANNEL = "segments", "channel"
STATES = "snapshot/states.json"
MOVED = "snapshot/moved.json"
MOST_STATES = 1024 * 1024 * 1024
"""Bytes of either file."""


def segments_store(where: str) -> Store:
    """The topic backup of the records up to the cut."""
    return open_store(f"{where}/{SEGMENTS}")


def channel_store(where: str) -> Store:
    """The topic backup of the records in transit."""
    return open_store(f"{where}/{CHANNEL}")


@dataclass(frozen=True, slots=True)
class CommittedObjects(FsspecBlobs):
    """The objects of a copy as they were committed; a document that differs is not read.

    A store may answer each request with other bytes. Records are compared with the hashes in the
    documents, and indexes with the records (B36).
    """

    files: Mapping[str, StoredFile]

    def names(self) -> list[str]:
        return list(self.files)

    def size(self, name: str) -> int | None:
        return self.files[name].size if name in self.files else None

    def open(self, name: str) -> BinaryIO:
        if segment_of(name) is not None:
            return FsspecBlobs.open(self, name)
        known = self.files.get(name)
        content = b""
        if known is not None:
            with FsspecBlobs.open(self, name) as file:
                content = read_bounded(file, self.where(name), known.size)
        if known is None or sha256(content).hexdigest() != known.sha256:
            raise StorageError(
                f"{self.where(name)} has other bytes than were committed: take the checkpoint from "
                "another copy of the store."
            )
        return BytesIO(content)


def committed(where: str, files: Iterable[StoredFile], below: str = "") -> Blobs:
    """The *files* of the copy at *where*, of the folder *below* it."""
    held, prefix = blobs_at(f"{where}/{below}" if below else where), f"{below}/" if below else ""
    if not isinstance(held, FsspecBlobs):
        return held
    own = {file.name.removeprefix(prefix): file for file in files if file.name.startswith(prefix)}
    return CommittedObjects(held.url, own)


def committed_folder(where: str, kind: str, topic: str, files: Iterable[StoredFile]) -> Folder:
    """The topic backup of *kind*, segments or channel, in the copy at *where*."""
    objects = committed(where, files, f"{kind}/{topic}")
    if isinstance(objects, CommittedObjects):
        return RunsFolder(objects)
    return open_store(f"{where}/{kind}").folder(topic)


def write_snapshot(
    where: str, states: Mapping[str, bytes], moved: Sequence[MovedRecords]
) -> str | None:
    """Write saved *states* and *moved* records below *where*; the name of the states' file, if any.

    Raises StorageError: a file cannot be written.
    """
    held = blobs_at(where)
    if moved:
        held.create(MOVED, json.dumps(moved_rows(moved)).encode())
    if not states:
        return None
    texts = {group: base64.b64encode(one).decode() for group, one in sorted(states.items())}
    held.create(STATES, json.dumps(texts).encode())
    return STATES


def files_of(where: str, topic: str, summary: PartitionSummary) -> tuple[StoredFile, ...]:
    """The files below *where*; segments by the hashes from when they were written.

    Raises StorageError: a file cannot be read.
    """
    held = blobs_at(where)
    known = {
        (name := f"{SEGMENTS}/{topic}/{records_name(segment.prefix)}"): StoredFile(
            name, segment.records_bytes, segment.sha256
        )
        for segment in summary.segments
    }
    # No file that is a lock, or the remainder of a killed writer.
    names = [
        name
        for name in sorted(held.names())
        if not any(part.startswith(".") for part in name.split("/"))
    ]
    return tuple(known[name] if name in known else stored_file(held, name) for name in names)


def summary_of(folder: Folder, number: int) -> PartitionSummary:
    """A summary of the partition's content in a copy.

    Raises StorageError: it is empty, which a committed copy never is.
    """
    manifest = read_manifest(folder)
    found = None if manifest is None else manifest.partition(number)
    if found is None:
        raise StorageError(f"{folder.where()} holds nothing of partition {number}: copy it again.")
    return found


def read_states(held: Blobs) -> dict[str, bytes]:
    """The saved state of each group's owner; empty if no group saves states.

    Raises MalformedInput: the file is not a file of states.
    """
    if held.size(STATES) is None:
        return {}
    with held.open(STATES) as file:
        content = read_bounded(file, held.where(STATES), MOST_STATES)
    try:
        return {
            str(group): base64.b64decode(state, validate=True)
            for group, state in json.loads(content).items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise MalformedInput(
            f"{held.where(STATES)}: no saved states ({error}); take the file from another copy."
        ) from None


def read_moved(held: Blobs) -> tuple[MovedRecords, ...]:
    """The addresses that records of the partition had before an earlier restore; mostly none.

    Raises MalformedInput: the file holds no such addresses.
    """
    if held.size(MOVED) is None:
        return ()
    with held.open(MOVED) as file:
        content = read_bounded(file, held.where(MOVED), MOST_STATES)
    try:
        return moved_from(json.loads(content))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedInput(
            f"{held.where(MOVED)}: no moved records ({error}); take the file from another copy."
        ) from None
