"""Writes records that were marked: as JSON lines, or as a backup in the Kafka Backup format."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from breakglass.services.browse.query import WHOLE
from breakglass.services.divergence.entry import Content, RecordEntry
from breakglass.services.divergence.source import Reading, Source
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.record import BytesAs, as_json
from breakglass.services.topic_backup.topic_writer import TopicWriter

JSON_LINES = (".jsonl", ".ndjson")


def export(
    source: Source, partition: TopicPartition, marked: Collection[int], to: Path, reading: Reading
) -> int:
    """Write the records at the offsets *marked* to *to*; return how many were written.

    A file name that ends like one of JSON lines makes a JSON lines file, in which bytes that are
    not UTF-8 are base64. Any other name is the folder of a new backup.

    Raises:
        UsageError: *to* exists already.
        StorageError: *to* cannot be written.
    """
    if os.path.lexists(to):
        raise UsageError(f"{to} is there already: name another file or folder.")
    records = records_at(source, marked, reading)
    if to.suffix in JSON_LINES:
        number = 0
        with storage_errors(str(to)):
            descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                for number, record in enumerate(records, 1):  # noqa: B007 -- used after the loop
                    file.write(json.dumps(_document(record)) + "\n")
        return number
    with TopicWriter(to, TopicIdentity(partition.topic)) as writer:
        written = writer.partition(partition.partition)
        number = 0
        for number, record in enumerate(records, 1):  # noqa: B007 -- used after the loop
            written.append(record)
        writer.commit()
    return number


def record_text(entry: RecordEntry) -> str | None:
    """*entry* as a JSON line has it; None for a marker, and where only its beginning is kept."""
    parts = (entry.key, entry.value, *(part for pair in entry.headers.kept for part in pair))
    cut = entry.headers.digest or any(part is not None and part.digest for part in parts)
    return None if cut or entry.marker is not None else json.dumps(_document(_record(entry)))


def _document(record: Record) -> dict[str, object]:
    form = BytesAs.UTF8 if _is_text(record) else BytesAs.BASE64
    return {"bytes": form.value, **as_json(record, form)}


def records_at(source: Source, marked: Collection[int], reading: Reading) -> Iterator[Record]:
    """The whole records of *source* at the offsets *marked*, without missing or unreadable ones."""
    whole = replace(reading, keep=WHOLE)
    for start, end in runs(marked):
        for item in source.read(start, end, whole):
            if isinstance(item, RecordEntry) and item.marker is None:
                yield _record(item)


def runs(offsets: Collection[int]) -> Iterator[tuple[int, int]]:
    """Group neighbouring offsets into ranges ``[start, end)``."""
    start = end = -1
    for offset in sorted(offsets):
        if offset != end:
            if start >= 0:
                yield start, end
            start = offset
        end = offset + 1
    if start >= 0:
        yield start, end


def _record(entry: RecordEntry) -> Record:
    headers = tuple((key.kept, _bytes(value)) for key, value in entry.headers.kept)
    kind, stamp = entry.timestamp_type, entry.timestamp
    return Record(entry.offset, kind, stamp, _bytes(entry.key), _bytes(entry.value), headers)


def _bytes(content: Content | None) -> bytes | None:
    return None if content is None else content.kept


def _is_text(record: Record) -> bool:
    parts = [record.key, record.value, *(part for pair in record.headers for part in pair)]
    try:
        for one in parts:
            (one or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
