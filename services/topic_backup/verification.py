"""Verifies a backup's sizes, hashes and indexes against its manifest, without a broker.

Threads check several segments at once, because hashing releases Python's GIL.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from breakglass.services.errors import BreakglassError
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.batch_log import read_batch_log
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import (
    MANIFEST,
    batch_log_name,
    consumer_offsets_name,
    listing,
    records_name,
)
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest
from breakglass.services.topic_backup.notes import VERIFIED, verified_commit
from breakglass.services.topic_backup.reader import NOT_COMMITTED, LeftOut, PartitionReader
from breakglass.services.topic_backup.segment_bytes import OTHER_BYTES, judged
from breakglass.services.topic_backup.segment_index import (
    IndexProof,
    SegmentIndex,
    open_index,
    read_partition_index,
)
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary

_IN_RUN = re.compile(r"run-([0-9]{10,19})-", re.ASCII)


@dataclass(frozen=True, slots=True)
class Damage:
    """A difference from what was committed."""

    file: str
    reason: str
    repairable: bool = False
    """Whether all records are intact, so that `reindex` repairs the damage."""


@dataclass(slots=True)
class FilesVerified:
    """What was found in the folder of one topic."""

    folder: str
    records: int = 0
    bytes: int = 0
    segments: int = 0
    manifest: bool = True
    """False: a backup of Kafka Backup, of which only the format could be checked."""
    damages: list[Damage] = field(default_factory=list)
    salvaged: bool = False
    """Whether records were salvaged from damage or from a killed writer's files."""
    stretches: list[str] = field(default_factory=list)
    """How the salvaged records were proved."""
    unproved: list[str] = field(default_factory=list)
    """What was taken from files that nothing vouched for."""
    uncommitted: list[str] = field(default_factory=list)
    """Bytes that are in the folder and in no commit."""
    groups_lacking: tuple[str, ...] = ()
    """What the backup lacks of groups' offsets, each in a sentence."""
    groups_lost: tuple[str, ...] = ()
    """Which offsets of groups were lost, as a later run noted, in a sentence."""

    @property
    def whole(self) -> bool:
        return not self.damages and not self.salvaged and not self.groups_lacking

    @property
    def as_committed(self) -> bool:
        """Whether every file has the bytes that were committed."""
        return not self.damages


def verify_files(folder: Folder, workers: int | None = None) -> FilesVerified:
    """Check every committed file of the topic in *folder*, *workers* segments at a time.

    Raises:
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
        StorageError: the folder cannot be listed.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return _format_only(folder)
    found = FilesVerified(folder.where())
    todo = [segment for part in manifest.partitions for segment in part.segments]
    with ThreadPoolExecutor(workers or os.cpu_count() or 1, "verify") as pool:
        for segment, damages in zip(
            todo, pool.map(lambda one: list(_segment(folder, one)), todo), strict=True
        ):
            found.segments += 1
            found.records += segment.count
            found.bytes += segment.records_bytes
            found.damages += damages
    for partition in manifest.partitions if folder.original else ():
        found.damages += _index(folder, partition)
    _groups(folder, found)
    for partition in manifest.partitions:
        if partition.batch_log is None:
            continue
        try:
            # The state of rescued batches decides what a restore of a tail puts back.
            deque(read_batch_log(folder, partition.partition, partition.batch_log), maxlen=0)
        except BreakglassError as error:
            where = folder.where(batch_log_name(partition.partition))
            found.damages.append(Damage(where, str(error)))
    found.unproved = [
        f"partition {part.partition}, {doubt}"
        for part in manifest.partitions
        for doubt in part.unproved
    ]
    found.salvaged = bool(found.unproved)
    found.uncommitted = [str(one) for one in uncommitted(folder, folder.names(), manifest)]
    if is_older(folder, manifest):
        found.damages.append(Damage(folder.where(MANIFEST), OLDER_MANIFEST))
    return found


def _groups(folder: Folder, found: FilesVerified) -> None:
    damages = [Damage(folder.where(name), why) for name, why in group_history.damages(folder)]
    found.damages += damages
    _, lacking, found.groups_lost = group_history.outline(folder)
    reasons = {damage.reason for damage in damages}
    found.groups_lacking = tuple(one for one in lacking if one not in reasons)


def _segment(folder: Folder, segment: SegmentSummary) -> Iterator[Damage]:
    name = records_name(segment.prefix)
    index = open_index(folder, segment.prefix)
    if index is None:
        wrong = judged(folder, segment)
        unfit = "its index is missing or no index"
    else:
        with index:
            wrong, unfit = _read_with(index, folder, segment)
    if wrong:
        yield Damage(folder.where(name), wrong + _offsets(segment))
    if unfit and wrong in ("", OTHER_BYTES):
        yield Damage(folder.where(name), unfit, repairable=True)


def _read_with(index: SegmentIndex, folder: Folder, segment: SegmentSummary) -> tuple[str, str]:
    """What is wrong with the records of *segment*, and with its index; empty if nothing is."""
    proof = IndexProof(index, segment.count, segment.records_bytes)
    errors: list[str] = []

    def see(chunk: bytes) -> None:
        try:
            if not errors:
                proof.take(chunk)
        except BreakglassError as error:
            errors.append(str(error))

    wrong = judged(folder, segment, see)
    if errors:
        return wrong, errors[0]
    return wrong, "" if proof.proved else "its index does not fit its records"


def _offsets(segment: SegmentSummary) -> str:
    """The offsets that are in doubt if *segment* is damaged."""
    if segment.first_offset is None or segment.last_offset is None:
        return ""
    return f"; offsets {segment.first_offset}..{segment.last_offset}"


def _index(folder: Folder, partition: PartitionSummary) -> Iterator[Damage]:
    """Check that the partition's index names its segments; it may still name removed ones."""
    try:
        named = set(read_partition_index(folder, partition.partition))
    except BreakglassError as error:
        yield Damage(folder.where(), str(error), repairable=True)
        return
    there = [
        segment
        for segment in partition.segments
        if folder.size(records_name(segment.prefix)) is not None
    ]
    if any((summary.prefix, summary.start_offset) not in named for summary in there):
        reason = f"the index of partition {partition.partition} does not name every segment"
        yield Damage(folder.where(), reason, repairable=True)


def _format_only(folder: Folder) -> FilesVerified:
    """Read every record, the only possible check without a manifest."""
    found = FilesVerified(folder.where(), manifest=False)
    names = folder.names()
    for number, files in listing(names).items():
        found.segments += sum(1 for segment in files.segments if segment.has_records)
        reader = PartitionReader(folder, number, None)
        try:
            found.records += sum(1 for _ in reader.records())
            read_partition_index(folder, number)
        except BreakglassError as error:
            found.damages.append(Damage(folder.where(), str(error)))
        found.damages += [Damage(out.file, str(out)) for out in reader.left_out]
        found.salvaged = found.salvaged or reader.salvaged
        found.stretches += [f"partition {number}: {stretch}" for stretch in reader.stretches]
    _groups(folder, found)
    if has_lost_manifest(names):
        found.damages.append(Damage(folder.where(MANIFEST), NO_MANIFEST))
    return found


NO_MANIFEST = "the manifest is gone: side files tell that there was one"


OLDER_MANIFEST = (
    f"it is older than the one that was verified last: put that one back from another copy, or "
    f"remove {VERIFIED} to go on from this one"
)


def has_lost_manifest(names: Collection[str]) -> bool:
    """Whether *names*, which lack a manifest, include files that only a commit leaves."""
    runs = {int(match[1]) for name in names if (match := _IN_RUN.match(name))}
    # The first run writes the groups' files once it has committed.
    after = runs and any(name.startswith(consumer_offsets_name(0)[:-3]) for name in names)
    return (
        any(name.startswith(VERIFIED) for name in names)
        or bool(after or runs - {1})
        or bool(group_history.times(list(names)))
    )


def lacks_last(folder: Folder, manifest: TopicManifest | None) -> bool:
    """Whether *manifest* is not the last one of *folder*, which side files show."""
    return is_older(folder, manifest) if manifest else has_lost_manifest(folder.names())


def is_older(folder: Folder, manifest: TopicManifest | None) -> bool:
    """Whether *manifest* is an older one than was verified."""
    return manifest is not None and verified_commit(folder) > manifest.commit


def uncommitted(
    folder: Folder, names: Collection[str], manifest: TopicManifest
) -> Iterator[LeftOut]:
    """The bytes of segments that *folder* has beyond *manifest*; no command reads them."""
    parts = {part.partition: part for part in manifest.partitions}
    for number, files in listing(names).items():
        part = parts.get(number)
        for segment in files.segments:
            done = part.segment(segment.start_offset) if part else None
            name, end = records_name(segment.prefix), done.records_bytes if done else 0
            size = folder.size(name) or 0
            if size > end:
                yield LeftOut(folder.where(name), end, size - end, NOT_COMMITTED)
    for name in names:
        match = _IN_RUN.match(name)
        if match and int(match[1]) > manifest.commit and name.endswith(records_name("")):
            yield LeftOut(folder.where(name), 0, folder.size(name) or 0, NOT_COMMITTED)
