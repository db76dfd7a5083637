"""Copies a damaged topic backup: writes every record that can be proved to new files.

The damaged folder is only read. The copy's manifest lists missing offsets: with the reason of
the original manifest if it has one, otherwise as lost. What could not be proved is marked there:
the hashes of the copy say nothing about what was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.folder import Folder, LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import (
    listing,
    require_folder_name,
    topic_of,
    topic_path,
)
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.partition_writer import PartitionWriter
from breakglass.services.topic_backup.reader import LeftOut, PartitionReader
from breakglass.services.topic_backup.record import MAX_RECORD_BYTES
from breakglass.services.topic_backup.segment_bytes import OTHER_BYTES
from breakglass.services.topic_backup.segment_reader import Proof
from breakglass.services.topic_backup.summary import (
    UNVOUCHED,
    Gap,
    GapReason,
    PartitionSummary,
    Unproved,
)
from breakglass.services.topic_backup.topic_writer import TopicWriter


@dataclass(frozen=True, slots=True)
class MendedPartition:
    """One partition of the copy."""

    partition: int
    records: int
    salvaged: bool
    """Whether something was damaged, or left by a killed writer."""
    left_out: tuple[LeftOut, ...]
    stretches: tuple[str, ...]
    """How the records were proved."""
    unproved: tuple[Unproved, ...]
    """What the copy has and could not prove; its manifest says so for ever."""


@dataclass(frozen=True, slots=True)
class MendedTopic:
    """A copy that was made."""

    folder: LocalFolder
    """Named for the topic of the manifest, however the folder of the original is called."""
    partitions: tuple[MendedPartition, ...]


def mend(
    folder: Folder, name: str, to: Path, *, max_record_bytes: int = MAX_RECORD_BYTES
) -> MendedTopic:
    """Write every provable record of the topic *name* in *folder* to a new folder below *to*.

    Raises:
        UsageError: a backup of that name exists already, or *folder* is empty.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
        StorageError: the copy cannot be written.
    """
    manifest = read_manifest(folder)
    topic = topic_of(require_folder_name(name))
    identity = manifest.identity if manifest else TopicIdentity(topic)
    target = topic_path(to, identity.topic)
    with storage_errors(str(target)):
        if target.exists() and any(target.iterdir()):
            raise UsageError(f"{target} is not empty: name another folder with --out.")
    parts = (
        {partition.partition: partition for partition in manifest.partitions} if manifest else {}
    )
    numbers = sorted(parts.keys() | listing(folder.names()).keys())
    if not numbers:
        raise UsageError(f"{folder.where()} holds no segments: name the folder of a topic.")
    with TopicWriter(to, identity) as writer:
        done = []
        for number in numbers:
            committed = parts.get(number)
            if manifest is not None and committed is None:
                committed = PartitionSummary(number, None, ())
            reader = PartitionReader(folder, number, committed, max_record_bytes=max_record_bytes)
            done.append(_mended(writer.partition(number), number, reader, committed))
            writer.finish(number)
        writer.commit()
    copy = LocalFolder(target)
    group_history.copy(folder, copy, numbers)
    return MendedTopic(copy, tuple(done))


def _mended(
    writer: PartitionWriter,
    number: int,
    reader: PartitionReader,
    committed: PartitionSummary | None,
) -> MendedPartition:
    count, at = 0, None
    segments = committed.segments if committed else ()
    explained = [gap for segment in segments for gap in segment.gaps]
    doubts = committed.unproved if committed else ()
    for found in reader.found():
        record = found.record
        if doubt := _doubt(found.proof, committed):
            # One doubt for all records of a folder without a manifest, whatever lies between them.
            start = record.offset if committed is not None or at is None else at
            doubts = Unproved(start, record.offset + 1, doubt).after(doubts)
        if at is not None and record.offset > at:
            _account(writer, at, record.offset, explained, reader)
        writer.append(record)
        at = record.offset + 1
        count += 1
    if committed is not None and committed.next_offset is not None:
        _account(writer, at or 0, committed.next_offset, explained, reader)
    for damage in reader.damages:
        if damage.start_offset is not None:
            start, end = damage.start_offset, damage.end_offset or damage.start_offset + 1
            if not any(doubt.start <= start and end <= doubt.end for doubt in doubts):
                doubts = Unproved(start, end, damage.reason).after(doubts)
    writer.unproved = doubts
    stretches = tuple(str(stretch) for stretch in reader.stretches)
    return MendedPartition(
        number,
        count,
        reader.salvaged or bool(doubts),
        tuple(reader.left_out),
        stretches,
        writer.unproved,
    )


def _doubt(proof: Proof, committed: PartitionSummary | None) -> str:
    """Why a record with that *proof* may differ from what was written; empty: it is proved."""
    if committed is not None:
        return "" if proof is Proof.COMMITTED else OTHER_BYTES
    # An index is a second witness of where each record begins and ends, but not of its bytes.
    return str(proof) if proof in (Proof.BETWEEN, Proof.LAST, Proof.WALKED) else UNVOUCHED


def _account(
    writer: PartitionWriter, start: int, end: int, explained: list[Gap], reader: PartitionReader
) -> None:
    """Record why the offsets ``[start, end)`` are missing."""
    for stop, reason in _reasons(start, end, explained):
        places = ((damage.start_offset, damage.end_offset) for damage in reader.damages)
        lost = reason is GapReason.UNKNOWN and any(
            first is not None and first < stop and (last is None or start < last)
            for first, last in places
        )
        writer.skip_to(stop, GapReason.LOST if lost else reason)
        start = stop


def _reasons(start: int, end: int, explained: list[Gap]) -> Iterator[tuple[int, GapReason]]:
    for gap in explained:
        if gap.end <= start or gap.start >= end:
            continue
        if gap.start > start:
            yield gap.start, GapReason.UNKNOWN
        start = min(gap.end, end)
        yield start, gap.reason
    if start < end:
        yield end, GapReason.UNKNOWN
