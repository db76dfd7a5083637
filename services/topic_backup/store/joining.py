"""Two small segments made one, where nothing can be appended: a new one is written of both.

So frequent runs leave few objects. Nothing is joined that is not what was committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.addition import followed_by
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.segment_bytes import chunks, moved_entries
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC
from breakglass.services.topic_backup.summary import SegmentSummary

SMALL_BYTES = 64 * 1024 * 1024
"""Segments of this size are left alone."""


def worth_joining(one: SegmentSummary, other: SegmentSummary, max_segment_bytes: int) -> bool:
    """Whether *other*, which follows *one*, is better joined to it.

    Only to one that is not twice as large: so a byte is written again a few times, not with
    every run.
    """
    size, more = (each.records_bytes - len(MAGIC) for each in (one, other))
    small = max(size, more) < SMALL_BYTES and size + more <= max_segment_bytes
    return bool(one.count and other.count) and small and size < 2 * more


def joined(
    folder: Folder, prefix: str, one: SegmentSummary, other: SegmentSummary
) -> SegmentSummary:
    """Write the records of *one* and *other*, which follows it, as the segment *prefix*.

    Raises:
        DamagedBackup: the bytes of either are not those that were committed, or its index is not.
        StorageError: they cannot be read or written.
    """
    digest = hashlib.sha256()

    def records() -> Iterator[bytes]:
        for chunk in _records(folder, one):
            digest.update(chunk)
            yield chunk
        at = 0
        for chunk in _records(folder, other):
            rest = chunk[len(MAGIC) :] if at == 0 else chunk
            at += len(chunk)
            digest.update(rest)
            yield rest

    folder.replace(records_name(prefix), records())
    folder.replace(segment_index_name(prefix), _index(folder, one, other))
    return replace(followed_by(one, other, digest.hexdigest()), prefix=prefix)


def _records(folder: Folder, segment: SegmentSummary) -> Iterator[bytes]:
    """The committed bytes of the records file, checked when the last of them was given."""
    name = records_name(segment.prefix)
    digest = hashlib.sha256()
    for chunk in chunks(folder, name, segment.records_bytes):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != segment.sha256:
        reason = "its bytes are not those that were committed (SHA-256)"
        raise DamagedBackup(folder.where(name), 0, reason)


def _index(folder: Folder, one: SegmentSummary, other: SegmentSummary) -> Iterator[bytes]:
    yield MAGIC
    for segment, shift in ((one, 0), (other, one.records_bytes - FIRST_POSITION)):
        yield from moved_entries(folder, segment_index_name(segment.prefix), segment.count, shift)
