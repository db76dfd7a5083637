"""Accesses a topic's files: the operations that the format needs, and a local folder.

Every `Folder` guarantees that `replace` is atomic and that completed `sync` calls survive a power
cut. Only an `AppendFolder` can append to files; the other folders are in `topic_backup.store`.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import FileIO
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol

from breakglass.services.errors import DiskFull, StorageError
from breakglass.services.file_lock import lock
from breakglass.services.regular_file import open_regular
from breakglass.services.rights import make_folders, open_new, require_own_way, sync_folder
from breakglass.services.topic_backup.layout import MANIFEST

TEMPORARY = (".breakglass-", ".tmp")
"""Prefix and suffix of the name of a file that has not been renamed yet."""


def temporary_name() -> str:
    """The name of a file that gets its own by being renamed."""
    before, after = TEMPORARY
    return f"{before}{secrets.token_hex(8)}{after}"


def is_temporary(name: str) -> bool:
    """Whether *name*, which may be below other folders, is of a file that was not renamed."""
    before, after = TEMPORARY
    return name.rpartition("/")[2].startswith(before) and name.endswith(after)


State = tuple[int | str, ...]
"""A value that changes whenever the file changes."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_NEXT_STEPS = {
    errno.ENOSPC: "free space on that file system and run the command again",
    errno.EDQUOT: "raise the quota or free space and run the command again",
    errno.EACCES: "check the owner and the permissions",
    errno.EPERM: "check the owner and the permissions",
    errno.EROFS: "choose a folder on a writable file system",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or take the file from another copy",
    errno.EINVAL: "take the file from another copy",
    errno.ELOOP: "it is a link, and is not followed: find out who put it there, and remove it",
    errno.ENXIO: "it is no regular file: find out who put it there, and remove it",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


@contextmanager
def storage_errors(where: str) -> Iterator[None]:
    """Convert an OSError about *where* to a StorageError that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        step = _NEXT_STEPS.get(error.errno or 0, "check the disk and the kernel's log")
        kind = DiskFull if error.errno in FULL else StorageError
        raise kind(f"{where}: {reason}; {step}.") from error


def inside(folder: Path, name: str) -> Path:
    """The path of *name* below *folder*; *name* may come from an untrusted document.

    Raises StorageError: the path is outside *folder*.
    """
    parts = name.split("/")
    if not name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise StorageError(
            f"{folder}: a document names the file {name!r}, which leads elsewhere: do not trust "
            "this backup, and take it from another copy."
        )
    return folder / name


def file_size(path: Path) -> int | None:
    """The size of the file at *path*; None if it does not exist. Raises StorageError."""
    with storage_errors(str(path)):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None


def file_state(path: Path) -> State | None:
    """The state of the file at *path*; None if it does not exist.

    Raises StorageError: the state cannot be read.
    """
    with storage_errors(str(path)):
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def read_whole(folder: Folder, name: str, most: int) -> bytes:
    """Read a whole file of at most *most* bytes, without allocating its claimed size first.

    Raises StorageError: the file cannot be read, or is larger.
    """
    with folder.open(name) as file:
        return read_bounded(file, folder.where(name), most)


def read_bounded(file: BinaryIO, where: str, most: int) -> bytes:
    """Read a whole open file. Raises as `read_whole`."""
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
    """A file that only grows. A `write` that raises StorageError leaves it unchanged."""

    def write(self, data: bytes) -> None: ...

    def sync(self) -> None:
        """Return when all written bytes would survive a power cut."""

    def close(self) -> None: ...


class NewFile(Protocol):
    """A file that one writer writes from beginning to end."""

    def write(self, data: memoryview) -> None:
        """Append *data*; the caller may reuse its buffer afterwards."""

    def close(self) -> None:
        """Return when the file has its name and would survive a power cut."""

    def abandon(self) -> None:
        """Remove what was written."""


class Folder(Protocol):
    """The files of one topic. Can be pickled for other processes."""

    @property
    def original(self) -> bool:
        """Whether the files have the layout that Kafka Backup's readers expect."""

    def where(self, name: str = "") -> str:
        """The full address of a file, or of the folder, for messages."""

    def names(self) -> list[str]: ...

    def size(self, name: str) -> int | None:
        """The size of a file; None if it does not exist."""

    def state(self, name: str) -> State | None:
        """The state of a file; None if it does not exist or its state cannot prove it unchanged."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; it is seekable."""

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a whole file, atomically and durably."""

    def begin(self, name: str) -> NewFile:
        """Create a file whose name no other writer uses. Raises OSError."""

    def remove(self, name: str) -> None: ...

    def sync(self) -> None:
        """Make created and removed names durable."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other writers out, if the folder can be locked.

        Raises AlreadyRunning: another process is writing to the folder.
        """

    def manifest(self) -> str | None:
        """The name of the last commit's manifest; None if nothing was committed."""

    def commit(self, version: int, content: bytes, /) -> None:
        """Write the manifest of the next commit, atomically and durably.

        Raises AlreadyRunning: another process has made that commit.
        """


class AppendFolder(Folder, Protocol):
    """A folder that can append to files."""

    def append(self, name: str, at: int) -> AppendFile:
        """Open a file to append from byte *at*; later bytes are cut off. 0 creates the file."""


def write_at(folder: AppendFolder, name: str, at: int, chunks: Iterable[bytes] = ()) -> None:
    """Write *chunks* at byte *at* of a file, durably; later bytes are cut off."""
    file = folder.append(name, at)
    try:
        for chunk in chunks:
            file.write(chunk)
        file.sync()
    finally:
        file.close()


class LocalFolder:
    """A folder on this machine, with Kafka Backup's layout."""

    original: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> LocalFolder:
        """The folder at *path*; creates it and missing parents durably."""
        with storage_errors(str(path)):
            missing = [parent for parent in (path, *path.parents) if not parent.exists()]
            make_folders(path)
            for one in missing:
                sync_folder(one.parent)
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
        temporary = self.path / temporary_name()
        with storage_errors(self.where(name)):
            try:
                descriptor = open_new(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                with os.fdopen(descriptor, "wb") as file:
                    file.writelines(chunks)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self.path / name)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        self.sync()

    def begin(self, name: str) -> NewFile:
        return LocalNewFile(self.path / name)

    def rename(self, old: str, new: str) -> None:
        """Rename the file *old* to *new*, replacing it; durable after `sync`."""
        with storage_errors(self.where(new)):
            (self.path / old).replace(self.path / new)

    def remove(self, name: str) -> None:
        with storage_errors(self.where(name)):
            require_own_way(self.path)
            (self.path / name).unlink()

    def sync(self) -> None:
        with storage_errors(self.where()):
            sync_folder(self.path)

    def manifest(self) -> str | None:
        return MANIFEST if self.size(MANIFEST) is not None else None

    def commit(self, _: int, content: bytes, /) -> None:
        """Replace the manifest; the lock keeps other writers out."""
        self.replace(MANIFEST, [content])

    def remove_leftovers(self) -> None:
        """Remove the temporary files of a killed writer. Call only under `lock`."""
        for name in filter(is_temporary, self.names()):
            self.remove(name)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for its only writer; the kernel unlocks it when the process ends.

        Raises AlreadyRunning: another process is writing to the folder.
        """
        with storage_errors(self.where()):
            require_own_way(self.path)
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            lock(
                descriptor,
                lambda: (
                    f"{self.where()} is being written by another process: wait until it has "
                    "finished."
                ),
                lambda reason: f"{self.where()} cannot be locked ({reason}); use a local folder.",
            )
            yield
        finally:
            os.close(descriptor)


class LocalAppendFile:
    """Writes at positions that it counts itself, so a failed write can simply be retried."""

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
        # After a failed fsync the kernel drops the dirty pages, so a second fsync would succeed
        # although the data are lost.
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
    """Has its final name from the beginning, so other processes can see its size."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Unbuffered, because callers already write buffers of megabytes.
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
