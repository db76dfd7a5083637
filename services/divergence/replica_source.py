"""Reads one replica's log, leader or not, as a source of raw batches decoded one at a time.

Leader epochs prove that two replicas are the same up to where their histories diverge: an epoch has
one leader, and a follower appends only where its log matches the leader's. So two logs that contain
the same epoch have the same records before it (log matching).

Record batches as a raw log: each is checked by its CRC, and no offset may be missing.
A batch's CRC does not cover its offsets. They are trusted where each batch begins where the
previous batch ended and has a record for each of its offsets, as in a log that is not compacted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from breakglass.services import patience
from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.source import (
    Extent,
    Item,
    Keep,
    RawForm,
    RawLog,
    Reach,
    Reading,
    RecordEntry,
    SourceWalk,
    entry_of,
)
from breakglass.services.errors import (
    ClusterError,
    EvidenceChanged,
    MalformedMessage,
    NotAuthorized,
    Unreachable,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.replica_records import Aborted, BatchChunk, ReplicaRecords
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import (
    EpochHistory,
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    Unknown,
    known,
)
from breakglass.services.record_batches import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    BATCH_LENGTH,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_MASK,
    BatchHeader,
    decode_batch,
)
from breakglass.services.recovery.judgement.lineage import Divergences
from breakglass.services.recovery.judgement.loss import Loss, ReplicaLoss, loss_of


@dataclass(frozen=True, slots=True)
class BatchPiece:
    """Whole batches."""

    data: bytes
    begin: int
    end: int
    limit: int
    """Batches that reach beyond this offset are not reported."""
    plain: bool
    """The raw log ends at a transactional batch: these bytes do not say how transactions ended."""

    def reach(self, begin: int, end: int, at: int) -> Reach:
        """How far the batches of ``data[begin:end]`` continue from *at*; the first may be older.

        Ends at the first batch whose CRC differs, or that lacks a record for one of its offsets.
        """
        import google_crc32c

        entries, data = 0, self.data
        while begin + BATCH_HEADER.size <= end:
            base, length, _, magic, crc, attributes, last_delta, *_, count = (
                BATCH_HEADER.unpack_from(data, begin)
            )
            behind = begin + LENGTH_END + length
            following = base + last_delta + 1
            if behind > end or not base <= at < following <= self.limit:
                break
            if magic != MAGIC or count != last_delta + 1:
                break
            if self.plain and attributes & TRANSACTIONAL_MASK:
                break
            if google_crc32c.value(data[begin + ATTRIBUTES_AT : behind]) != crc:
                break
            entries += following - at
            begin, at = behind, following
        return Reach(at, entries, begin == end)


class Whole(NamedTuple):
    """The whole batches at the beginning of some bytes."""

    size: int
    next_offset: int
    """One past the last offset of the last batch; 0 if there is no batch."""
    needed: int
    """Length that the following batch claims; 0 if there is none, or an impossible length."""


def whole_batches(data: bytes) -> Whole:
    """The whole batches that *data* begins with, by their length fields alone."""
    begin, last, size = 0, -1, len(data)
    while begin + BATCH_LENGTH.size <= size:
        _, length = BATCH_LENGTH.unpack_from(data, begin)
        needed = LENGTH_END + length
        if needed < BATCH_HEADER.size:
            return Whole(begin, _behind(data, last), 0)
        if begin + needed > size:
            return Whole(begin, _behind(data, last), needed)
        begin, last = begin + needed, begin
    return Whole(begin, _behind(data, last), 0)


def first_reaching(data: bytes, size: int, offset: int) -> int:
    """Position of the first batch that reaches beyond *offset*; *size* bytes are whole batches."""
    begin = 0
    while begin < size and _behind(data, begin) <= offset:
        begin += LENGTH_END + int(BATCH_LENGTH.unpack_from(data, begin)[1])
    return begin


def _behind(data: bytes, begin: int) -> int:
    """One past the last offset of the batch at *begin*."""
    if begin < 0:
        return 0
    base, _, _, _, _, _, last_delta, *_ = BATCH_HEADER.unpack_from(data, begin)
    return int(base) + int(last_delta) + 1


MAX_BATCH_BYTES = 64 * 1024 * 1024
"""A batch that decompresses to more is shown as unreadable, with that reason."""
CHUNK_BYTES, FIRST_CHUNK_BYTES = 4 * 1024 * 1024, 256 * 1024
"""Bytes of whole batches that one request asks for, to be compared as bytes."""
ONE_BATCH = 1
"""Bytes to ask for to get one batch: brokers send the first batch whole, whatever its size."""
GROWTH = 4

NO_RECORDS = "the broker sends no records although its log goes on"
NO_BATCH = "no batch holds these offsets"
OVERLAP = "the batch at offset {} reaches into the next one"

READ_ERRORS = (ClusterError, EvidenceChanged, Unreachable)


@dataclass(frozen=True, slots=True)
class ReplicaSource:
    """One broker's log of one partition, in the extent that was read before."""

    sender: Sender
    broker: int
    partition: TopicPartition
    extent: Extent
    gapless: bool = False
    """Every offset of the extent has a record, as in a topic that is not compacted."""
    request_seconds: float = patience.BRIEF
    committed: bool = False
    """As committed consumers read it from the leader: without markers and aborted records."""
    title: str = ""
    """The source's name, if it is not named after its broker."""

    @property
    def name(self) -> str:
        return self.title or f"b{self.broker}"

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``, markers of transactions among them.

        A damaged batch is `UnreadableRange` with its offsets, and the following batches are read.
        If the broker does not answer or its log has changed, the whole rest is unreadable.
        """
        asked = self.extent.within(start, end)
        return _Walk(self, asked, reading).items()

    def raw_log(self, start: int, end: int, reading: Reading) -> RawLog:
        """The batches as the broker sends them, from the batch that contains *start* on."""
        asked = self.extent.within(start, end)
        return RawLog(RawForm.BATCHES, self._fetched(asked, reading))

    def _fetched(self, asked: Extent, reading: Reading) -> Iterator[BatchPiece]:
        """Whole batches; ends where the broker does not answer with a whole batch."""
        records, at, size = self._records(CHUNK_BYTES, reading), asked.start, FIRST_CHUNK_BYTES
        plain = reading.plain or self.committed
        while at < asked.end:
            try:
                data = records.fetch(at, size)
            except READ_ERRORS:
                return
            whole = whole_batches(data)
            if whole.size and whole.next_offset > at:
                yield BatchPiece(data, 0, whole.size, asked.end, plain)
                at, size = whole.next_offset, CHUNK_BYTES
            elif size < whole.needed <= MAX_BATCH_BYTES:
                size = whole.needed
            else:
                return

    def _records(self, size: int, reading: Reading) -> ReplicaRecords:
        return ReplicaRecords(
            self.sender,
            self.broker,
            self.partition,
            size,
            self.request_seconds,
            reading.go_on,
            self.committed,
        )

    def chunk(self, start: int, end: int, size: int, reading: Reading) -> BatchChunk | None:
        """Some batches of ``[start, end)``; None if the log has none. Raises READ_ERRORS."""
        return next(self._records(size, reading).chunks(start, end), None)


class _Walk(SourceWalk):
    """One pass over a stretch of a replica.

    After damage the broker is asked from `_from` on, which may lie within the first readable batch.
    """

    def __init__(self, source: ReplicaSource, asked: Extent, reading: Reading) -> None:
        super().__init__(asked, reading)
        self._source = source
        self._where = f"{source.partition} on {source.name}"
        self._from = asked.start
        self._size = reading.chunk_bytes

    def items(self) -> Iterator[Item]:
        while self._at < self._end:
            try:
                chunk = self._chunk(max(self._at, self._from), self._size)
            except READ_ERRORS as error:
                # The range that a failed fetch hides; nothing yet if a smaller fetch may succeed.
                if not isinstance(error, ClusterError) or isinstance(error, NotAuthorized):
                    yield from self._unreadable(self._end, str(error))
                elif self._size > ONE_BATCH:
                    self._size = ONE_BATCH
                else:
                    self._size = self._reading.chunk_bytes
                    yield from self._unreadable(self._behind_damage(), str(error))
                continue
            if chunk is not None:
                self._size = min(self._reading.chunk_bytes, self._size * GROWTH)
                headers = chunk.headers
                unread = Aborts(chunk.aborted) if self._source.committed else None
                for place, header in enumerate(headers):
                    self._reading.go_on()
                    following = headers[place + 1].base_offset if place + 1 < len(headers) else None
                    if self._source.gapless and self._at < header.base_offset:
                        yield from self._unreadable(header.base_offset, self._missing(NO_BATCH))
                    if unread is not None and unread.hides(header):
                        self._at = max(self._at, min(header.next_offset, self._end))
                    else:
                        yield from self._batch(chunk.data, header, following)
            elif self._source.gapless:
                yield from self._unreadable(self._behind_damage(), self._missing(NO_RECORDS))
            else:
                return

    def _chunk(self, start: int, size: int) -> BatchChunk | None:
        return self._source.chunk(start, self._end, size, self._reading)

    def _behind_damage(self) -> int:
        """The first offset after `_at` from which the broker sends whole batches again.

        A broker finds batches by a sparse index, so damage can hide batches that follow it. The
        search takes growing steps, then halves them.
        """
        unreadable, step = self._at, 1
        while unreadable < self._end - 1:
            asked = min(self._at + step, self._end - 1)
            first = self._first_readable(asked)
            if first is not None:
                return self._earliest(unreadable, asked, first)
            unreadable, step = asked, 2 * step
        return self._end

    def _earliest(self, unreadable: int, readable: int, first: int) -> int:
        """The first readable offset of a range; a fetch at *readable* returns *first* onwards."""
        while readable - unreadable > 1:
            middle = (unreadable + readable) // 2
            found = self._first_readable(middle)
            if found is None:
                unreadable = middle
            else:
                readable, first = middle, found
        self._from = readable
        return first if first > self._at else readable

    def _first_readable(self, offset: int) -> int | None:
        """The first offset of the whole batches that the broker returns for *offset*."""
        try:
            chunk = self._chunk(offset, ONE_BATCH)
            if chunk is None:
                return None
            header = chunk.headers[0]
            entries_of(chunk.data, header, self._where, self._reading.keep)
        except READ_ERRORS:
            return None
        return header.base_offset if header.next_offset <= self._source.extent.end else None

    def _missing(self, what: str) -> str:
        return f"{self._where}: {what}; check its log segments with kafka-dump-log.sh"

    def _batch(self, data: bytes, header: BatchHeader, following: int | None) -> Iterator[Item]:
        """The entries of one batch not reported yet; *following* is where the next batch begins."""
        try:
            entries = entries_of(data, header, self._where, self._reading.keep)
            if following is not None and self._at < following < header.next_offset:
                raise MalformedMessage(self._missing(OVERLAP.format(header.base_offset)))
        except MalformedMessage as error:
            end = self._behind_damage() if following is None else max(following, self._at)
            if end > self._at:
                yield from self._unreadable(end, str(error))
            return
        for entry in entries:
            if self._at <= entry.offset < self._end:
                self._at = entry.offset + 1
                yield entry
        self._at = max(self._at, min(header.next_offset, self._end))


class Aborts:
    """Which batches a read_committed consumer skips, asked in the order of their offsets.

    Source: CompletedFetch.java of Kafka's consumer.
    """

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda aborted: aborted.first_offset))
        self._producers: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Whether the next batch, with *header*, is a marker or of an aborted transaction."""
        while self._ahead and self._ahead[0].first_offset <= header.last_offset:
            self._producers.add(self._ahead.popleft().producer_id)
        if header.control:
            self._producers.discard(header.producer_id)
            return True
        return header.transactional and header.producer_id in self._producers


def entries_of(data: bytes, header: BatchHeader, where: str, keep: Keep) -> Sequence[RecordEntry]:
    """The entries of one batch of *data*.

    Raises:
        MalformedMessage: the batch is damaged, or its offsets do not rise.
    """
    batch = decode_batch(data, header, where, max_batch_bytes=MAX_BATCH_BYTES)
    if any(one.offset >= other.offset for one, other in pairwise(batch.records)):
        raise MalformedMessage(
            f"{where}, batch at offset {header.base_offset}: its records are not in the order of "
            "their offsets; read it from another replica."
        )
    epoch = header.leader_epoch if header.leader_epoch >= 0 else None
    of_batch = batch.marker, header.producer_id, header.transactional
    return [entry_of(record, keep, epoch, *of_batch) for record in batch.records]


DEPTH = 64
"""Number of epochs that each replica is asked for."""
NO_ID = UUID(int=0)


def proven_by_epochs(
    client: ReadClient, left: ReplicaSource, right: ReplicaSource, deadline: Deadline
) -> Extent | None:
    """The offsets at which both replicas are the same by log matching; None if not known.

    Raises:
        Unreachable: a broker does not answer for its epochs.
    """
    ours, theirs = (_history(client, source, deadline) for source in (left, right))
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown):
        return None
    parted = parting(ours, theirs)
    start = max(left.extent.start, right.extent.start)
    return Extent(start, parted) if parted is not None and start < parted else None


def parting(ours: EpochHistory, theirs: EpochHistory) -> int | None:
    """The lower end offset of the highest common epoch; None without a common epoch."""
    ends = {range_.epoch: range_.end for range_ in ours.ranges}
    common = [range_ for range_ in theirs.ranges if range_.epoch in ends]
    return min(ends[common[-1].epoch], common[-1].end) if common else None


def _history(
    client: ReadClient, source: ReplicaSource, deadline: Deadline
) -> EpochHistory | Unknown:
    reader = client.replicas_on(source.broker)
    reader.read({source.partition: NO_ID}, deadline)
    reader.deepen([source.partition], DEPTH, deadline)
    return reader.history(source.partition)


@dataclass(frozen=True, slots=True)
class Facing:
    """Two replicas of one partition that can be read."""

    partition: TopicPartition
    left: ReplicaLog
    right: ReplicaLog
    divergence: int | Unknown
    """First offset at which the two logs may differ, by their epochs."""
    compacted: bool | Unknown
    """Offsets may be missing on one side only: each replica compacts its log by itself."""

    @property
    def extent(self) -> Extent:
        """From the first offset of either replica to the last."""
        one, other = _extent(self.left), _extent(self.right)
        return Extent(min(one.start, other.start), max(one.end, other.end))

    @property
    def begin(self) -> int:
        """Where to look first: at the divergence, or at the start if the divergence is unknown."""
        return self.extent.start if isinstance(self.divergence, Unknown) else self.divergence

    @property
    def proven_same(self) -> Extent | None:
        """Offsets that need no reading: a common epoch means the same records (log matching)."""
        if self.compacted is not False or isinstance(self.divergence, Unknown):
            return None
        start = max(_extent(self.left).start, _extent(self.right).start)
        return Extent(start, self.divergence) if start < self.divergence else None


def readable(evidence: PartitionEvidence) -> tuple[ReplicaLog, ...]:
    """The replicas whose log can be compared: both its start and its end are known."""
    return tuple(
        replica
        for replica in evidence.replicas
        if known(replica.log_start) and known(replica.log_end)
    )


def face(evidence: PartitionEvidence, left: int, right: int) -> Facing | Unknown:
    """The replicas on two brokers; Unknown, with the reason, where one cannot be read."""
    one, other = evidence.replica(left), evidence.replica(right)
    for broker, log in ((left, one), (right, other)):
        if log is None:
            return Unknown(f"b{broker} holds no replica of {evidence.partition}")
        for figure in (log.log_start, log.log_end):
            if isinstance(figure, Unknown):
                return Unknown(f"b{broker} cannot be compared: {figure.reason}")
    assert one is not None
    assert other is not None
    divergence = Divergences(evidence.replicas).between(one, other)
    return Facing(evidence.partition, one, other, divergence, evidence.settings.compacted)


def default_pair(evidence: PartitionEvidence, best: int | None) -> tuple[int, int] | Unknown:
    """The best replica, and the replica that loses most if the best is elected.

    Unknown, with the reason, where fewer than two can be read.
    """
    brokers = [log.broker for log in readable(evidence)]
    if len(brokers) < 2:
        held = ", ".join(f"b{broker}" for broker in brokers) or "none"
        return Unknown(
            f"two replicas are needed to compare, and of {evidence.partition} can be read: {held}"
        )
    chosen = best if best in brokers else brokers[0]
    loss = loss_of(evidence, chosen)
    others = [broker for broker in brokers if broker != chosen]
    return chosen, max(others, key=lambda broker: _lost(loss, broker))


def comparison_of(facing: Facing, sender: Sender) -> Comparison:
    """The comparison of two replicas, read from their brokers on demand."""
    gapless = facing.compacted is False
    left, right = (
        ReplicaSource(sender, log.broker, facing.partition, _extent(log), gapless)
        for log in (facing.left, facing.right)
    )
    return Comparison(left, right, facing.proven_same)


def _lost(loss: Loss, broker: int) -> int:
    """How many records the replica on *broker* would drop; an unknown number counts as 0."""
    found: ReplicaLoss | None = loss.of(broker)
    if found is None:
        return 0
    return sum(number for number in (found.tail, found.head) if isinstance(number, int))


def _extent(log: ReplicaLog) -> Extent:
    start = log.log_start if known(log.log_start) else 0
    end = log.log_end if known(log.log_end) else start
    return Extent(start, end)
