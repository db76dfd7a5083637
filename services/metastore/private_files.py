"""Creates files that only their owner may read: a backup contains what Kafka's ACLs protect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.file_lock import lock, open_lock_file
from breakglass.services.rights import open_new, require_own_way
from breakglass.services.topic_backup.folder import LocalAppendFile, LocalFolder, storage_errors

FILE_MODE = 0o600
FOLDER_MODE = 0o700
LOCKS = Path("/proc/locks")


def private_folder(path: Path) -> LocalFolder:
    """The folder at *path*, created with its parents for its owner alone; permissions are fixed.

    Raises:
        StorageError: it cannot be used, or belongs to another account, which may change its files.
    """
    with storage_errors(str(path)):
        require_own_way(path)
        missing = not path.exists()
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if missing:
            LocalFolder(path.parent).sync()
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise StorageError(
                f"{path} belongs to another account (user id {found.st_uid}), which can change "
                "what is in it: run as that account, or name a folder of your own."
            )
        if found.st_mode & 0o777 != FOLDER_MODE:
            path.chmod(FOLDER_MODE)
    return LocalFolder(path)


def private_append(path: Path, at: int) -> LocalAppendFile:
    """Open the file at *path* for appending: created if missing, and truncated to *at* bytes.

    Raises: StorageError.
    """
    with storage_errors(str(path)):
        descriptor = open_new(path, os.O_WRONLY | os.O_CREAT)
        try:
            os.fchmod(descriptor, FILE_MODE)
        finally:
            os.close(descriptor)
    return LocalAppendFile(path, at)


def fingerprint(path: Path) -> tuple[int, int]:
    """The identity and size of the file at *path*; a write by another program changes them.

    Raises: StorageError.
    """
    with storage_errors(str(path)):
        found = os.stat(path)
    return found.st_ino, found.st_size


def lock_file(location: Path, topic: str) -> Path:
    """The lock file that a writer of backups of *topic* in *location* must lock."""
    return location / f".{topic}.lock"


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock, by the kernel's list: taking it would disturb others."""
    try:
        stat = path.stat()
        locks = LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    file = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    return any(file in line.split() and "FLOCK" in line for line in locks.splitlines())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file at *path* for the block; the kernel releases it when the process ends.

    Raises:
        AlreadyRunning: another process has the lock.
        StorageError: the file cannot be used.
    """
    with storage_errors(str(path)):
        descriptor = open_lock_file(path)
    try:
        lock(
            descriptor,
            lambda: (
                f"{path.parent} is written by another backup of this service: leave that backup "
                "running, or end it first."
            ),
            lambda reason: f"{path} cannot be locked ({reason}); use a local folder.",
        )
        yield
    finally:
        os.close(descriptor)


def remove_if_there(path: Path) -> None:
    """Remove a file if it exists. Raises: StorageError."""
    with storage_errors(str(path)):
        path.unlink(missing_ok=True)
