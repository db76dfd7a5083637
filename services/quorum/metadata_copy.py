"""Reads one copy of the metadata log from a folder ``__cluster_metadata-0``, of whatever node.

Each controller has one, and so has each broker, which follows the log as an observer. The folder is
only read. It has segments, and snapshots, ``<offset>-<epoch>.checkpoint``, each the state of
the cluster by the records before that offset; segments before a snapshot are deleted in time.

A batch's CRC does not cover its offset and its epoch. A batch counts if its CRC is right, it begins
where the one before it ends, its records can be decoded and are one for each offset, and its epoch
is no lower than that of the one before it. Reading ends at the first batch that does not count; the
copy says why.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from breakglass.services.errors import BreakglassError, MalformedMessage, StorageError
from breakglass.services.model import Unknown
from breakglass.services.quorum.records import decode_control, decode_record
from breakglass.services.record_batches import (
    BATCH_HEADER,
    CONTROL_KEY,
    LENGTH_END,
    MAX_BATCH_BYTES,
    BatchHeader,
    ControlType,
    RecordBatch,
    decode_batch,
    read_headers,
)
from breakglass.services.recovery.rescue.broker_folder import META, running_broker
from breakglass.services.regular_file import open_regular, read_regular
from breakglass.services.topic_backup.folder import storage_errors

METADATA_FOLDER = "__cluster_metadata-0"
QUORUM_STATE = "quorum-state"
MOST_BYTES = 1024 * 1024
REMOVED_TOPIC = b"\x01\x09"
"""How a RemoveTopicRecord begins: frame version and api key."""
_SEGMENT = re.compile(r"([0-9]{20})\.log", re.ASCII)
_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)

ScannedBatch = tuple[BatchHeader, bytes, int]
"""A header, the whole batch, and its position in the file."""


@dataclass(frozen=True, slots=True)
class CopyDamage:
    """A file that could not be read to its end, or that is missing."""

    file: str
    reason: str
    of_log: bool = False
    """Records after the end of the copy may be in the file, and are not read."""

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


class LogPosition(NamedTuple):
    """The end of a log as raft ranks logs: by the epoch of the last record, then by the offset."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters that a copy names."""

    dynamic: bool
    """By a VotersRecord; else by what the node last took from controller.quorum.voters."""
    ids: tuple[int, ...]

    def __str__(self) -> str:
        return f"{','.join(map(str, self.ids))} ({'dynamic' if self.dynamic else 'static'})"


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """A file with the state of the cluster by the records before an offset."""

    path: Path
    offset: int
    epoch: int
    """The epoch of the last record before the offset."""
    written_ms: int | None = None
    """The time of the last record that it contains."""
    voters: VoterSet | None = None
    damage: CopyDamage | None = None

    def read(self) -> Iterator[RecordBatch]:
        """Its batches, decoded; their offsets are not those of the log."""
        for header, content, _ in _batches(self.path):
            yield decode_batch(content, header, str(self.path))


class Batch(NamedTuple):
    """What a comparison looks at."""

    offset: int
    next_offset: int
    epoch: int
    crc: int


@dataclass(slots=True)
class LogBatches:
    """The batches of a log in columns, as a log may have a million of them."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    epochs: array[int] = field(default_factory=lambda: array("i"))
    crcs: array[int] = field(default_factory=lambda: array("I"))
    positions: array[int] = field(default_factory=lambda: array("q"))
    files: list[tuple[int, Path]] = field(default_factory=list)
    """Each segment with the number of its first batch."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> Batch:
        columns = (self.starts, self.ends, self.epochs, self.crcs)
        return Batch(*(column[number] for column in columns))

    def add(self, header: BatchHeader, position: int) -> None:
        self.starts.append(header.base_offset)
        self.ends.append(header.next_offset)
        self.epochs.append(header.leader_epoch)
        self.crcs.append(header.crc)
        self.positions.append(position)

    def drop_last(self) -> None:
        for column in (self.starts, self.ends, self.epochs, self.crcs, self.positions):
            column.pop()
        while len(self.files) > 1 and self.files[-1][0] > len(self):
            self.files.pop()

    def number_at(self, offset: int) -> int:
        """The number of the first batch that ends after *offset*."""
        return bisect_right(self.ends, offset)

    def read(self, start: int, end: int) -> Iterator[RecordBatch]:
        """The batches from the one that contains *start* to the one before *end*, decoded.

        Raises as `scan`.
        """
        for path, header, content in self.scan(start, end):
            yield decode_batch(content, header, str(path))

    def scan(self, start: int, end: int) -> Iterator[tuple[Path, BatchHeader, bytes]]:
        """The same batches as they are on disk, each with its segment and its header.

        Raises:
            StorageError, MalformedMessage: the files are no longer what they were.
        """
        number = self.number_at(start)
        while number < len(self) and self.starts[number] < end:
            place = bisect_right(self.files, number, key=lambda one: one[0]) - 1
            path = self.files[place][1]
            behind = self.files[place + 1][0] if place + 1 < len(self.files) else len(self)
            for header, content, _ in _batches(path, self.positions[number]):
                if (header.base_offset, header.crc) != (self.starts[number], self.crcs[number]):
                    break
                yield path, header, content
                number += 1
                if number == behind or self.starts[number] >= end:
                    # What follows may be damaged.
                    break
            if number < behind and self.starts[number] < end:
                raise StorageError(f"{path} changed while it was read: run the command again.")


@dataclass(frozen=True)
class MetadataCopy:
    """A copy of the metadata log, as it was when it was read."""

    path: Path
    cluster_id: str | Unknown
    node: int | Unknown
    directory_id: str | Unknown
    quorum_epoch: int | Unknown
    """The leader epoch in its quorum-state."""
    running: bool
    """A process holds the .lock of its folder: the log may grow while it is read."""
    snapshots: tuple[MetadataSnapshot, ...]
    """By offset."""
    batches: LogBatches
    voters: VoterSet | Unknown
    newest_ms: int | Unknown
    """The time of the newest record."""
    damage: tuple[CopyDamage, ...]
    deleted: frozenset[UUID] = frozenset()
    """Topics that its log deletes: an id is never used again."""

    @property
    def log_damage(self) -> CopyDamage | None:
        """What ends its log before the last record in the files, if anything does."""
        return next((one for one in self.damage if one.of_log), None)

    @property
    def usable_snapshots(self) -> tuple[MetadataSnapshot, ...]:
        return tuple(one for one in self.snapshots if one.damage is None)

    @cached_property
    def end(self) -> LogPosition:
        """One past the last record: that of the last batch, or the last one in a snapshot."""
        ends = [LogPosition(one.epoch, one.offset) for one in self.usable_snapshots]
        if len(self.batches):
            ends.append(LogPosition(self.batches[-1].epoch, self.batches[-1].next_offset))
        return max(ends, key=lambda one: one.offset, default=LogPosition(0, 0))

    @property
    def log_start(self) -> int:
        """The first offset of which it has a batch; the end of the log if it has no batch."""
        return self.batches.starts[0] if len(self.batches) else self.end.offset

    def epoch_before(self, offset: int) -> int | None:
        """The epoch of the record before *offset*; None: neither batch nor snapshot says it."""
        number = self.batches.number_at(offset - 1)
        if number < len(self.batches) and self.batches.starts[number] < offset:
            return self.batches.epochs[number]
        return next((one.epoch for one in self.usable_snapshots if one.offset == offset), None)


def metadata_folder(path: Path) -> Path | None:
    """The folder of a metadata log that *path* is, or has in it; None: neither."""
    found = path if path.name == METADATA_FOLDER else path / METADATA_FOLDER
    return found if found.is_dir() else None


def read_copy(path: Path) -> MetadataCopy:
    """The copy in *path*, a folder that `metadata_folder` found.

    Raises:
        StorageError: the folder cannot be listed.
    """
    with storage_errors(str(path)):
        names = sorted(one.name for one in path.iterdir())
    log = _ReadLog(path, [name for name in names if _SEGMENT.fullmatch(name)])
    found = [match for name in names if (match := _SNAPSHOT.fullmatch(name))]
    snapshots = tuple(_snapshot(path / one[0], int(one[1]), int(one[2])) for one in found)
    damage = [*log.damage, *(one.damage for one in snapshots if one.damage)]
    whole = [one for one in snapshots if one.damage is None]
    begins = log.batches.starts[0] if len(log.batches) else None
    if begins is None and not whole:
        reason = "neither a batch nor a snapshot can be read"
        damage.append(CopyDamage(path.name, reason, of_log=True))
    elif begins and not any(one.offset >= begins for one in whole):
        reason = f"the log begins at offset {begins:,}, and no snapshot has what came before"
        damage.append(CopyDamage(path.name, reason))
    meta = meta_properties(path)
    quorum_epoch, static = _quorum_state(path / QUORUM_STATE)
    missing = {META: meta["cluster.id"], QUORUM_STATE: quorum_epoch}
    damage += [
        CopyDamage(name, value.reason)
        for name, value in missing.items()
        if isinstance(value, Unknown)
    ]
    times = [one.written_ms for one in whole if one.written_ms is not None]
    node = meta["node.id"]
    return MetadataCopy(
        path=path,
        cluster_id=meta["cluster.id"],
        node=int(node) if isinstance(node, str) and node.isdecimal() else Unknown(f"no {META}"),
        directory_id=meta["directory.id"],
        quorum_epoch=quorum_epoch,
        running=running_broker(path) is not None,
        snapshots=snapshots,
        batches=log.batches,
        voters=_voters(log.voters, whole, static),
        newest_ms=max(
            [*log.times, *times],
            default=Unknown("the log has neither a readable batch nor a snapshot"),
        ),
        damage=tuple(damage),
        deleted=frozenset(log.deleted),
    )


class _ReadLog:
    """Reads the segments of a log, up to the first damage."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.batches = LogBatches()
        self.damage: list[CopyDamage] = []
        self.voters: VoterSet | None = None
        self.times: list[int] = []
        self.deleted: set[UUID] = set()
        for name in names:
            begins = int(name.removesuffix(".log"))
            if len(self.batches) and begins != self.batches.ends[-1]:
                missing = f"no segment has the offsets from {self.batches.ends[-1]:,} to {begins:,}"
                self.damage.append(CopyDamage(name, missing, of_log=True))
                return
            self.batches.files.append((len(self.batches), path / name))
            try:
                self._read(path / name, begins)
            except BreakglassError as error:
                self.damage.append(CopyDamage(name, str(error), of_log=True))
                return

    def _read(self, path: Path, begins: int) -> None:
        batches = self.batches
        for header, content, position in _batches(path):
            at = f"byte {position:,}"
            expected = batches.ends[-1] if len(batches) else begins
            if header.base_offset != expected:
                raise MalformedMessage(
                    f"{at}: a batch claims offset {header.base_offset:,} in place of {expected:,}"
                )
            if header.count != header.next_offset - header.base_offset:
                raise MalformedMessage(f"{at}: a batch lacks records of its offsets")
            if len(batches) and header.leader_epoch < batches.epochs[-1]:
                if len(batches) == 1 or batches.epochs[-2] <= header.leader_epoch:
                    # No CRC covers the epoch: that of the batch before is as likely the wrong one.
                    claimed = batches.epochs[-1]
                    batches.drop_last()
                    raise MalformedMessage(
                        f"{at}: a batch claims epoch {header.leader_epoch} after {claimed}, so "
                        "neither counts"
                    )
                raise MalformedMessage(
                    f"{at}: a batch claims epoch {header.leader_epoch} after {batches.epochs[-1]}"
                )
            # A node loads every batch: one that cannot be decoded ends what the copy is good for.
            batch = decode_batch(content, header, at)
            if header.control:
                self.voters = _voters_in(batch) or self.voters
            for record in batch.records:
                if record.value and record.value.startswith(REMOVED_TOPIC):
                    match decode_record(record.value):
                        case _, fields:
                            self.deleted.add(fields.topic_id)
            batches.add(header, position)
            self.times[:] = [header.max_timestamp]


def _batches(path: Path, position: int = 0) -> Iterator[ScannedBatch]:
    """The batches of a file from *position* on; `decode_batch` checks their CRC.

    Raises:
        MalformedMessage: the bytes at a position are not a batch, or not a whole one.
        StorageError: the file cannot be read.
    """
    with storage_errors(str(path)), open_regular(path) as file:
        file.seek(position)
        while head := file.read(BATCH_HEADER.size):
            at = f"byte {position:,}"
            content = head + file.read(_claimed(head, at) - len(head))
            found = read_headers(content, at)
            if not found.headers:
                raise MalformedMessage(f"{at}: the last batch is torn")
            header = found.headers[0]
            yield header, content, position
            position += header.size


def _claimed(head: bytes, at: str) -> int:
    """The size that a batch claims to have."""
    if len(head) < BATCH_HEADER.size:
        raise MalformedMessage(f"{at}: the last batch is torn")
    size = LENGTH_END + int.from_bytes(head[8:LENGTH_END], "big", signed=True)
    if not BATCH_HEADER.size <= size <= MAX_BATCH_BYTES:
        raise MalformedMessage(f"{at}: the bytes are not a batch")
    return size


def _snapshot(path: Path, offset: int, epoch: int) -> MetadataSnapshot:
    written: int | None = None
    voters: VoterSet | None = None
    kinds: list[ControlType] = []
    try:
        for header, content, _ in _batches(path):
            batch = decode_batch(content, header, path.name)
            if not header.control:
                continue
            for kind, value in _controls(batch):
                kinds.append(kind)
                if kind is ControlType.SNAPSHOT_HEADER:
                    match decode_control("SnapshotHeaderRecord", value):
                        case _, fields:
                            written = fields.last_contained_log_timestamp
            voters = _voters_in(batch) or voters
        if kinds[:1] != [ControlType.SNAPSHOT_HEADER] or kinds[-1] != ControlType.SNAPSHOT_FOOTER:
            raise MalformedMessage("it lacks its header or its footer, so it was not finished")
    except BreakglassError as error:
        return MetadataSnapshot(path, offset, epoch, damage=CopyDamage(path.name, str(error)))
    return MetadataSnapshot(path, offset, epoch, written or None, voters)


def _controls(batch: RecordBatch) -> Iterator[tuple[ControlType, bytes]]:
    """The control records of a batch: a batch of raft may have several."""
    for record in batch.records:
        if record.key and len(record.key) >= CONTROL_KEY.size:
            number = CONTROL_KEY.unpack_from(record.key)[1]
            kind = ControlType(number) if number in set(ControlType) else ControlType.UNKNOWN
            yield kind, record.value or b""


def _voters_in(batch: RecordBatch) -> VoterSet | None:
    found = None
    for kind, value in _controls(batch):
        if kind is ControlType.KRAFT_VOTERS:
            match decode_control("VotersRecord", value):
                case _, fields:
                    found = VoterSet(True, tuple(one.voter_id for one in fields.voters))
    return found


def _voters(
    in_log: VoterSet | None, snapshots: Sequence[MetadataSnapshot], static: object
) -> VoterSet | Unknown:
    """The latest set of voters: raft takes it up to the end of the log, committed or not."""
    named = [one.voters for one in snapshots if one.voters]
    if in_log or named:
        return in_log or named[-1]
    listed = static if isinstance(static, list) else []
    ids = [one["voterId"] for one in listed if isinstance(one, dict) and "voterId" in one]
    if ids and all(isinstance(voter, int) for voter in ids):
        return VoterSet(False, tuple(ids))
    return Unknown(f"neither a VotersRecord nor {QUORUM_STATE} names voters")


def meta_properties(path: Path) -> Mapping[str, str | Unknown]:
    """What ``meta.properties`` says, in the folder of a metadata log or in the one above."""
    names = ("cluster.id", "node.id", "directory.id")
    for folder in (path.parent, path):
        try:
            text = read_regular(folder / META, MOST_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            return dict.fromkeys(names, Unknown(f"it cannot be read ({error})"))
        pairs = dict(line.partition("=")[::2] for line in text.splitlines())
        return {name: pairs.get(name, "").strip() or Unknown(f"no {name}") for name in names}
    return dict.fromkeys(names, Unknown("the file is missing"))


def _quorum_state(path: Path) -> tuple[int | Unknown, object]:
    """The last leader epoch that raft noted, and the voters."""
    try:
        match json.loads(read_regular(path, MOST_BYTES)):
            case {"leaderEpoch": int(epoch), **others}:
                return epoch, others.get("currentVoters")
        reason = "it has no leaderEpoch"
    except FileNotFoundError:
        reason = "the file is missing"
    except (OSError, ValueError, RecursionError) as error:
        reason = f"it cannot be read ({error})"
    return Unknown(reason), None
