"""Encodes the bytes of a fetch as stored records: by columns if possible, else record by record.

The decoder of single records is the reference: it decodes what the columns cannot represent, older
message formats and damaged batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from breakglass.services.errors import MalformedMessage
from breakglass.services.pipeline.batches.columns import RecordColumns, columns_of, joined
from breakglass.services.pipeline.batches.table import (
    Aborted,
    BatchTable,
    NotByColumns,
    contents_of,
    delivered,
    read_table,
)
from breakglass.services.pipeline.committed_log import judged
from breakglass.services.pipeline.part_writer import RecordChunk, encoded_chunks
from breakglass.services.record_batches import Record, message_header, read_headers


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last whole batch of a fetch."""

    next_offset: int
    """The offset after its last offset; 0 without a complete batch."""
    epoch: int
    """Its leader epoch; -1 without a whole batch."""
    cut_bytes: int
    """The bytes of a cut batch that follow; 0 if none."""


@dataclass(frozen=True)
class FetchedBatches:
    """The batches of one partition from the answer to a Fetch."""

    partition: int
    data: bytes
    """Record batches; the last one may be cut."""
    aborted: Aborted
    where: str
    """The partition as messages name it."""

    @cached_property
    def table(self) -> BatchTable:
        """The whole batches.

        Raises NotByColumns: a batch is invalid, or not of message format 2.
        """
        return read_table(self.data)

    @cached_property
    def last(self) -> LastBatch:
        """The last whole batch, of any message format.

        Raises MalformedMessage: a batch of an unknown message format, or impossible lengths.
        """
        size = len(self.data)
        try:
            table = self.table
        except NotByColumns:
            headers = read_headers(self.data, self.where, message_header).headers
            if not headers:
                return LastBatch(0, -1, size)
            last = headers[-1]
            return LastBatch(last.next_offset, last.leader_epoch, size - last.size - last.position)
        if not len(table):
            return LastBatch(0, -1, size)
        epoch = int(table.headers["leader_epoch"][-1])
        return LastBatch(int(table.next_offsets[-1]), epoch, size - int(table.ends[-1]))


def chunks_of(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordChunk]:
    """The committed records of *fetched* with offsets in ``[start, end)``, encoded.

    Raises MalformedMessage: the bytes are not batches.
    """
    done = start
    try:
        for columns in columns_in(fetched, start, end):
            encoded, bounds = joined(columns)
            offsets, timestamps = columns.offsets, columns.timestamps
            yield RecordChunk(fetched.partition, offsets, timestamps, bounds, encoded)
            done = int(offsets[-1]) + 1
    except (NotByColumns, MalformedMessage):
        # The decoder of single records names the error of a damaged batch.
        yield from exactly(fetched, done, end)


def columns_in(fetched: FetchedBatches, start: int, end: int) -> Iterator[RecordColumns]:
    """The committed records of *fetched* with offsets in ``[start, end)``; never empty columns.

    Raises:
        NotByColumns: the bytes have to be decoded record by record.
        MalformedMessage: the bytes are not batches.
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

    Raises MalformedMessage: the bytes are not batches.
    """
    headers = read_headers(fetched.data, fetched.where, message_header).headers
    for batch in judged(fetched.data, headers, fetched.aborted, fetched.where):
        header = batch.header
        if header.next_offset > start and header.base_offset < end:
            records = batch.records(fetched.where)
            yield from (record for record in records if start <= record.offset < end)
