"""Appends commands to a backup of the metastore, and what is noted of them to its side file.

The lines are synced before their side entries are written, so a side file is never ahead of its
backup.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from services.errors import StorageError
from services.metastore.private_files import fingerprint, private_append, remove_if_there
from services.metastore.records import CommandRecord
from services.metastore.restart import AppendPosition
from services.metastore.side_file import SUFFIX, Chain, Noted, SideHeader, digest_of, note

OVERLAPPED = 500
"""From so many commands on they are noted while the disk takes their lines."""
PART = 10_000
"""Commands that the disk takes while the next are made ready."""


class Appender:
    """Holds both files of one backup open, behind what they hold already."""

    def __init__(self, path: Path, position: AppendPosition) -> None:
        self._path = path
        self._data = private_append(path, position.data_end)
        self._side = private_append(side_of(path), position.side_end)
        self._end = position.data_end
        self._chain = position.chain
        self._side_dirty = False
        # Starts no thread before it is used.
        self._threads = ThreadPoolExecutor(2)
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
        lines = [one.line for one in records]
        block = b"".join(lines)
        self._sync(block)
        noted = note(records, lines)
        self._side.write(self._sealed(noted, block, digest_of(block)))
        return _odd(noted, block)

    def _by_parts(self, records: Sequence[CommandRecord]) -> bool:
        """While the disk takes the lines of a part they are noted, and those of the next made."""
        odd, before = False, None
        for at in range(0, len(records), PART):
            part = records[at : at + PART]
            lines = [one.line for one in part]
            block = b"".join(lines)
            if before is not None:
                self._settle(*before)
            syncing = self._threads.submit(self._sync, block)
            digest = self._threads.submit(digest_of, block)
            noted = note(part, lines)
            odd = odd or _odd(noted, block)
            before = syncing, self._sealed(noted, block, digest.result())
        if before is not None:
            self._settle(*before)
        return odd

    def _settle(self, syncing: Future[None], sealed: bytes) -> None:
        """Note a part once its lines are on disk: the side file is never ahead of them."""
        syncing.result()
        self._side.write(sealed)

    def _sealed(self, noted: Noted, block: bytes, digest: bytes) -> bytes:
        self._end += len(block)
        return self._chain.seal(noted.prefix(self._end), digest)

    def _sync(self, block: bytes) -> None:
        self._data.write(block)
        self._data.sync()

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


def _odd(noted: Noted, block: bytes) -> bool:
    """Whether some of these commands may have a `problem`: looked at once for all of them."""
    return bool(noted.nulls) or b"\r" in block or block.count(b"\n") != len(noted)


def side_of(path: Path) -> Path:
    """The side file of the backup at *path*."""
    return path.with_name(path.name + SUFFIX)
