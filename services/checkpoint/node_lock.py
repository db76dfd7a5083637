"""Lets one worker of a node at a time copy a checkpoint: two would replace each other's files.

A node is one machine, so a file lock is enough. The operating system releases the lock when its
process ends, however it ends.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.file_lock import lock, open_lock_file, unlock
from breakglass.services.guard.lock import private_folder
from breakglass.services.topic_backup.store.store import local_path


@contextmanager
def alone(address: str, node: int, folder: Path, id: int) -> Iterator[None]:
    """Exclude other workers of *node* from checkpoint *id* of the store at *address* for the block.

    Excludes workers that use the same *folder*, in other threads and in other processes.

    Raises:
        AlreadyRunning: another worker has the lock.
        StorageError: the lock file cannot be used.
    """
    path = private_folder(folder) / f"checkpoint-{_digest(address)}-{node}-{id}.lock"
    busy = (
        f"node {node} is at work on checkpoint {id}, in another process: wait until that has "
        f"ended; `breakglass checkpoint status {id}` says how far it is."
    )
    descriptor = _locked(path, busy)
    try:
        yield
    finally:
        # Removed under the lock: a process that opened the file earlier sees that its name is gone.
        path.unlink(missing_ok=True)
        unlock(descriptor)


def _locked(path: Path, busy: str) -> int:
    """The descriptor of a locked file that still has the name *path*."""

    def unusable(reason: str) -> str:
        return f"lock file {path} cannot be used ({reason}): check its rights, or remove it"

    while True:
        try:
            descriptor = open_lock_file(path)
        except OSError as error:
            raise StorageError(unusable(str(error.strerror))) from error
        try:
            lock(descriptor, lambda: busy, unusable)
            if _named(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _named(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _digest(address: str) -> str:
    """Tells stores apart, in whatever form their path is written."""
    path = local_path(address)
    place = address if path is None else str(path.resolve())
    return hashlib.sha256(place.encode()).hexdigest()[:16]
