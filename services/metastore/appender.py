"""Appends commands to a backup of the metastore, and their metadata to its side file.

Lines are synced before their side entries are written, so a side file is never ahead of its backup.
`find_tail` finds the last complete line; the remainder of a killed writer may follow it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from breakglass.services.errors import StorageError
from breakglass.services.metastore.blocks import Block, Piece, block_of
from breakglass.services.metastore.lines import COMMAND_KEY, read_lines, split
from breakglass.services.metastore.private_files import fingerprint, private_append, remove_if_there
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.restart import AppendPosition
from breakglass.services.metastore.side_file import SUFFIX, Chain, SideHeader, digest_of

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

        Raises:
            StorageError: the disk rejects the write, or another program writes to the file.
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
        if _whole_command(file.read(size - end)):
            return Tail(size, size, lacks_newline=True)
    if covered is not None and covered < end:
        end = _without_torn_value(file, covered, end)
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


def _without_torn_value(file: BinaryIO, covered: int, end: int) -> int:
    """The end without a last value that was torn after one of its raw newlines."""
    file.seek(covered)
    torn: int | None = None
    for line in read_lines(iter(file.readline, b""), at=covered):
        if line.start >= end:
            break
        if COMMAND_KEY.match(line.key):
            begun = line.value.startswith(b"{") and not _is_whole(line.value)
            torn = line.start if begun else None
    return end if torn is None else torn


def _whole_command(line: bytes) -> bool:
    parts = split(line)
    return parts is not None and _is_whole(parts[1])


def _is_whole(value: bytes) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True
