"""One recovery of one cluster at a time: a lock file for each cluster id.

Files of lines that sessions of one account append to, each line whole and on disk.
Any number of sessions write at once: none between the parts of another's write. A file may be
replaced by a shorter one in the meantime, so who waited for its lock looks if it is still there.
"""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote

from breakglass.services.errors import StorageError
from breakglass.services.file_lock import is_locked, lock, open_lock_file, unlock, wait_for_lock
from breakglass.services.regular_file import replacing


def operator() -> str:
    """Who runs this process, ``user@host``, by the system's account and not by ``$USER``."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def file_name(cluster_id: str) -> str:
    """*cluster_id* as the name of a file or folder, whatever a broker put into it."""
    return "cluster-" + quote(cluster_id, safe="")


def clusters_in(folder: Path) -> list[str]:
    """Ids of the clusters that have a file of lines, or a folder, in *folder*."""
    prefix = file_name("")
    names = [path.name.removesuffix(".jsonl") for path in folder.glob(f"{prefix}*")]
    return sorted(unquote(name.removeprefix(prefix)) for name in names)


def private_folder(path: Path) -> Path:
    """Make the folder, for its owner alone, with its parents.

    Raises: StorageError.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be made ({error.strerror}): make it, for you alone to use"
        ) from error
    return path


class ClusterLock:
    """The lock that a process has while it changes a cluster; the system frees it at its end.

    It keeps out processes that use the same state folder on the same machine: those of one
    account. Operators elsewhere are noticed by what they change in the cluster.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, cluster_id: str, folder: Path) -> Self:
        """Take the lock of *cluster_id*, whose file is in *folder*.

        Raises:
            AlreadyRunning: another process has the lock; the message says who, and since when.
            StorageError: the file cannot be used.
        """
        path = private_folder(folder) / f"{file_name(cluster_id)}.lock"
        try:
            descriptor = open_lock_file(path)
        except OSError as error:
            raise StorageError(_unusable(path, str(error.strerror))) from error

        def taken() -> str:
            signature = os.pread(descriptor, 4096, 0)
            holder = _signature(signature)
            who = holder.get("who", "another process")
            since = f" since {holder['since']}" if "since" in holder else ""
            pid = f" (process {holder['pid']})" if "pid" in holder else ""
            return (
                f"{who}{pid} has been changing cluster {cluster_id}{since}: wait until it ends, "
                "then look at the cluster again"
            )

        try:
            lock(descriptor, taken, lambda reason: _unusable(path, reason))
            now = datetime.now(UTC).isoformat(timespec="seconds")
            signature = {"who": operator(), "pid": os.getpid(), "since": now}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(signature).encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise StorageError(_unusable(path, str(error.strerror))) from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Release the lock; releasing twice does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            unlock(descriptor)


def signature(cluster_id: str, folder: Path) -> dict[str, Any]:
    """Who has the lock of *cluster_id* in *folder*: ``who``, ``pid``, ``since``; empty if nobody.

    The file is only read. One that a killed process left is signed, yet nobody has its lock.
    """
    path = folder / f"{file_name(cluster_id)}.lock"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        return _signature(os.pread(descriptor, 4096, 0)) if is_locked(descriptor) else {}
    except OSError:
        return {}
    finally:
        os.close(descriptor)


def _signature(text: bytes) -> dict[str, Any]:
    """Who has the lock; empty when that process has not signed the file yet."""
    try:
        holder = json.loads(text)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _unusable(path: Path, reason: str) -> str:
    return f"lock file {path} cannot be used ({reason}): check its rights, or remove it"


def append_lines(path: Path, lines: bytes, what: str) -> None:
    """Append whole *lines* to the file of *what*, which is made for its owner alone.

    Raises: StorageError.
    """
    if not lines:
        return
    private_folder(path.parent)
    try:
        with _locked(path) as descriptor:
            # A line break if the last line lacks its own.
            size = os.fstat(descriptor).st_size
            broken = size and os.pread(descriptor, 1, size - 1) != b"\n"
            view = memoryview((b"\n" if broken else b"") + lines)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
    except OSError as error:
        raise _unwritable(path, what, error) from error


def shorten(path: Path, kept: Callable[[bytes], bytes], what: str) -> None:
    """Put in place of the file what *kept* makes of its contents, at once.

    Raises: StorageError.
    """
    try:
        with _locked(path) as descriptor, replacing(path, 0o600) as fresh:
            size = os.fstat(descriptor).st_size
            fresh.write(kept(os.pread(descriptor, size, 0)))
    except OSError as error:
        raise _unwritable(path, what, error) from error


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file at *path*, opened and locked for this process alone. Raises OSError."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o600)
        try:
            wait_for_lock(descriptor)
            there = os.stat(path, follow_symlinks=False).st_ino == os.fstat(descriptor).st_ino
            if there:
                yield descriptor
                return
        except FileNotFoundError:
            continue
        finally:
            unlock(descriptor)


def _unwritable(path: Path, what: str, error: OSError) -> StorageError:
    return StorageError(
        f"{what} {path} cannot be written ({error.strerror}): free space there, or check its rights"
    )
