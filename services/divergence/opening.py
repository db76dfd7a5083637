"""Opens sources by their addresses, and pairs them for a comparison.

Two sources are compared by offset, by position, or by a restore's map of old to new offsets.

Views of a source for a comparison: by restored offset, committed records only, or by position.

Whether a transaction committed is read from batch headers where the source has batches, and from
its entries otherwise. Comparison by position ignores offsets (KLIP-31).

Opens a partition of a topic backup, a checkpoint or a rescue as a source.

A manifest says how far each segment is to be read; without a manifest the indexes say it, and
without an index the segment itself. A rescue has every record, committed or not, and the state of
each batch, so it can be compared with a log and with what committed consumers read.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from breakglass.services import patience
from breakglass.services.checkpoint.spark.copied_files import segments_store
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.files import contents
from breakglass.services.checkpoint.store.stored import StoredPartition
from breakglass.services.divergence.address import SourceAddress, SourceKind
from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.backup_source import (
    MARK_EVERY,
    READ_ERRORS,
    BackupSource,
    command,
    open_metastore,
)
from breakglass.services.divergence.log_source import LogSource, open_log
from breakglass.services.divergence.replica_source import ReplicaSource, proven_by_epochs
from breakglass.services.divergence.source import (
    NO_HEADERS,
    NOTHING,
    Content,
    Extent,
    Item,
    RawForm,
    RawLog,
    Reading,
    RecordEntry,
    Source,
    UnreadableRange,
    address,
)
from breakglass.services.errors import BreakglassError, ClusterError, MalformedMessage, UsageError
from breakglass.services.kafka.cluster.log_dirs import read_log_dirs
from breakglass.services.kafka.replicas.list_offsets import (
    DEBUGGING_REPLICA,
    EARLIEST,
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.record_batches import (
    ControlType,
    Marker,
    TimestampType,
    decode_batch,
    read_headers,
)
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import listing, records_name
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.reader import PartitionReader, pieces_of
from breakglass.services.topic_backup.segment_bytes import SegmentExtent
from breakglass.services.topic_backup.segment_index import open_index
from breakglass.services.topic_backup.segment_reader import FoundRecord
from breakglass.services.topic_backup.store.store import open_store
from breakglass.services.topic_backup.summary import EpochStart, PartitionSummary

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.pipeline.restore.offset_map import CommittedRun
    from breakglass.services.topic_backup.store.blobs import Key


def open_backup(name: str, folder: Folder, partition: int) -> BackupSource:
    """The partition in *folder*, called *name*.

    A missing segment is an unreadable stretch.

    Raises:
        UsageError: the backup has nothing of the partition.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
        StorageError: the folder cannot be listed.
    """
    manifest = read_manifest(folder)
    committed = manifest.partition(partition) if manifest else None
    if committed is None and (manifest is not None or partition not in listing(folder.names())):
        raise UsageError(f"{folder.where()} holds nothing of partition {partition}.")
    reader = PartitionReader(folder, partition, committed)
    # Without a manifest, each segment is read to the end of its file.
    stretches = tuple(
        replace(one, end=0 if one.missing else folder.size(records_name(one.prefix)) or 0)
        if one.end is None
        else one
        for one in reader.segments
    )
    epochs = _epochs(committed) if committed else ()
    extent = _backup_extent(folder, stretches, committed)
    return BackupSource(name, folder, stretches, extent, epochs, tuple(reader.left_out))


def _epochs(committed: PartitionSummary) -> tuple[EpochStart, ...]:
    """Where each epoch begins; empty if a segment's epochs are unknown.

    Otherwise the epoch before that segment would seem to cover it.
    """
    starts = [epoch for segment in committed.segments for epoch in segment.epochs]
    known = all(segment.epochs for segment in committed.segments if segment.count)
    return tuple(sorted(starts, key=lambda start: start.offset)) if known else ()


def _backup_extent(
    folder: Folder, stretches: Sequence[SegmentExtent], committed: PartitionSummary | None
) -> Extent:
    if not stretches:
        end = (committed.next_offset if committed else None) or 0
        return Extent(end, end)
    if committed is not None:
        first = committed.first_offset
        start = stretches[0].start_offset if first is None else first
        return Extent(start, max(start, committed.next_offset or 0))
    start = stretches[0].start_offset
    if (index := open_index(folder, stretches[0].prefix)) is not None:
        with index:
            start = index[0].offset if len(index) else start
    # One past the last record that the partition's index names or that a file has.
    ends = (
        one.next_offset if one.missing else _segment_end(folder, one) for one in stretches[::-1]
    )
    known = next((end for end in ends if end is not None), stretches[0].start_offset)
    return Extent(start, known)


def _segment_end(folder: Folder, segment: SegmentExtent) -> int | None:
    """One past the last record of a segment.

    Taken from the index if its last entry ends where the records file does, else from the records.
    """
    index = open_index(folder, segment.prefix)
    if index is not None:
        with index:
            last, size = index.last, folder.size(records_name(segment.prefix))
        if last is not None and last.end == size:
            return last.offset + 1
    end = None
    with suppress(*READ_ERRORS):
        for piece in pieces_of(folder, segment):
            if isinstance(piece, FoundRecord):
                end = piece.record.offset + 1
            elif piece.end_offset is not None:
                end = max(end or 0, piece.end_offset)
    return end


def open_checkpoint(address: SourceAddress) -> BackupSource:
    """The partition's copy in its checkpoint.

    Raises:
        UsageError: the checkpoint does not exist, or has no completed copy of the partition.
        StorageError, MalformedInput, UnsupportedSchema: the store cannot be read.
    """
    place, _, id = address.place.rpartition("/")
    found = BackupStore(place or "/").read(int(id))
    if found is None:
        raise UsageError(f"{place or '/'} holds no checkpoint {id}: check the address.")
    wanted = (address.folder, address.partition)
    for partition in found.partitions:
        if (
            partition.subject is not None
            and (partition.subject.topic, partition.subject.partition) == wanted
        ):
            return open_backup(
                str(address), _folder(place or "/", partition, address), address.partition
            )
    raise UsageError(f"checkpoint {id} is not of {address.topic_partition}: check the address.")


def _folder(place: str, held: StoredPartition, address: SourceAddress) -> Folder:
    """Where the copy's segments are: a topic backup that ends with the cut."""
    copy = held.counting
    if copy is None or copy.manifest is None:
        why = held.failure or f"it is {held.status}"
        raise UsageError(f"{address} holds no completed copy ({why}): name another checkpoint.")
    return segments_store(f"{place}/{contents(copy.id)}").folder(address.folder)


_MARKERS = {type_.name.lower(): type_ for type_ in ControlType}


@dataclass(frozen=True, slots=True)
class RescueSource:
    """A partition of a rescue."""

    source: BackupSource
    states: tuple[BatchState, ...]
    """The states of the batches, by offset."""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def extent(self) -> Extent:
        """The extent of the records and of the markers among them."""
        held = self.source.extent
        end = self.states[-1].last_offset + 1 if self.states else held.end
        return Extent(held.start, max(held.end, end))

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``, markers of transactions among them."""
        place = max(bisect_right(self.states, start, key=lambda state: state.base_offset) - 1, 0)
        states = iter(self.states[place:])
        state = next(states, None)
        for item in self.source.read(start, end, reading):
            while state is not None and state.last_offset < address(item):
                yield from _marker(state, start, end)
                state = next(states, None)
            yield _noted(item, state)
        while state is not None and state.base_offset < end:
            yield from _marker(state, start, end)
            state = next(states, None)

    def raw_log(self, start: int, end: int, reading: Reading) -> RawLog | None:
        """The files as a raw log; None if they have transactions, which the bytes do not show."""
        if any(state.transactional or state.marker is not None for state in self.states):
            return None
        return self.source.raw_log(start, end, reading)


def open_rescue(name: str, folder: Folder, partition: int) -> BackupSource | RescueSource:
    """The partition in *folder*: a rescue if batch states were saved with it, else a backup.

    Raises as `open_backup`.
    """
    source = open_backup(name, folder, partition)
    manifest = read_manifest(folder)
    held = manifest.partition(partition) if manifest else None
    if held is None or held.batch_log is None:
        return source
    return RescueSource(source, tuple(read_batch_log(folder, partition, held.batch_log)))


def _noted(item: Item, state: BatchState | None) -> Item:
    """A record with the transaction that its batch belongs to."""
    if not isinstance(item, RecordEntry) or state is None or item.offset < state.base_offset:
        return item
    return item._replace(producer_id=state.producer_id, transactional=state.transactional)


def _marker(state: BatchState, start: int, end: int) -> Iterator[RecordEntry]:
    """The marker that *state* describes; nothing for a batch of data."""
    if state.marker is None or not start <= state.base_offset < end:
        return
    kind = _MARKERS.get(state.marker, ControlType.UNKNOWN)
    yield RecordEntry(
        state.base_offset,
        state.leader_epoch if state.leader_epoch >= 0 else None,
        TimestampType.NONE,
        None,
        None,
        None,
        NO_HEADERS,
        Marker(kind, state.coordinator_epoch),
        state.producer_id,
        state.transactional,
    )


@dataclass(frozen=True, slots=True)
class RestoredView:
    """*topic* with the offsets of *backup*; records that others wrote in between are left out.

    A restore keeps neither leader epochs nor timestamp types, so neither counts as a difference.
    """

    topic: Source
    backup: Source
    stretches: Sequence[CommittedRun]
    """The restored stretches by old offset."""

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def extent(self) -> Extent:
        """The old offsets that were restored."""
        if not self.stretches:
            return Extent(self.backup.extent.start, self.backup.extent.start)
        return Extent(self.stretches[0].first_offset, self.stretches[-1].next_offset)

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The restored records of the old offsets ``[start, end)``."""
        for stretch in self.stretches:
            if stretch.first_offset < end and start < stretch.next_offset:
                yield from self._stretch(stretch, start, end, reading)

    def raw_log(self, start: int, end: int, reading: Reading) -> None:
        """None: the bytes contain the new offsets."""

    def _stretch(self, one: CommittedRun, start: int, end: int, reading: Reading) -> Iterator[Item]:
        news = self.topic.read(one.new_offset, one.new_offset + one.count, reading)
        head = next(news, None)
        stored = self.backup.read(one.first_offset, one.next_offset, replace(reading, keep=NOTHING))
        for number, old in enumerate(stored):
            if isinstance(old, UnreadableRange):
                low, high = max(old.start, start), min(one.next_offset, end)
                if low < high:
                    yield UnreadableRange(low, high, f"the backup tells no offsets: {old.reason}")
                return
            if old.offset >= end:
                return
            new = one.new_offset + number
            while (
                head is not None
                and (head.offset + 1 if isinstance(head, RecordEntry) else head.end) <= new
            ):
                head = next(news, None)
            if old.offset < start or head is None:
                continue
            if isinstance(head, UnreadableRange):
                if head.start <= new:
                    yield UnreadableRange(old.offset, old.offset + 1, head.reason)
            elif head.offset == new:
                kind = head.timestamp_type
                if old.timestamp_type is TimestampType.LOG_APPEND and kind is TimestampType.CREATE:
                    kind = TimestampType.LOG_APPEND
                yield head._replace(offset=old.offset, epoch=None, timestamp_type=kind)


FOREVER = 2**63

Spans = dict[int, list[tuple[int, int]]]
"""Offsets ``[first, marker)`` of transactions that did not commit, by producer, in order."""


class _Step(NamedTuple):
    """What a producer did: write within a transaction, or end a transaction."""

    producer: int
    offset: int
    ended: ControlType | None = None


class _Cut(Exception):
    """The bytes end before the log does."""


def uncommitted(source: Source, reading: Reading) -> Spans:
    """The spans of *source* whose transactions were aborted or are undecided."""
    try:
        return _spans(_by_headers(source, reading))
    except _Cut:
        return _spans(_by_entries(source, reading))


def _spans(steps: Iterator[_Step]) -> Spans:
    spans, begun = Spans(), dict[int, int]()
    for step in steps:
        if step.ended is None:
            begun.setdefault(step.producer, step.offset)
            continue
        first = begun.pop(step.producer, None)
        if first is not None and step.ended is ControlType.ABORT:
            spans.setdefault(step.producer, []).append((first, step.offset))
    for producer, first in begun.items():
        spans.setdefault(producer, []).append((first, FOREVER))
    return spans


def _by_headers(source: Source, reading: Reading) -> Iterator[_Step]:
    """The steps by batch headers. Raises _Cut if the headers do not cover the whole log."""
    extent = source.extent
    raw = source.raw_log(extent.start, extent.end, reading)
    if raw is None or raw.form is not RawForm.BATCHES:
        raise _Cut
    reached = extent.start
    for piece in raw.pieces:
        try:
            data = piece.data[piece.begin : piece.end]
            headers = read_headers(data, source.name).headers
            for header in headers:
                if header.base_offset < reached and reached != extent.start:
                    raise _Cut
                reached = header.next_offset
                if header.control:
                    marker = decode_batch(data, header, source.name).marker
                    if marker is not None:
                        yield _Step(header.producer_id, header.base_offset, marker.type)
                elif header.transactional:
                    yield _Step(header.producer_id, header.base_offset)
        except MalformedMessage:
            raise _Cut from None
    if reached < extent.end:
        raise _Cut


def _by_entries(source: Source, reading: Reading) -> Iterator[_Step]:
    extent = source.extent
    for item in source.read(extent.start, extent.end, replace(reading, keep=NOTHING)):
        if isinstance(item, RecordEntry) and item.transactional:
            kind = None if item.marker is None else item.marker.type
            yield _Step(item.producer_id, item.offset, kind)


@dataclass
class CommittedView:
    """*source* without markers and without records that did not commit.

    How transactions ended is looked up once, and only if there are any: it reads all batches.
    """

    source: Source
    uncommitted: bool = False
    """Leave out only markers, and show uncommitted records."""
    _hidden: Spans | None = None
    _looking: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def extent(self) -> Extent:
        return self.source.extent

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The committed records in ``[start, end)``, and the stretches *source* cannot read."""
        for item in self.source.read(start, end, reading):
            if isinstance(item, RecordEntry) and (
                item.marker is not None or self._hides(item, reading)
            ):
                continue
            yield item

    def raw_log(self, start: int, end: int, reading: Reading) -> RawLog | None:
        """The raw log of *source*, up to the first transactional batch."""
        return self.source.raw_log(start, end, replace(reading, plain=True))

    def _hides(self, entry: RecordEntry, reading: Reading) -> bool:
        if not entry.transactional or self.uncommitted:
            return False
        with self._looking:
            if self._hidden is None:
                self._hidden = uncommitted(self.source, reading)
        spans = self._hidden.get(entry.producer_id, [])
        place = bisect_right(spans, (entry.offset, FOREVER)) - 1
        return place >= 0 and entry.offset < spans[place][1]


@dataclass(frozen=True, slots=True)
class PositionView:
    """The records of *source*, counted from 1, with only their key and value.

    An unreadable stretch takes one position, so the positions after it may be shifted.
    """

    source: Source
    extent: Extent
    marks: tuple[int, ...]
    """The offsets of the first record and of every thousandth."""

    @property
    def name(self) -> str:
        return self.source.name

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records at the positions of ``[start, end)``."""
        asked = self.extent.within(start, end)
        if asked.start >= asked.end:
            return
        number = (asked.start - 1) // MARK_EVERY
        position = number * MARK_EVERY + 1
        whole = self.source.extent.end
        for item in _counted(self.source.read(self.marks[number], whole, reading)):
            if position >= asked.end:
                return
            if position >= asked.start:
                yield _placed(item, position)
            position += 1

    def raw_log(self, start: int, end: int, reading: Reading) -> None:
        """None: the bytes do not show the position of a record."""


def by_position(source: Source, reading: Reading) -> PositionView:
    """*source* by position; reads all of *source* once, to count."""
    marks: list[int] = []
    count = 0
    extent = source.extent
    for item in _counted(source.read(extent.start, extent.end, replace(reading, keep=NOTHING))):
        if count % MARK_EVERY == 0:
            marks.append(item.offset if isinstance(item, RecordEntry) else item.start)
        count += 1
    return PositionView(source, Extent(1, count + 1), tuple(marks))


def _counted(items: Iterator[Item]) -> Iterator[Item]:
    """The items that have a position: records, and stretches that could not be read."""
    return (item for item in items if isinstance(item, UnreadableRange) or item.marker is None)


def _placed(item: Item, position: int) -> Item:
    if isinstance(item, UnreadableRange):
        return UnreadableRange(position, position + 1, f"offset {item.start:,}: {item.reason}")
    plain = command(position, None, None, NOTHING)
    return plain._replace(key=_line(item.key), value=_line(item.value))


def _line(content: Content | None) -> Content:
    return Content(b"", 0) if content is None else content


@dataclass(frozen=True, slots=True)
class Opener:
    """What sources are opened with."""

    client: Callable[[], ReadClient]
    """Gives a client that knows the cluster's brokers; called only if a source needs it."""
    key: Key | None = None
    """The key of encrypted backups."""
    state: Path | None = None
    """Folder of a restore's map of old to new offsets; None: offsets are compared as they are."""
    by_epochs: bool = False
    """Do not read replicas up to where their leader epochs diverge: they are the same there."""

    def open(self, address: SourceAddress) -> Source:
        """The source at *address*, in the extent it has now.

        Raises:
            UsageError: the source does not exist.
            StorageError, MalformedInput, UnsupportedSchema: the source cannot be read.
            Unreachable, ClusterError: the broker does not answer where the log ends.
        """
        if address.kind is SourceKind.METASTORE:
            return open_metastore(str(address), Path(address.place))
        if address.kind is SourceKind.CHECKPOINT:
            return open_checkpoint(address)
        if address.kind.stored:
            store = open_store(address.place, self.key)
            if not store.names(address.folder):
                raise UsageError(
                    f"{store.where(address.folder)} holds no backup: check the address."
                )
            opened = open_rescue if address.kind is SourceKind.RESCUE else open_backup
            return opened(str(address), store.folder(address.folder), address.partition)
        if address.kind is SourceKind.LOG:
            path = Path(address.place) / f"{address.folder}-{address.partition}"
            return open_log(str(address), path)
        client, deadline = self.client(), Deadline.after(patience.COMMAND)
        partition = address.topic_partition
        state = _state(client, partition, deadline)
        leads = address.kind is SourceKind.TOPIC
        broker = _leader(state) if leads else int(address.place)
        if broker not in state.assignment and not leads:
            held = ", ".join(map(str, state.assignment))
            raise UsageError(f"{address}: b{broker} has no replica of it, only {held} have.")
        extent = _extent(client, broker, partition, deadline, committed=leads)
        compacted = client.settings([partition.topic], deadline)[partition.topic].compacted
        return ReplicaSource(
            client.sender,
            broker,
            partition,
            extent,
            gapless=compacted is False,
            committed=leads,
            title=str(address),
        )

    def proven_same(self, left: Source, right: Source) -> Extent | None:
        """The offsets at which two replicas are the same by their epochs; None if not proven."""
        if not (isinstance(left, ReplicaSource) and isinstance(right, ReplicaSource)):
            return None
        if left.committed or right.committed or not (left.gapless and right.gapless):
            return None
        return proven_by_epochs(self.client(), left, right, Deadline.after(patience.COMMAND))


def _state(client: ReadClient, partition: TopicPartition, deadline: Deadline) -> PartitionState:
    for state in client.partitions((), deadline, (partition,)):
        if state.partition == partition:
            return state
    raise UsageError(f"the cluster has no partition {partition}: check topic and number.")


def _leader(state: PartitionState) -> int:
    if state.leader is None:
        raise ClusterError(
            f"{state.partition} is offline, so it cannot be read as a topic: compare its replicas, "
            f"as replica:{state.assignment[0]}/{state.partition.topic}/{state.partition.partition}"
        )
    return state.leader


def _extent(
    client: ReadClient,
    broker: int,
    partition: TopicPartition,
    deadline: Deadline,
    *,
    committed: bool,
) -> Extent:
    replica = LEADER_ONLY if committed else DEBUGGING_REPLICA
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED

    def ask(timestamp: int, isolation: int) -> int:
        told = list_offsets(
            client.sender,
            broker,
            [partition],
            timestamp,
            deadline,
            replica_id=replica,
            isolation_level=isolation,
        )[partition]
        if isinstance(told, OffsetError):
            raise ClusterError(f"{partition} on b{broker}: {told.reason}")
        return told.offset

    start = ask(EARLIEST, READ_UNCOMMITTED)
    return Extent(start, max(start, ask(LATEST, isolation)))


def refusal(left: SourceAddress, right: SourceAddress) -> str:
    """Why the two cannot be compared; empty where they can."""
    one, other = left.topic_partition, right.topic_partition
    if SourceKind.METASTORE in (left.kind, right.kind):
        others = [each for each in (left, right) if each.kind is not SourceKind.METASTORE]
        if all(each.partition == 0 for each in others):
            return ""
        return f"{left} and {right} have no positions in common: a command topic is a partition 0"
    if one == other:
        return ""
    return (
        f"{left} and {right} have no offsets in common, for they are of {one} and {other}; a topic "
        "restored under another name is compared with its backup by `breakglass diff --progress`, "
        "all of it by `breakglass backup verify --against`"
    )


def compare(opener: Opener, left: SourceAddress, right: SourceAddress) -> Comparison:
    """The comparison of two sources; reads none of their records yet.

    If one side has only committed records, only committed records of the other are compared.

    Raises:
        UsageError: the sources cannot be compared, or one does not exist.
        BreakglassError: as `Opener.open`.
    """
    if opener.state is not None:
        return compare_restored(opener, left, right)
    why = refusal(left, right)
    if why:
        raise UsageError(f"{why}.")
    one, other = opener.open(left), opener.open(right)
    if SourceKind.METASTORE in (left.kind, right.kind):
        return Comparison(_by_position(left, one), _by_position(right, other))
    if left.kind.committed != right.kind.committed:
        one = one if left.kind.committed else CommittedView(one)
        other = other if right.kind.committed else CommittedView(other)
    elif SourceKind.RESCUE in (left.kind, right.kind) and left.kind is not right.kind:
        # A rescue saves that there was a marker, but not the content of the control record.
        one, other = CommittedView(one, uncommitted=True), CommittedView(other, uncommitted=True)
    proven = opener.proven_same(one, other) if opener.by_epochs else None
    return Comparison(one, other, proven)


def compare_restored(opener: Opener, left: SourceAddress, right: SourceAddress) -> Comparison:
    """The comparison of a backup with the topic restored from it, by the backup's offsets.

    Raises:
        UsageError: they are not a backup and a topic, or the restore's map is not in *state*.
        BreakglassError: as `Opener.open`.
    """
    kinds = {left.kind, right.kind}
    if SourceKind.BACKUP not in kinds or not kinds & {
        SourceKind.TOPIC,
        SourceKind.REPLICA,
        SourceKind.LOG,
    }:
        raise UsageError(
            "--progress is for a backup and the topic, replica or log restored from it."
        )
    one, other = opener.open(left), opener.open(right)
    if left.kind is SourceKind.BACKUP:
        return Comparison(one, _restored(opener, right, other, one))
    return Comparison(_restored(opener, left, one, other), other)


def _restored(opener: Opener, address: SourceAddress, topic: Source, backup: Source) -> Source:
    from breakglass.services.pipeline.restore.offset_map import read_log

    assert opener.state is not None
    noted = opener.state / address.folder / f"partition-{address.partition}.jsonl"
    stretches = read_log(noted).runs
    if not stretches:
        raise UsageError(
            f"{noted} tells of no restored records: name the --progress of that restore."
        )
    view = topic if address.kind.committed else CommittedView(topic)
    return RestoredView(view, backup, stretches)


def _by_position(address: SourceAddress, source: Source) -> Source:
    if address.kind is SourceKind.METASTORE:
        return source
    committed = source if address.kind.committed else CommittedView(source)
    return by_position(committed, Reading())


def bytes_of(source: Source) -> int | None:
    """The stored bytes of *source*; None if they are unknown or *source* cannot be divided.

    Only a source that can be read from any address is divided. A log must be read whole to find
    its committed records.
    """
    if isinstance(source, BackupSource):
        names = [records_name(stretch.prefix) for stretch in source.stretches]
        return sum(source.folder.size(name) or 0 for name in names)
    if isinstance(source, LogSource):
        return sum(
            segment.path.stat().st_size for segment in source.segments if segment.path.exists()
        )
    if isinstance(source, ReplicaSource):
        deadline = Deadline.after(patience.REQUEST)
        try:
            told = read_log_dirs(source.sender, source.broker, [source.partition], deadline)
        except BreakglassError:
            return None
        held = told.get(source.partition)
        if held is None or held.future or not isinstance(held.size, int):
            return None
        return held.size
    return None
