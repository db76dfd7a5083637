"""Locks on files (flock): the system frees a lock when its process ends, however it ends.

A lock keeps out other processes of the same machine, and other openings of the same file in this
process. Whether the file system has such locks at all, the first lock shows.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from breakglass.services.errors import AlreadyRunning, StorageError


def open_lock_file(path: Path) -> int:
    """Open the lock file at *path*, made for its owner alone; returns the descriptor.

    Raises: OSError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def lock(descriptor: int, taken: Callable[[], str], unusable: Callable[[str], str]) -> None:
    """Lock the file of *descriptor* for this process alone, without waiting.

    *taken* says what to do if another process has the lock, *unusable* what to do about a reason
    of the system, such as ``Operation not supported``.

    Raises:
        AlreadyRunning: another process has the lock.
        StorageError: the file cannot be locked.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunning(taken()) from None
    except OSError as error:
        raise StorageError(unusable(str(error.strerror))) from error


def wait_for_lock(descriptor: int) -> None:
    """Lock the file of *descriptor* for this process alone, however long that takes.

    Raises: OSError.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def unlock(descriptor: int) -> None:
    """Free the lock and close the file.

    Closing alone would leave it locked while a child between fork and exec has a copy.
    """
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def is_locked(descriptor: int) -> bool:
    """Whether another opening of the file of *descriptor* has it locked for itself alone.

    The shared lock with which this is asked keeps no other reader out; close *descriptor* after it.

    Raises:
        OSError: the file system has no such locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
