"""One worker of a node at a checkpoint: two would remove and replace each other's files.

A node is a machine, so a lock on it is enough. The system frees it when its process ends, however
that comes to pass.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.errors import AlreadyRunning, StorageError
from breakglass.services.guard.lock import private_folder
from breakglass.services.topic_backup.store.store import local_path


@contextmanager
def alone(address: str, node: int, folder: Path, id: int) -> Iterator[None]:
    """Keep other workers of *node* from checkpoint *id* of the store at *address* for the block.

    It keeps out those that use the same *folder*, in other threads and in other processes.

    Raises:
        AlreadyRunning: there is one.
        StorageError: the lock's file cannot be used.
    """
    path = private_folder(folder) / f"checkpoint-{_digest(address)}-{node}-{id}.lock"
    try:
        descriptor = _locked(path)
    except BlockingIOError:
        raise AlreadyRunning(
            f"node {node} is at work on checkpoint {id}, in another process: wait until that has "
            f"ended; `breakglass checkpoint status {id}` says how far it is."
        ) from None
    except OSError as error:
        raise StorageError(
            f"lock file {path} cannot be used ({error.strerror}): check its rights, or remove it"
        ) from error
    try:
        yield
    finally:
        # Removed while it is held: whoever opened it before finds that it is no longer there.
        path.unlink(missing_ok=True)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _locked(path: Path) -> int:
    """The descriptor of a file that is locked, and still has the name *path*."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    """Tells stores apart, however their path is written."""
    path = local_path(address)
    place = address if path is None else str(path.resolve())
    return hashlib.sha256(place.encode()).hexdigest()[:16]
