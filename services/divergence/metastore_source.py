"""Reads a metastore backup, a file of ``key:value`` lines, as a source by position.

The file has no offsets. Positions count commands from 1: a blank, torn or null line has no
position, as when the file is replayed (KLIP-31).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.divergence.entry import Keep, RecordEntry, content_of
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import UsageError
from breakglass.services.metastore.lines import LineProblem, read_lines
from breakglass.services.record_batches import TimestampType
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors

MARK_EVERY = 1_000
"""Number of commands between two marks from which the file can be read."""
MOST_NOTES = 20
LOOK_EVERY = 64


@dataclass(frozen=True, slots=True)
class CommandMark:
    """Where the command at a position begins in the file."""

    position: int
    line: int
    byte: int


@dataclass(frozen=True, slots=True)
class MetastoreSource:
    """The commands that were in the file when it was opened."""

    name: str
    path: Path
    extent: Extent
    marks: tuple[CommandMark, ...]
    left_out: tuple[str, ...]
    """Lines that are not commands, with the reason."""

    def read(self, start: int, end: int, reading: Reading) -> Iterator[RecordEntry]:
        asked = self.extent.within(start, end)
        if asked.start >= asked.end:
            return
        mark = self.marks[(asked.start - 1) // MARK_EVERY]
        position = mark.position
        with storage_errors(str(self.path)), open_regular(self.path) as file:
            file.seek(mark.byte)
            for number, line in enumerate(read_lines(file, mark.line, mark.byte)):
                if number % LOOK_EVERY == 0:
                    reading.go_on()
                if not line.usable:
                    continue
                if position >= asked.end:
                    return
                if position >= asked.start:
                    yield command(position, line.key, line.value, reading.keep)
                position += 1

    def raw_log(self, start: int, end: int, reading: Reading) -> None:
        """None: the bytes of a line do not show its position."""


def command(position: int, key: bytes | None, value: bytes | None, keep: Keep) -> RecordEntry:
    """A command as a line has it: only key and value, with null written as empty text."""
    return RecordEntry(
        position,
        None,
        TimestampType.NONE,
        None,
        content_of(key or b"", keep.value),
        content_of(value or b"", keep.value),
    )


def open_metastore(name: str, path: Path) -> MetastoreSource:
    """The backup at *path*, called *name*.

    Raises:
        UsageError: the file does not exist.
        StorageError: the file cannot be read.
    """
    if not path.is_file():
        raise UsageError(f"{path} is no file: name the backup of a metastore.")
    marks: list[CommandMark] = []
    notes: list[str] = []
    count = 0
    with storage_errors(str(path)), open_regular(path) as file:
        for line in read_lines(file):
            if line.usable:
                if count % MARK_EVERY == 0:
                    marks.append(CommandMark(count + 1, line.number, line.start))
                count += 1
            elif len(notes) < MOST_NOTES and line.problem is not LineProblem.BLANK:
                place = f"{path}, line {line.number}, byte {line.start}"
                notes.append(f"{place}: {line.problem}; it is no command")
    return MetastoreSource(name, path, Extent(1, count + 1), tuple(marks), tuple(notes))
