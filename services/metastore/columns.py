"""Commands as columns: the position of each command's fields in the bytes of a fetch.

In a record batch, the length of a value precedes the value, and the number of headers follows it.
The last byte of the length becomes the ``:`` of the line, and the first byte of the number becomes
the line end. So a line is two pieces of the fetch, and one `take` of Arrow joins the lines of all
commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate, pairwise
from typing import overload

import numpy as np
from google_crc32c import value as crc32c

from breakglass.services.metastore.appender import BlockFindings, CommandBlock, Piece
from breakglass.services.metastore.lines import END, SEPARATOR, CommandRecord, Headers
from breakglass.services.metastore.side_file import Noted
from breakglass.services.pipeline.batches.columns import NULL, RecordColumns, Spans, taken
from breakglass.services.pipeline.batches.table import Bytes, Longs, NotByColumns

AT_ONCE = 1_000
"""Commands whose lines are built together."""


@dataclass(frozen=True, slots=True, eq=False)
class CommandColumns(CommandBlock):
    """Commands of a fetch, in the order of their offsets."""

    data: bytes
    """The fetch: records in the format of a record batch."""
    lines: Bytes
    """The same bytes with ``:`` before each value and a line end after it."""
    offsets: Longs
    timestamps: Longs
    keys: Spans
    values: Spans
    headers: Mapping[int, Headers]
    """By index in the columns, for commands with headers."""

    @classmethod
    def of(cls, columns: RecordColumns) -> CommandColumns:
        """The records of *columns*. Raises NotByColumns: a header name is not text."""
        lines = np.frombuffer(columns.data, np.uint8).copy()
        lines[columns.values.begins - 1] = ord(SEPARATOR)
        lines[columns.values.ends] = ord(END)
        # The headers by the index of their record.
        found: dict[int, list[tuple[str, bytes | None]]] = {}
        rows: Sequence[list[int]] = [
            columns.headers.records.tolist(),
            columns.headers.keys.begins.tolist(),
            columns.headers.keys.ends.tolist(),
            columns.headers.values.begins.tolist(),
            columns.headers.values.lengths.tolist(),
        ]
        for record, name, name_end, value, size in zip(*rows, strict=True):
            content = None if size == NULL else columns.data[value : value + size]
            found.setdefault(record, []).append((_name(columns.data[name:name_end]), content))
        return cls(
            columns.data,
            lines,
            columns.offsets,
            columns.timestamps,
            columns.keys,
            columns.values,
            {record: tuple(headers) for record, headers in found.items()},
        )

    def __len__(self) -> int:
        return len(self.offsets)

    @overload
    def __getitem__(self, place: int) -> CommandRecord: ...
    @overload
    def __getitem__(self, place: slice) -> CommandColumns: ...
    def __getitem__(self, place: int | slice) -> CommandRecord | CommandColumns:
        if isinstance(place, slice):
            return self._part(*place.indices(len(self))[:2])
        at = range(len(self))[place]
        return next(iter(self._part(at, at + 1)))

    def _part(self, start: int, end: int) -> CommandColumns:
        headers = {at - start: headers for at, headers in self.headers.items() if start <= at < end}
        return CommandColumns(
            self.data,
            self.lines,
            self.offsets[start:end],
            self.timestamps[start:end],
            _between(self.keys, start, end),
            _between(self.values, start, end),
            headers,
        )

    def __iter__(self) -> Iterator[CommandRecord]:
        rows = zip(
            self.offsets.tolist(),
            self._fields(self.keys),
            self._fields(self.values),
            self.timestamps.tolist(),
            strict=True,
        )
        for at, row in enumerate(rows):
            yield CommandRecord(*row, self.headers.get(at, ()))

    def _fields(self, spans: Spans) -> Iterator[bytes | None]:
        data = self.data
        for begin, size in zip(spans.begins.tolist(), spans.lengths.tolist(), strict=True):
            yield None if size == NULL else data[begin : begin + size]

    @property
    def size(self) -> int:
        """Size of all lines in bytes."""
        return int(self._sizes().sum())

    def pieces(self) -> Iterator[Piece]:
        """The lines, in pieces that fit the processor's cache."""
        for start in range(0, len(self), AT_ONCE):
            yield self._part(start, start + AT_ONCE)._lines()

    def _lines(self) -> memoryview:
        count = len(self)
        begins, ends = np.empty((2, count, 2), np.int64)
        begins[:, 0], ends[:, 0] = self.keys.begins, self.keys.ends
        begins[:, 1], ends[:, 1] = self.values.begins - 1, self.values.ends + 1
        return taken(self.lines, begins.ravel(), ends.ravel(), self.size)

    def _sizes(self) -> Longs:
        """Bytes of each line."""
        return self.keys.sizes + self.values.sizes + len(SEPARATOR + END)

    def look(self, pieces: Sequence[Piece]) -> BlockFindings:
        no_key, no_value = self.keys.lengths == NULL, self.values.lengths == NULL
        places: list[int] = np.flatnonzero(no_key | no_value).tolist()
        sizes, nulls = (
            self._sizes().tolist(),
            {at: "k" * bool(no_key[at]) + "v" * bool(no_value[at]) for at in places},
        )
        checks: list[int] = []
        returns = False
        for piece in pieces:
            lines = bytes(piece)
            checks += map(crc32c, BytesIO(lines))
            returns = returns or b"\r" in lines
        broken = len(checks) != len(sizes)
        if broken:
            lines = b"".join(pieces)
            ends = accumulate(sizes, initial=0)
            checks = [crc32c(lines[start:end]) for start, end in pairwise(ends)]
        noted = Noted(
            self.offsets.tolist(),
            self.timestamps.tolist(),
            sizes,
            self.keys.sizes.tolist(),
            checks,
            dict(self.headers),
            nulls,
        )
        return BlockFindings(noted, broken or returns or bool(nulls))


def _between(spans: Spans, start: int, end: int) -> Spans:
    return Spans(spans.begins[start:end], spans.lengths[start:end])


def _name(name: bytes) -> str:
    """The consumer reads header names as C strings, so it must read any name that is not one."""
    if b"\0" in name:
        raise NotByColumns
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise NotByColumns from None
