"""Whether a backup's files are what was committed: sizes, hashes, indexes; no broker is asked.

Segments are checked side by side: hashing leaves Python's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from services.errors import BreakglassError
from services.topic_backup import partition_index
from services.topic_backup.folder import Folder
from services.topic_backup.layout import listing, records_name
from services.topic_backup.manifest import TopicManifest, read_manifest
from services.topic_backup.reader import PartitionReader
from services.topic_backup.segment_bytes import sha256
from services.topic_backup.segment_index import open_index
from services.topic_backup.summary import PartitionSummary, SegmentSummary


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is not as it was committed."""

    file: str
    reason: str
    repairable: bool = False
    """Records are whole; `reindex` mends it."""


@dataclass(slots=True)
class FilesVerified:
    """What was found in the folder of one topic."""

    folder: str
    records: int = 0
    bytes: int = 0
    segments: int = 0
    manifest: bool = True
    """False: a backup of the original's, of which only the format could be checked."""
    damages: list[Damage] = field(default_factory=list)
    pruned: int = 0
    """Committed segments that were removed from the oldest on."""

    @property
    def whole(self) -> bool:
        return not self.damages


def verify_files(
    folder: Folder, workers: int | None = None, count: Callable[[int], None] = lambda _: None
) -> FilesVerified:
    """Check every committed file of the topic in *folder*, *workers* segments at a time.

    *count* is told of bytes that were read, by several threads.

    Raises:
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
        StorageError: the folder cannot be listed.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return _format_only(folder)
    return _committed(folder, manifest, workers or os.cpu_count() or 1, count)


def _committed(
    folder: Folder, manifest: TopicManifest, workers: int, count: Callable[[int], None]
) -> FilesVerified:
    found = FilesVerified(folder.where())
    names = set(folder.names())
    todo = [one for part in manifest.partitions for one in _there(names, part, found)]
    with ThreadPoolExecutor(workers, "verify") as pool:
        for segment, damages in zip(
            todo, pool.map(lambda one: list(_segment(folder, one, count)), todo), strict=True
        ):
            found.segments += 1
            found.records += segment.count
            found.bytes += segment.records_bytes
            found.damages += damages
    for one in manifest.partitions if folder.original else ():
        found.damages += _index(folder, one)
    return found


def _there(
    names: Collection[str], partition: PartitionSummary, found: FilesVerified
) -> list[SegmentSummary]:
    """The segments that should be there; those removed from the oldest on are counted apart."""
    there = [records_name(one.prefix) in names for one in partition.segments]
    first = there.index(True) if True in there else len(there)
    found.pruned += first if first < len(there) else 0
    return list(partition.segments[first if first < len(there) else 0 :])


def _segment(
    folder: Folder, segment: SegmentSummary, count: Callable[[int], None]
) -> Iterator[Damage]:
    name = records_name(segment.prefix)
    try:
        digest = sha256(folder, name, segment.records_bytes, count)
    except BreakglassError as error:
        yield Damage(folder.where(name), str(error))
        return
    if digest != segment.sha256:
        yield Damage(folder.where(name), "its bytes are not those that were committed (SHA-256)")
    index = open_index(folder, segment.prefix)
    if index is None:
        yield Damage(folder.where(name), "its index is missing or no index", repairable=True)
        return
    with index:
        fits = len(index) >= segment.count and (
            segment.count == 0 or index[segment.count - 1].end == segment.records_bytes
        )
    if not fits:
        yield Damage(folder.where(name), "its index does not fit its records", repairable=True)


def _index(folder: Folder, partition: PartitionSummary) -> Iterator[Damage]:
    """Whether the partition's index names its segments; those removed may still be named."""
    try:
        named = set(partition_index.read(folder, partition.partition))
    except BreakglassError as error:
        yield Damage(folder.where(), str(error), repairable=True)
        return
    there = [one for one in partition.segments if folder.size(records_name(one.prefix)) is not None]
    if any((one.prefix, one.start_offset) not in named for one in there):
        reason = f"the index of partition {partition.partition} does not name every segment"
        yield Damage(folder.where(), reason, repairable=True)


def _format_only(folder: Folder) -> FilesVerified:
    """Read every record there is, which is all that can be checked without a manifest."""
    found = FilesVerified(folder.where(), manifest=False)
    for number, files in listing(folder.names()).items():
        found.segments += sum(1 for one in files.segments if one.has_records)
        reader = PartitionReader(folder, number, None)
        try:
            found.records += sum(1 for _ in reader.records())
        except BreakglassError as error:
            found.damages.append(Damage(folder.where(), str(error)))
        found.damages += [Damage(one.file, str(one)) for one in reader.left_out]
    return found
