"""Stores objects in a local folder, and makes seekable files that fetch only what is read.

Local folders use it for compressed or encrypted backups, whose files Kafka Backup cannot read.
"""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from breakglass.services.regular_file import open_regular
from breakglass.services.rights import require_own_way
from breakglass.services.topic_backup.folder import (
    TEMPORARY,
    LocalFolder,
    LocalNewFile,
    NewFile,
    State,
    file_size,
    file_state,
    inside,
    storage_errors,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


Fetch = Callable[[int, int], bytes]
"""Returns the bytes from one position to another."""


def range_file(fetch: Fetch, size: int, buffer_bytes: int) -> BinaryIO:
    """A seekable file of *size* bytes; small reads are combined to fetches of *buffer_bytes*."""
    return cast(BinaryIO, io.BufferedReader(_Ranges(fetch, size), buffer_bytes))


class _Ranges(io.RawIOBase):
    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch = fetch
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def readall(self) -> bytes:
        """The remaining bytes, in one fetch; by default, they would be read in pieces of 8 KiB."""
        start, self._position = self._position, max(self._position, self._size)
        return self._fetch(start, self._size) if start < self._size else b""

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self._size)
        if end <= self._position:
            return 0
        content = self._fetch(self._position, end)
        view[: len(content)] = content
        self._position += len(content)
        return len(content)


BUFFER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LocalBlobs:
    """The files below one folder."""

    path: Path

    def where(self, name: str = "") -> str:
        return str(self.path / name) if name else str(self.path)

    def names(self) -> list[str]:
        with storage_errors(self.where()):
            return [
                (Path(folder) / name).relative_to(self.path).as_posix()
                for folder, _, names in os.walk(self.path)
                for name in names
            ]

    def size(self, name: str) -> int | None:
        return file_size(inside(self.path, name))

    def state(self, name: str) -> State | None:
        return file_state(inside(self.path, name))

    def open(self, name: str) -> BinaryIO:
        with storage_errors(self.where(name)):
            size = inside(self.path, name).stat().st_size
        return range_file(partial(self.read, name), size, BUFFER_BYTES)

    def read(self, name: str, start: int, end: int) -> bytes:
        """The bytes ``[start, end)`` of a file."""
        with storage_errors(self.where(name)), open_regular(inside(self.path, name)) as file:
            file.seek(start)
            return file.read(end - start)

    def begin(self, name: str) -> NewFile:
        return _NewBlob(self.path / name)

    def create(self, name: str, content: bytes) -> bool:
        path = self.path / name
        temporary = _temporary(path)
        with storage_errors(self.where(name)):
            LocalFolder.create(path.parent)
            file = LocalNewFile(temporary)
            try:
                file.write(memoryview(content))
                file.close()
                os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                temporary.unlink(missing_ok=True)
        LocalFolder(path.parent).sync()
        return True

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            with storage_errors(self.where(name)):
                require_own_way((self.path / name).parent)
                (self.path / name).unlink(missing_ok=True)
                if "/" in name:
                    with suppress(OSError):
                        (self.path / name).parent.rmdir()


class _NewBlob:
    """A file that gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = _temporary(path)
        LocalFolder.create(path.parent)
        with storage_errors(str(path)):
            self._file = LocalNewFile(self._temporary)

    def write(self, data: memoryview) -> None:
        with storage_errors(str(self._path)):
            self._file.write(data)

    def close(self) -> None:
        with storage_errors(str(self._path)):
            self._file.close()
            self._temporary.replace(self._path)
        LocalFolder(self._path.parent).sync()

    def abandon(self) -> None:
        self._file.abandon()


def _temporary(path: Path) -> Path:
    before, after = TEMPORARY
    return path.with_name(f"{before}{secrets.token_hex(8)}{after}")
