"""Writes records that were marked: as JSON lines, JSON, CSV, or as a Kafka Backup."""

from __future__ import annotations

import base64
import csv
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from breakglass.services.browse.query import WHOLE
from breakglass.services.divergence.source import Content, Reading, RecordEntry, Source
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.record import BytesAs, as_json, is_text
from breakglass.services.topic_backup.topic_writer import TopicWriter

JSON_LINES, ARRAY, CSV = (".jsonl", ".ndjson"), ".json", ".csv"
COLUMNS = (
    *("offset", "timestamp_type", "timestamp", "key", "key_encoding"),
    *("value", "value_encoding", "headers"),
)
"""Of a CSV file; the headers are JSON."""
FORMULA = ("=", "+", "-", "@")
"""Spreadsheets execute text that begins with one of these."""


def export(
    source: Source, partition: TopicPartition, marked: Collection[int], to: Path, reading: Reading
) -> int:
    """Write the records at the offsets *marked* to *to*; return how many were written.

    The end of a file name chooses JSON lines, JSON or CSV, in which bytes that are not UTF-8 are
    base64, marked as such. Any other name is the folder of a new backup.

    Raises:
        UsageError: *to* exists already.
        StorageError: *to* cannot be written.
    """
    if os.path.lexists(to):
        raise UsageError(f"{to} is there already: name another file or folder.")
    records = records_at(source, marked, reading)
    if to.suffix in (*JSON_LINES, ARRAY, CSV):
        with storage_errors(str(to)):
            descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                return _write(file, to.suffix, records)
    with TopicWriter(to, TopicIdentity(partition.topic)) as writer:
        written = writer.partition(partition.partition)
        number = 0
        for number, record in enumerate(records, 1):  # noqa: B007 -- used after the loop
            written.append(record)
        writer.commit()
    return number


def _write(file: TextIO, form: str, records: Iterator[Record]) -> int:
    """Write each record as the end of a file's name says; return how many were written."""
    number = 0
    table = csv.DictWriter(file, COLUMNS)
    if form == CSV:
        table.writeheader()
    for number, record in enumerate(records, 1):
        if form == CSV:
            row = _plain(record, acts=False)
            table.writerow({**row, "headers": json.dumps(row["headers"])})
        elif form == ARRAY:
            file.write(f"{',' if number > 1 else '['}\n{json.dumps(_plain(record, acts=True))}")
        else:
            file.write(json.dumps(_document(record)) + "\n")
    if form == ARRAY:
        file.write("\n]\n" if number else "[]\n")
    return number


def _plain(record: Record, *, acts: bool) -> dict[str, object]:
    """*record*, each content with its encoding.

    Unless it *acts*, text that could act in a terminal or a spreadsheet is base64.
    """

    def encoded(name: str, content: bytes | None) -> dict[str, str | None]:
        if content is None:
            return {name: None, f"{name}_encoding": None}
        try:
            text = content.decode()
        except UnicodeDecodeError:
            pass
        else:
            shown = text.replace("\n", "").replace("\t", "")
            if acts or (shown.isprintable() and not text.lstrip().startswith(FORMULA)):
                return {name: text, f"{name}_encoding": BytesAs.UTF8}
        return {name: base64.b64encode(content).decode(), f"{name}_encoding": BytesAs.BASE64}

    return {
        "offset": record.offset,
        "timestamp_type": record.timestamp_type.name.lower(),
        "timestamp": record.timestamp,
        **encoded("key", record.key),
        **encoded("value", record.value),
        "headers": [
            {**encoded("key", key), **encoded("value", value)} for key, value in record.headers
        ],
    }


def record_text(entry: RecordEntry) -> str | None:
    """*entry* as a JSON line has it; None for a marker, and where only its beginning is kept."""
    parts = (entry.key, entry.value, *(part for pair in entry.headers.kept for part in pair))
    cut = entry.headers.digest or any(part is not None and part.digest for part in parts)
    return None if cut or entry.marker is not None else json.dumps(_document(_record(entry)))


def _document(record: Record) -> dict[str, object]:
    form = BytesAs.UTF8 if is_text(record) else BytesAs.BASE64
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
