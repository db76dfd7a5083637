"""How the transactions of a log ended: which of its records never committed.

Read off the headers of batches where the source has them, for records tell nothing more; only
markers are decoded. Otherwise entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from breakglass.services.divergence.byte_source import TapeForm
from breakglass.services.divergence.content import NOTHING
from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.divergence.source import Reading, Source
from breakglass.services.errors import MalformedMessage
from breakglass.services.topic_backup.batch_header import read_headers
from breakglass.services.topic_backup.batches import ControlType, decode_batch

FOREVER = 2**63

Spans = dict[int, list[tuple[int, int]]]
"""Offsets ``[first, marker)`` of transactions that did not commit, by producer, in order."""


class _Step(NamedTuple):
    """What a producer did: wrote within a transaction, or ended it."""

    producer: int
    offset: int
    ended: ControlType | None = None


class _Cut(Exception):
    """The bytes end before the log does."""


def uncommitted(source: Source, reading: Reading) -> Spans:
    """The spans of everything in *source* that was aborted or is not decided."""
    try:
        return _spans(_by_headers(source, reading))
    except _Cut:
        return _spans(_by_entries(source, reading))


def _spans(steps: Iterator[_Step]) -> Spans:
    spans, begun = Spans(), dict[int, int]()
    for one in steps:
        if one.ended is None:
            begun.setdefault(one.producer, one.offset)
            continue
        first = begun.pop(one.producer, None)
        if first is not None and one.ended is ControlType.ABORT:
            spans.setdefault(one.producer, []).append((first, one.offset))
    for producer, first in begun.items():
        spans.setdefault(producer, []).append((first, FOREVER))
    return spans


def _by_headers(source: Source, reading: Reading) -> Iterator[_Step]:
    """Raises _Cut where not all of the log can be told so."""
    extent = source.extent
    tape = source.tape(extent.start, extent.end, reading)
    if tape is None or tape.form is not TapeForm.BATCHES:
        raise _Cut
    reached = extent.start
    for piece in tape.pieces():
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
