"""Objects in a folder of this machine, for what no file of the original's can hold."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from breakglass.services.regular_file import open_regular
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
from breakglass.services.topic_backup.store.range_file import range_file

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
                (self.path / name).unlink(missing_ok=True)
                if "/" in name:
                    with suppress(OSError):
                        (self.path / name).parent.rmdir()


class _NewBlob:
    """A file that gets its name when it is whole."""

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
