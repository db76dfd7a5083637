"""Compares a backup with its topic at each start, as in KLIP-31, ignoring offsets.

The side file is compared with the topic too. A side file that is missing, short or from another
topic is rebuilt from the topic while the lines are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from breakglass.services.errors import StorageError
from breakglass.services.metastore.blocks import block_of
from breakglass.services.metastore.events import CommandDifference
from breakglass.services.metastore.private_files import private_append, remove_if_there
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.side_file import Chain, Noted, SideHeader, digest_of, note
from breakglass.services.metastore.side_reader import groups, stored_groups
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.words.inert import bounded_bytes

REBUILT = ".new"
"""The suffix of a side file that is being rebuilt."""
SHOWN = 60
"""Maximum characters of a difference in a message."""
GROUP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AppendPosition:
    """Where the next command is appended to a backup."""

    lines: int
    """The number of commands in the backup."""
    data_end: int
    side_end: int
    chain: Chain


class Ended(Enum):
    """Why a comparison ended without a difference."""

    BACKUP = auto()
    """The backup has no next line: the command is new."""


class Compared(NamedTuple):
    """The result of comparing some commands."""

    same: int
    """The number of leading commands that equal the next lines."""
    outcome: Ended | CommandDifference | None
    """The result after these commands; None if all are equal."""


class Restart:
    """Compares a backup from its beginning while the topic is read."""

    def __init__(self, data: Path, side: Path, header: SideHeader, kept: SideHeader | None) -> None:
        """*header* is the expected header of the side file, *kept* its actual header."""
        with storage_errors(str(data)):
            self._data = open_regular(data)
        self._data_path, self._side_path = data, side
        self._header = header
        self._kept: _Kept | None = None
        self._rebuild: _Rebuild | None = None
        self.lines = self._at = self._newlines = 0
        if kept is not None and _same_topic(kept, header):
            try:
                self._kept = _Kept(side)
            except StorageError:
                self._data.close()
                raise
        else:
            self._rebuild = _Rebuild(side, header)

    def close(self) -> None:
        """Close the files; an incomplete side file is removed."""
        self._data.close()
        if self._kept is not None:
            self._kept.close()
        if self._rebuild is not None:
            self._rebuild.abandon()
            self._rebuild = None

    def take(self, records: Sequence[CommandRecord]) -> Compared:
        """Compare *records* with the next lines, all together as long as they are equal."""
        block = block_of(records)
        pieces = [bytes(piece) for piece in block.pieces()]
        if all(self._data.read(len(piece)) == piece for piece in pieces):
            self._same(block.look(pieces).noted, pieces)
            return Compared(len(records), None)
        self._data.seek(self._at)
        return self._line_by_line(records)

    def _line_by_line(self, records: Sequence[CommandRecord]) -> Compared:
        held: list[bytes] = []
        at = self._at
        found = b""
        for record in records:
            line = record.line
            found = self._next(at, len(line))
            if not found.endswith(line) or found[: -len(line)].strip():
                break
            held.append(found)
            at += len(found)
        same = len(held)
        self._same(note(records[:same], held), held)
        if same == len(records):
            return Compared(same, None)
        return Compared(same, self._difference(records[same]) if found else Ended.BACKUP)

    def _next(self, at: int, size: int) -> bytes:
        """The next bytes from *at*, including leading blank lines; empty at the end."""
        self._data.seek(at)
        blank = 0
        while (line := self._data.readline()) and not line.strip():
            blank += len(line)
        if not line:
            return b""
        self._data.seek(at)
        return self._data.read(blank + size)

    def rest(self) -> int:
        """Lines that were compared with no command of the topic."""
        self._data.seek(self._at)
        return sum(1 for line in self._data if line.strip())

    def finish(self) -> AppendPosition:
        """Where the backup is continued, once every line was found in the topic."""
        if self._kept is not None and self._rebuild is None and not self._kept.whole:
            self._rebuild = self._rebuilt_so_far()
        if self._rebuild is not None:
            rebuild, self._rebuild = self._rebuild, None
            chain, side_end = rebuild.chain, rebuild.put_in_place()
        else:
            assert self._kept is not None
            chain, side_end = self._kept.chain, self._kept.end
        return AppendPosition(self.lines, self._at, side_end, chain)

    def prefix(self) -> tuple[Path, Path, int]:
        """The backup, its side file, and the number of their commands that the topic also has."""
        if self._rebuild is None:
            return self._data_path, self._side_path, self.lines
        return self._data_path, self._rebuild.flushed(), self.lines

    def _same(self, noted: Noted, held: Sequence[bytes]) -> None:
        """The next lines *held* are equal: compare the side file with *noted*, or rebuild it."""
        if not len(noted):
            return
        if self._rebuild is None:
            assert self._kept is not None
            if not self._kept.matches(noted):
                self._rebuild = self._rebuilt_so_far()
        if self._rebuild is not None:
            self._rebuild.add(noted, held)
        self.lines += len(noted)
        self._at += sum(map(len, held))
        self._newlines += sum(piece.count(b"\n") for piece in held)

    def _rebuilt_so_far(self) -> _Rebuild:
        rebuild = _Rebuild(self._side_path, self._header)
        with (
            storage_errors(str(self._side_path)),
            open_regular(self._data_path) as data,
            open_regular(self._side_path) as side,
        ):
            for noted, held, _ in stored_groups(data, side, self.lines):
                rebuild.add(noted, held)
        return rebuild

    def _difference(self, record: CommandRecord) -> CommandDifference:
        self._data.seek(self._at)
        number = self._newlines + 1
        while not (line := self._data.readline()).strip():
            number += 1
        found, line = record.line, line.removesuffix(b"\n")
        at = next(
            (n for n, (one, other) in enumerate(zip(found, line, strict=False)) if one != other),
            min(len(found) - 1, len(line)),
        )
        key = len(record.key or b"")
        in_value = at > key
        base = key + 1 if in_value else 0
        return CommandDifference(
            number,
            record.offset,
            "value" if in_value else "key",
            at - base,
            bounded_bytes(line[at:], SHOWN),
            bounded_bytes(found.removesuffix(b"\n")[at:], SHOWN),
        )


class _Kept:
    """The existing side file, compared with the topic."""

    def __init__(self, side: Path) -> None:
        with storage_errors(str(side)):
            self._file = open_regular(side)
        header = self._file.readline()
        self._groups = groups(self._file)
        self._group: Noted | None = None
        self._line = b""
        self._place = 0
        self.chain = Chain.behind(header)
        self.end = len(header)

    def close(self) -> None:
        self._file.close()

    @property
    def whole(self) -> bool:
        """Whether every group was compared to its end."""
        return self._group is None

    def matches(self, noted: Noted) -> bool:
        """Whether the next commands have these entries; after False the side file is useless."""
        at = 0
        while at < len(noted):
            if self._group is None:
                self._group, self._line = next(self._groups, (None, b""))
                self._place = 0
            if self._group is None:
                return False
            some = min(len(noted) - at, len(self._group) - self._place)
            expected = self._group.part(self._place, self._place + some)
            if expected != noted.part(at, at + some):
                return False
            at, self._place = at + some, self._place + some
            if self._place == len(self._group):
                self.end += len(self._line)
                self.chain = Chain.behind(self._line)
                self._group = None
        return True


class _Rebuild:
    """A new side file next to the file that it will replace."""

    def __init__(self, side: Path, header: SideHeader) -> None:
        self._side = side
        self._path = side.with_name(side.name + REBUILT)
        self._file = private_append(self._path, 0)
        self.chain = Chain()
        self._buffer = bytearray(self.chain.seal(header.prefix()))
        self._written = self._end = 0

    def add(self, noted: Noted, held: Sequence[bytes]) -> None:
        self._end += sum(map(len, held))
        self._buffer += self.chain.seal(noted.prefix(self._end), digest_of(held))
        if len(self._buffer) >= GROUP_BYTES:
            self._flush()

    def flushed(self) -> Path:
        self._flush()
        return self._path

    def put_in_place(self) -> int:
        """Replace the side file; returns its length."""
        self._flush()
        self._file.sync()
        self._file.close()
        with storage_errors(str(self._side)):
            self._path.replace(self._side)
        return self._written

    def abandon(self) -> None:
        self._file.close()
        remove_if_there(self._path)

    def _flush(self) -> None:
        self._file.write(bytes(self._buffer))
        self._written += len(self._buffer)
        self._buffer.clear()


def _same_topic(one: SideHeader, other: SideHeader) -> bool:
    return (one.topic_id, one.cluster_id) == (other.topic_id, other.cluster_id)
