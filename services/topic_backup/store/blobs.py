"""Objects of a store, which are written whole, read by range and never modified; local ones.

`NewFile.close` and `create` return once the object is durable, and never leave part of an object.
Only `create` decides between two writers. Local folders have objects for compressed or encrypted
backups, whose files Kafka Backup cannot read.

Reads the key of encrypted backups from a file or an environment variable.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from breakglass.services.connection.properties import require_own
from breakglass.services.errors import StorageError, UsageError
from breakglass.services.regular_file import open_regular
from breakglass.services.rights import require_own_way
from breakglass.services.topic_backup.folder import (
    LocalFolder,
    LocalNewFile,
    NewFile,
    State,
    file_size,
    file_state,
    inside,
    storage_errors,
    temporary_name,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


PROBE = "breakglass_probe"
_PROVED: set[str] = set()
"""The folders of stores that were seen to create a name only once."""


class Blobs(Protocol):
    """The objects of one folder. Can be pickled for other processes."""

    def where(self, name: str = "") -> str:
        """The full address of an object, or of the folder, for messages."""

    def names(self) -> list[str]:
        """All names; objects in subfolders are ``below/name``."""

    def size(self, name: str) -> int | None:
        """The size of an object; None if it does not exist."""

    def state(self, name: str) -> State | None:
        """The state of an object; None if it does not exist or cannot be proved unchanged."""

    def open(self, name: str) -> BinaryIO:
        """Open an object for reading; it is seekable, and bytes are fetched when they are read."""

    def begin(self, name: str) -> NewFile:
        """An object that exists once it is closed; it replaces an object of the same name."""

    def create(self, name: str, content: bytes) -> bool:
        """Create an object unless the name exists; return whether this call created it."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects; missing objects are ignored."""


def require_create_once(blobs: Blobs) -> None:
    """Return if of two writers of the same name only one succeeds.

    Raises StorageError: the store lets two writers create the same name.
    """
    where = blobs.where()
    if where in _PROVED:
        return
    # The object exists after the first call, so the second call must fail.
    blobs.create(PROBE, b"1\n")
    if blobs.create(PROBE, b"2\n"):
        raise StorageError(
            f"{where}: the store overwrites an object that must not be (it does not "
            "honour If-None-Match), so two runs could both commit: use another store."
        )
    _PROVED.add(where)


Fetch = Callable[[int, int], bytes]
"""Returns the bytes from one position to another."""


def range_file(fetch: Fetch, size: int, buffer_bytes: int) -> BinaryIO:
    """A seekable file of *size* bytes; small reads are combined to fetches of *buffer_bytes*."""
    return cast("BinaryIO", io.BufferedReader(_Ranges(fetch, size), buffer_bytes))


class SeekableBytes(io.RawIOBase, ABC):
    """Bytes that can be read from any position."""

    _position = 0

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of bytes."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = base + offset
        return self._position


class _Ranges(SeekableBytes):
    size = 0

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch = fetch
        self.size = size

    def readall(self) -> bytes:
        """The remaining bytes, in one fetch; by default, they would be read in pieces of 8 KiB."""
        start, self._position = self._position, max(self._position, self.size)
        return self._fetch(start, self.size) if start < self.size else b""

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self.size)
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
        temporary = path.with_name(temporary_name())
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
        self._temporary = path.with_name(temporary_name())
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


KEY_BYTES = 32
ENVIRONMENT = "env:"
MAX_FILE_BYTES = 4096
_HEX = re.compile(rb"[0-9a-fA-F]{64}")
_FORMS = "32 bytes as they are, in hex or in base64 (`openssl rand -hex 32` makes one)"


class Key:
    """32 secret bytes. Spark's workers get the key; it is never printed or written as JSON."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        if len(content) != KEY_BYTES:
            raise UsageError(f"a key has {KEY_BYTES} bytes, this one has {len(content)}.")
        self._content = content

    def derived(self, salt: bytes, purpose: bytes) -> bytes:
        """32 bytes for one *purpose*, derived by HKDF-SHA256; they do not reveal the key."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(SHA256(), KEY_BYTES, salt, purpose).derive(self._content)

    @property
    def id(self) -> bytes:
        """8 bytes that identify the key."""
        return self.derived(b"", b"breakglass key id")[:8]

    def __repr__(self) -> str:
        return "Key(***)"


_TAKEN: dict[str, Key] = {}
"""The keys that were variables of this process: its children do not inherit them."""


def read_key(source: str, environment: MutableMapping[str, str] = os.environ) -> Key:
    """The key in the file *source*, or in the variable NAME of ``env:NAME``, which it takes away.

    Raises:
        UsageError: there is no key, or it is invalid, or other accounts can write its file.
        StorageError: the file cannot be read.
    """
    if source.startswith(ENVIRONMENT):
        name = source.removeprefix(ENVIRONMENT)
        if text := environment.get(name):
            _TAKEN[name] = Key(_decoded(text.encode(), f"the environment's {name}"))
            del environment[name]
        if name not in _TAKEN:
            raise UsageError(f"the environment has no {name}: set it to the key, or name a file.")
        return _TAKEN[name]
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{path} is no file: name the file that holds the key, or env:NAME.")
    require_own(path)
    with storage_errors(source), open_regular(path) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    return Key(_decoded(content, source))


def _decoded(content: bytes, where: str) -> bytes:
    if len(content) == KEY_BYTES:
        return content
    text = content.strip()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.decode())
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        found = b""
    if len(found) != KEY_BYTES:
        raise UsageError(f"{where} holds no key: put there {_FORMS}.")
    return found
