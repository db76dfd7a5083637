"""Folders and files that only their owner may read: a backup holds what Kafka's ACLs hid."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.errors import AlreadyRunning, StorageError
from breakglass.services.topic_backup.folder import LocalAppendFile, LocalFolder, storage_errors

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def private_folder(path: Path) -> LocalFolder:
    """The folder at *path*, made for its owner alone with its parents; rights are set right.

    Raises: StorageError.
    """
    with storage_errors(str(path)):
        missing = not path.exists()
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if missing:
            LocalFolder(path.parent).sync()
        if path.stat().st_mode & 0o777 != FOLDER_MODE:
            path.chmod(FOLDER_MODE)
    return LocalFolder(path)


def private_append(path: Path, at: int) -> LocalAppendFile:
    """The file at *path*, made if it is missing and cut to *at* bytes, to be written on.

    Raises: StorageError.
    """
    with storage_errors(str(path)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            os.fchmod(descriptor, FILE_MODE)
        finally:
            os.close(descriptor)
    return LocalAppendFile(path, at)


def fingerprint(path: Path) -> tuple[int, int]:
    """Which file has that name, and how long it is: what another program's writing changes.

    Raises: StorageError.
    """
    with storage_errors(str(path)):
        found = os.stat(path)
    return found.st_ino, found.st_size


def lock_file(location: Path, topic: str) -> Path:
    """What whoever writes backups of *topic* to *location* holds a lock on."""
    return location / f".{topic}.lock"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at *path*; the kernel frees it when the process ends.

    Raises:
        AlreadyRunning: another process holds it.
        StorageError: it cannot be used.
    """
    with storage_errors(str(path)):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, FILE_MODE)
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunning(
            f"{path.parent} is written by another backup of this service: one is enough, so leave "
            "that one running or end it first."
        ) from None
    except OSError as error:
        raise StorageError(f"{path} cannot be locked ({error}); use a local folder.") from error


def remove_if_there(path: Path) -> None:
    """Remove a file that may be missing. Raises: StorageError."""
    with storage_errors(str(path)):
        path.unlink(missing_ok=True)
