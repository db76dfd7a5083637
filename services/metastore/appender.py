"""Appends commands to a backup of the metastore, and their metadata to its side file.

Lines are synced before their side entries are written, so a side file is never ahead of its backup.
A restart finds the last complete line, after which the remainder of a killed writer may follow, and
compares what the file has with the topic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from breakglass.services.errors import StorageError
from breakglass.services.metastore.events import CommandDifference
from breakglass.services.metastore.lines import (
    COMMAND_KEY,
    MOST_LINE,
    CommandRecord,
    is_json,
    lines_in,
    read_lines,
    split,
)
from breakglass.services.metastore.settings import fingerprint, private_append, remove_if_there
from breakglass.services.metastore.side_file import (
    SUFFIX,
    Chain,
    Noted,
    SideHeader,
    digest_of,
    groups,
    note,
    stored_groups,
)
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.words.inert import bounded_bytes

Piece = bytes | memoryview


class BlockFindings(NamedTuple):
    """The result of examining the lines of some commands."""

    noted: Noted
    odd: bool
    """Whether some commands may have a `problem`."""


class Block(ABC):
    """The lines of some commands."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Size of all lines in bytes."""

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """The lines in order; each piece contains the lines that are built together."""

    @abstractmethod
    def look(self, pieces: Sequence[Piece]) -> BlockFindings:
        """Examine the commands; *pieces* are the results of `pieces`."""


class CommandBlock(Sequence[CommandRecord], Block):
    """Commands whose lines are built without an object for each command."""


class RecordBlock(Block):
    """Commands with one object each."""

    def __init__(self, records: Sequence[CommandRecord]) -> None:
        self._records = records
        self._lines = [record.line for record in records]
        self._data = b"".join(self._lines)

    @property
    def size(self) -> int:
        """Size of all lines in bytes."""
        return len(self._data)

    def pieces(self) -> Iterator[Piece]:
        """The lines as one piece."""
        yield self._data

    def look(self, pieces: Sequence[Piece]) -> BlockFindings:  # noqa: ARG002
        """Examine the objects, which equal *pieces*."""
        noted, data = note(self._records, self._lines), self._data
        return BlockFindings(
            noted, bool(noted.nulls) or b"\r" in data or data.count(b"\n") != len(noted)
        )


def block_of(records: Sequence[CommandRecord]) -> Block:
    """The lines of *records*."""
    return records if isinstance(records, CommandBlock) else RecordBlock(records)


REBUILT = ".new"
"""The suffix of a side file that is being rebuilt."""
SHOWN = 60
"""Maximum characters of a difference in a message."""
GROUP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AppendPosition:
    """Where the next command is appended to a backup."""

    lines: int
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
        if kept is not None and (
            (kept.topic_id, kept.cluster_id) == (header.topic_id, header.cluster_id)
        ):
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
        while (line := self._data.readline(MOST_LINE)) and not line.strip():
            blank += len(line)
        if not line:
            return b""
        self._data.seek(at)
        return self._data.read(blank + size)

    def rest(self) -> int:
        """Lines that were compared with no command of the topic."""
        self._data.seek(self._at)
        return sum(1 for line in lines_in(self._data) if line.strip())

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
        while not (line := self._data.readline(MOST_LINE)).strip():
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
        header = self._file.readline(MOST_LINE)
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


OVERLAPPED = 500
"""From this number of commands on, side entries are built while the disk writes the lines."""
PART = 20_000
"""Commands for each sync."""


class Appender:
    """Holds both files of one backup open for appending."""

    def __init__(self, path: Path, position: AppendPosition) -> None:
        self._path = path
        self._data = private_append(path, position.data_end)
        self._side = private_append(side_of(path), position.side_end)
        self._end = position.data_end
        self._chain = position.chain
        self._side_dirty = False
        self._memory = bytearray()
        # The executor starts no thread before its first use.
        self._threads = ThreadPoolExecutor(3)
        self.lines = position.lines
        self._fingerprint = fingerprint(path)

    @classmethod
    def begin(cls, path: Path, header: SideHeader) -> Self:
        """A new backup at *path*; only its side file exists before the first lines are written."""
        chain = Chain()
        first = chain.seal(header.prefix())
        side = private_append(side_of(path), 0)
        try:
            side.write(first)
            side.sync()
        except StorageError:
            remove_if_there(side_of(path))
            raise
        finally:
            side.close()
        return cls(path, AppendPosition(0, 0, len(first), chain))

    def append(self, records: Sequence[CommandRecord]) -> bool:
        """Put *records* on disk: with one write and one sync, or with several if there are many.

        Returns whether some records may have a `problem`.

        Raises StorageError: the disk rejects the write, or another program writes to the file.
        """
        if fingerprint(self._path) != self._fingerprint:
            raise StorageError(
                f"{self._path} was written by another program, so nothing was added: let only one "
                "of the two back up to this folder, then start again."
            )
        begin = self._end
        odd = self._at_once(records) if len(records) < OVERLAPPED else self._by_parts(records)
        self._fingerprint = (self._fingerprint[0], self._fingerprint[1] + self._end - begin)
        self._side_dirty = True
        self.lines += len(records)
        return odd

    def _at_once(self, records: Sequence[CommandRecord]) -> bool:
        block = block_of(records)
        pieces = list(block.pieces())
        for piece in pieces:
            self._data.write(piece)
        self._data.sync()
        self._end += sum(map(len, pieces))
        prefix, odd = _noted(block, pieces, self._end)
        self._side.write(self._chain.seal(prefix, digest_of(pieces)))
        return odd

    def _by_parts(self, records: Sequence[CommandRecord]) -> bool:
        odd = False
        for at in range(0, len(records), PART):
            odd |= self._part(records[at : at + PART])
        return odd

    def _part(self, records: Sequence[CommandRecord]) -> bool:
        """Build lines during the writes, and side entries during the sync."""
        block, pieces = block_of(records), list[Piece]()
        writing: Future[None] | None = None
        for piece in self._kept(block):
            pieces.append(piece)
            writing = self._threads.submit(self._write, piece, writing)
        self._end += block.size
        digest = self._threads.submit(digest_of, pieces)
        noting = self._threads.submit(_noted, block, pieces, self._end)
        if writing is not None:
            writing.result()
        self._data.sync()
        # After the sync, so that the side file is never ahead of the lines.
        prefix, odd = noting.result()
        self._side.write(self._chain.seal(prefix, digest.result()))
        return odd

    def _kept(self, block: Block) -> Iterator[memoryview]:
        """The lines of *block* in reused memory: allocating new pages costs more than the lines."""
        if len(self._memory) < block.size:
            self._memory = bytearray(2 * block.size)
        view, end = memoryview(self._memory), 0
        for piece in block.pieces():
            begin, end = end, end + len(piece)
            view[begin:end] = memoryview(piece).cast("B")
            yield view[begin:end]

    def _write(self, lines: Piece, before: Future[None] | None) -> None:
        """Write *lines* after *before* is written; skip them if that write failed."""
        if before is not None:
            before.result()
        self._data.write(lines)

    def sync_side(self) -> None:
        """Return when the side file survives a power failure, too."""
        if self._side_dirty:
            self._side.sync()
            self._side_dirty = False

    def close(self) -> None:
        with ExitStack() as closing:
            closing.callback(self._side.close)
            closing.callback(self._data.close)
            self._threads.shutdown()
            self.sync_side()


def _noted(block: Block, pieces: Sequence[Piece], end: int) -> tuple[bytes, bool]:
    """The side file's line for *block*, not sealed yet, and whether some commands may be odd."""
    noted, odd = block.look(pieces)
    return noted.prefix(end), odd


def side_of(path: Path) -> Path:
    """The side file of the backup at *path*."""
    return path.with_name(path.name + SUFFIX)


BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a backup file as it was found."""

    size: int
    """Bytes found in the file."""
    whole: int
    """Bytes to keep."""
    lacks_newline: bool = False
    """The last command is complete except for its line end."""

    @property
    def cut(self) -> int:
        """Bytes of an incomplete last command."""
        return self.size - self.whole


def find_tail(file: BinaryIO, covered: int | None) -> Tail:
    """Find the end of *file*; its side file covers the first *covered* bytes.

    None: the file has no side file, for example because ksqlDB wrote it; then a last line with a
    line end counts as complete.
    """
    size = file.seek(0, 2)
    end = _behind_last_newline(file, size)
    if end < size:
        file.seek(end)
        parts = split(file.read(size - end)) if size - end <= MOST_LINE else None
        if parts is not None and is_json(parts[1]):
            return Tail(size, size, lacks_newline=True)
    if covered is not None and covered < end:
        # The end without a last value that was torn after one of its raw newlines.
        file.seek(covered)
        torn: int | None = None
        for line in read_lines(file, at=covered):
            if line.start >= end:
                break
            if COMMAND_KEY.match(line.key):
                begun = line.value.startswith(b"{") and not is_json(line.value)
                torn = line.start if begun else None
        end = end if torn is None else torn
    return Tail(size, end)


def _behind_last_newline(file: BinaryIO, size: int) -> int:
    end = size
    while end > 0:
        begin = max(0, end - BLOCK)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0
