"""Appends commands to a backup of the metastore, and what is noted of them to its side file.

The lines are synced before their side entries are written, so a side file is never ahead of its
backup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from breakglass.services.errors import StorageError
from breakglass.services.metastore.blocks import Block, Piece, block_of
from breakglass.services.metastore.private_files import fingerprint, private_append, remove_if_there
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.restart import AppendPosition
from breakglass.services.metastore.side_file import SUFFIX, Chain, SideHeader, digest_of

OVERLAPPED = 500
"""From so many commands on they are noted while the disk takes their lines."""
PART = 20_000
"""Commands of one sync."""


class Appender:
    """Holds both files of one backup open, behind what they hold already."""

    def __init__(self, path: Path, position: AppendPosition) -> None:
        self._path = path
        self._data = private_append(path, position.data_end)
        self._side = private_append(side_of(path), position.side_end)
        self._end = position.data_end
        self._chain = position.chain
        self._side_dirty = False
        self._memory = bytearray()
        # Starts no thread before it is used.
        self._threads = ThreadPoolExecutor(3)
        self.lines = position.lines
        self._fingerprint = fingerprint(path)

    @classmethod
    def begin(cls, path: Path, header: SideHeader) -> Self:
        """A new backup at *path*; only its side file is there before the first lines are."""
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
        return cls(path, AppendPosition(0, 0, len(first), chain, 0))

    def append(self, records: Sequence[CommandRecord]) -> bool:
        """Put *records* on disk: by one write and one sync, or by a few where they are many.

        Returns whether some of them may have a `problem`.

        Raises:
            StorageError: the disk does not take them, or somebody else writes to the file.
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
        """Make lines while the disk takes those before them; note them while it syncs them all."""
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
        """The lines of *block* in memory that was used before: new pages cost more than lines."""
        if len(self._memory) < block.size:
            self._memory = bytearray(2 * block.size)
        view, end = memoryview(self._memory), 0
        for piece in block.pieces():
            begin, end = end, end + len(piece)
            view[begin:end] = memoryview(piece).cast("B")
            yield view[begin:end]

    def _write(self, lines: Piece, before: Future[None] | None) -> None:
        """Write *lines* after those *before* them, and not at all where those failed."""
        if before is not None:
            before.result()
        self._data.write(lines)

    def sync_side(self) -> None:
        """Return when the side file survives a power cut, too."""
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
    """The line of the side file for *block*, not sealed yet, and whether some may be odd."""
    noted, odd = block.look(pieces)
    return noted.prefix(end), odd


def side_of(path: Path) -> Path:
    """The side file of the backup at *path*."""
    return path.with_name(path.name + SUFFIX)
