"""Where a topic's files lie: the few operations the format needs, and a local folder.

Whatever implements `Folder` promises: what `replace` wrote is there wholly or not at all, and what
`sync` returned from survives a power cut. Only an `AppendFolder` can have files written on; the
others are in `topic_backup.store`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import FileIO
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol

from breakglass.services.errors import AlreadyRunning, DiskFull, StorageError
from breakglass.services.regular_file import open_regular
from breakglass.services.rights import make_folders, open_new
from breakglass.services.topic_backup.layout import MANIFEST

TEMPORARY = (".breakglass-", ".tmp")
"""How the name of a file begins and ends that was not yet put in place."""

State = tuple[int | str, ...]
"""What changes whenever a file does."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_NEXT_STEPS = {
    errno.ENOSPC: "free space on that file system and run the command again",
    errno.EDQUOT: "raise the quota or free space and run the command again",
    errno.EACCES: "check the owner and the permissions",
    errno.EPERM: "check the owner and the permissions",
    errno.EROFS: "choose a folder on a writable file system",
    errno.EFBIG: "take the file from another copy",
    errno.EINVAL: "take the file from another copy",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


@contextmanager
def storage_errors(where: str) -> Iterator[None]:
    """Turn an OSError about *where* into a StorageError that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        step = _NEXT_STEPS.get(error.errno or 0, "check the disk and the kernel's log")
        kind = DiskFull if error.errno in FULL else StorageError
        raise kind(f"{where}: {reason}; {step}.") from error


def inside(folder: Path, name: str) -> Path:
    """The path of *name*, which a document may have told, below *folder*.

    Raises:
        StorageError: it leads elsewhere.
    """
    parts = name.split("/")
    if not name or "\0" in name or any(one in ("", ".", "..") for one in parts):
        raise StorageError(
            f"{folder}: a document names the file {name!r}, which leads elsewhere: do not trust "
            "this backup, and take it from another copy."
        )
    return folder / name


def file_size(path: Path) -> int | None:
    """The bytes of the file at *path*; None where there is none. Raises StorageError."""
    with storage_errors(str(path)):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None


def file_state(path: Path) -> State | None:
    """The state of the file at *path*; None where there is none.

    Raises:
        StorageError: it cannot be asked.
    """
    with storage_errors(str(path)):
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def read_whole(folder: Folder, name: str, most: int) -> bytes:
    """All of a file that may have *most* bytes; not even its size is allocated before.

    Raises:
        StorageError: it cannot be read, or is larger.
    """
    with folder.open(name) as file:
        return read_bounded(file, folder.where(name), most)


def read_bounded(file: BinaryIO, where: str, most: int) -> bytes:
    """All of an open file. Raises as `read_whole`."""
    with storage_errors(where):
        size = file.seek(0, os.SEEK_END)
        if size > most:
            raise StorageError(
                f"{where} has {size:,} bytes, and no such file has more than {most:,}: take it "
                "from another copy."
            )
        file.seek(0)
        return file.read(size)


class AppendFile(Protocol):
    """A file that only grows. After a StorageError from `write` it is as it was before."""

    def write(self, data: bytes) -> None: ...

    def sync(self) -> None:
        """Return when everything written survives a power cut."""

    def close(self) -> None: ...


class NewFile(Protocol):
    """A file that one writer makes from its beginning to its end."""

    def write(self, data: memoryview) -> None:
        """Append *data*, which may be used for something else afterwards."""

    def close(self) -> None:
        """Return when the file is there under its name and survives a power cut."""

    def abandon(self) -> None:
        """Remove what was written."""


class Folder(Protocol):
    """The files of one topic. Can be sent to other processes."""

    @property
    def original(self) -> bool:
        """Whether its files are laid out as the original's readers want them."""

    def where(self, name: str = "") -> str:
        """The full address of a file, or of the folder, for messages."""

    def names(self) -> list[str]: ...

    def size(self, name: str) -> int | None:
        """Bytes of a file; None when there is none."""

    def state(self, name: str) -> State | None:
        """None where there is no such file, or nothing that proves that it did not change."""

    def open(self, name: str) -> BinaryIO:
        """A file for reading, seekable."""

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        """Put a whole file in place, atomically and durably."""

    def begin(self, name: str) -> NewFile:
        """A new file of that name, which no other writer uses. Raises OSError."""

    def remove(self, name: str) -> None: ...

    def sync(self) -> None:
        """Make created and removed names durable."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep every other writer out, where that can be.

        Raises:
            AlreadyRunning: another process writes here.
        """

    def manifest(self) -> str | None:
        """The name of the last commit's manifest; None where there is none."""

    def commit(self, version: int, content: bytes, /) -> None:
        """Put the manifest of the next commit in place, atomically and durably.

        Raises:
            AlreadyRunning: another process has made that commit.
        """


class AppendFolder(Folder, Protocol):
    """One whose files can be written on."""

    def append(self, name: str, at: int) -> AppendFile:
        """A file to be written on from byte *at*; what lies behind is cut off. 0 creates it."""


class LocalFolder:
    """A folder of this machine, laid out as the original's."""

    original: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> LocalFolder:
        """The folder at *path*, made durably with its parents where they are missing."""
        with storage_errors(str(path)):
            missing = [one for one in (path, *path.parents) if not one.exists()]
            make_folders(path)
            for one in missing:
                _sync_directory(one.parent)
        return cls(path)

    def where(self, name: str = "") -> str:
        return str(self.path / name) if name else str(self.path)

    def names(self) -> list[str]:
        with storage_errors(self.where()):
            return [entry.name for entry in os.scandir(self.path) if entry.is_file()]

    def size(self, name: str) -> int | None:
        return file_size(self._at(name))

    def _at(self, name: str) -> Path:
        return inside(self.path, name)

    def state(self, name: str) -> State | None:
        return file_state(self._at(name))

    def open(self, name: str) -> BinaryIO:
        with storage_errors(self.where(name)):
            return open_regular(self._at(name))

    def append(self, name: str, at: int) -> AppendFile:
        return LocalAppendFile(self.path / name, at)

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        before, after = TEMPORARY
        temporary = self.path / f"{before}{secrets.token_hex(8)}{after}"
        with storage_errors(self.where(name)):
            try:
                _write_new(temporary, chunks)
                temporary.replace(self.path / name)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        self.sync()

    def begin(self, name: str) -> NewFile:
        return LocalNewFile(self.path / name)

    def rename(self, old: str, new: str) -> None:
        """Put the file *old* in the place of *new*; durable after `sync`."""
        with storage_errors(self.where(new)):
            (self.path / old).replace(self.path / new)

    def remove(self, name: str) -> None:
        with storage_errors(self.where(name)):
            (self.path / name).unlink()

    def sync(self) -> None:
        with storage_errors(self.where()):
            _sync_directory(self.path)

    def manifest(self) -> str | None:
        return MANIFEST if self.size(MANIFEST) is not None else None

    def commit(self, _: int, content: bytes, /) -> None:
        """Put the manifest in place of the last one: the lock keeps others out."""
        self.replace(MANIFEST, [content])

    def remove_leftovers(self) -> None:
        """Remove the temporary files of a writer that was killed. Only under `lock`."""
        before, after = TEMPORARY
        for name in self.names():
            if name.startswith(before) and name.endswith(after):
                self.remove(name)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder as its only writer; the kernel frees it when the process ends.

        Raises:
            AlreadyRunning: another process writes here.
        """
        with storage_errors(self.where()):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _take(descriptor, self.where())
            yield
        finally:
            os.close(descriptor)


class LocalAppendFile:
    """Writes at positions of its own counting, so a failed write can simply be tried again."""

    def __init__(self, path: Path, at: int) -> None:
        self._path = path
        self._end = at
        self._sync_failed = False
        with storage_errors(str(path)):
            self._descriptor = open_new(path, os.O_WRONLY | os.O_CREAT)
            try:
                os.ftruncate(self._descriptor, at)
            except OSError:
                os.close(self._descriptor)
                raise

    def write(self, data: bytes | memoryview) -> None:
        with storage_errors(str(self._path)):
            view, position = memoryview(data), self._end
            while view:
                written = os.pwrite(self._descriptor, view, position)
                view, position = view[written:], position + written
        self._end = position

    def sync(self) -> None:
        # A kernel forgets pages it could not write, so a second fsync would claim success.
        if self._sync_failed:
            raise StorageError(
                f"{self._path}: an earlier fsync failed; check the disk and start the copy again."
            )
        try:
            with storage_errors(str(self._path)):
                os.fsync(self._descriptor)
        except StorageError:
            self._sync_failed = True
            raise

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with storage_errors(str(self._path)):
                os.close(descriptor)


class LocalNewFile:
    """Grows under its name: who looks sees how far it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Unbuffered: what comes are whole buffers of megabytes.
        self._file = FileIO(path, "x", opener=open_new)

    def write(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) or 0 :]

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def _take(descriptor: int, where: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunning(
            f"{where} is being written by another process: wait until it has finished."
        ) from None
    except OSError as error:
        raise StorageError(f"{where} cannot be locked ({error}); use a local folder.") from error


def _write_new(path: Path, chunks: Iterable[bytes]) -> None:
    descriptor = open_new(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
