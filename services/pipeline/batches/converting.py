"""The bytes of a fetch as encoded records, by columns where that can be, else record by record.

The decoder of single records is what counts: what the columns cannot hold, what is of an older
message format, and what is damaged, is left to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from services.errors import MalformedMessage
from services.pipeline.batches.columns import RecordColumns, columns_of
from services.pipeline.batches.contents import contents_of
from services.pipeline.batches.joined import joined
from services.pipeline.batches.table import Aborted, BatchTable, delivered, read_table
from services.pipeline.batches.varints import NotByColumns
from services.pipeline.committed_log import judged
from services.pipeline.part_writer import RecordChunk, encoded_chunks
from services.topic_backup.batch_header import BatchHeader, read_headers
from services.topic_backup.older_messages import message_header
from services.topic_backup.record import Record


@dataclass(frozen=True, slots=True)
class LastBatch:
    """Where the whole batches of a fetch end."""

    next_offset: int
    """One past the last one; 0 without any."""
    epoch: int
    """The leader epoch of the last one; -1 without any."""
    cut_bytes: int
    """How much of a batch follows whose end was cut off; 0: nothing."""


@dataclass(frozen=True)
class FetchedBatches:
    """What a Fetch has answered of one partition."""

    partition: int
    data: bytes
    """Record batches; the end of the last one may be cut off."""
    aborted: Aborted
    where: str
    """How messages name the partition."""

    @cached_property
    def table(self) -> BatchTable:
        """The whole batches.

        Raises:
            NotByColumns: one is of another message format than 2, or cannot be.
        """
        return read_table(self.data)

    @cached_property
    def last(self) -> LastBatch:
        """How far the whole batches reach, of whatever message format.

        Raises:
            MalformedMessage: a batch of no message format, or lengths that cannot be.
        """
        size = len(self.data)
        try:
            table = self.table
        except NotByColumns:
            headers = read_headers(self.data, self.where, message_header).headers
            return _last_of(headers, size)
        if not len(table):
            return LastBatch(0, -1, size)
        epoch = int(table.headers["leader_epoch"][-1])
        return LastBatch(int(table.next_offsets[-1]), epoch, size - int(table.ends[-1]))


def _last_of(headers: Sequence[BatchHeader], size: int) -> LastBatch:
    if not headers:
        return LastBatch(0, -1, size)
    last = headers[-1]
    return LastBatch(last.next_offset, last.leader_epoch, size - last.size - last.position)


def chunks_of(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordChunk]:
    """The committed records of *fetched* with offsets in ``[start, end)``, encoded.

    Raises:
        MalformedMessage: bytes that are no batches.
    """
    done = start
    try:
        for chunk in _by_columns(fetched, start, end):
            yield chunk
            done = int(chunk.offsets[-1]) + 1
    except (NotByColumns, MalformedMessage):
        # What is wrong with a batch, the decoder of single records says.
        yield from exactly(fetched, done, end)


def _by_columns(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordChunk]:
    for columns in columns_in(fetched, start, end):
        encoded, bounds = joined(columns)
        yield RecordChunk(fetched.partition, columns.offsets, columns.timestamps, bounds, encoded)


def columns_in(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordColumns]:
    """The committed records of *fetched* with offsets in ``[start, end)``; never none at once.

    Raises:
        NotByColumns: their bytes have to be decoded record by record.
        MalformedMessage: bytes that are no batches.
    """
    data, where = fetched.data, fetched.where
    table = fetched.table
    kept = delivered(data, table, fetched.aborted, where)
    kept &= (table.next_offsets > start) & (table.column("base_offset") < end)
    for contents in contents_of(data, table.where(kept), where):
        columns = columns_of(contents).between(start, end)
        if len(columns):
            yield columns


def exactly(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordChunk]:
    """The same as `chunks_of`, decoded record by record."""
    return encoded_chunks(fetched.partition, records_of(fetched, start, end))


def records_of(fetched: FetchedBatches, start: int, end: int) -> Iterator[Record]:
    """The committed records of *fetched* with offsets in ``[start, end)``, decoded one by one.

    Raises:
        MalformedMessage: bytes that are no batches.
    """
    headers = read_headers(fetched.data, fetched.where, message_header).headers
    for batch in judged(fetched.data, headers, fetched.aborted, fetched.where):
        header = batch.header
        if header.next_offset > start and header.base_offset < end:
            records = batch.records(fetched.where)
            yield from (record for record in records if start <= record.offset < end)
