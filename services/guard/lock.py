"""One recovery of one cluster at a time: a lock file for each cluster id."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from breakglass.services.errors import AlreadyRunning, StorageError


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
    """Held while a process changes a cluster; the system frees it when that process ends.

    It keeps out processes that use the same state folder on the same machine: those of one
    account. Operators elsewhere are noticed by what they change in the cluster.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, cluster_id: str, folder: Path) -> Self:
        """Take the lock of *cluster_id*, whose file is in *folder*.

        Raises:
            AlreadyRunning: another process holds it; says who, and since when.
            StorageError: the file cannot be used.
        """
        path = private_folder(folder) / f"{file_name(cluster_id)}.lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sign(descriptor)
        except BlockingIOError:
            holder = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise AlreadyRunning(_told_off(cluster_id, holder)) from None
        except OSError as error:
            os.close(descriptor)
            raise _unusable(path, error) from error
        return cls(descriptor)

    def release(self) -> None:
        """Let the next one in; releasing twice does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            # Closing alone would leave it locked while a child between fork and exec has a copy.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def signature(cluster_id: str, folder: Path) -> dict[str, Any]:
    """Who holds the lock of *cluster_id* in *folder*: ``who``, ``pid``, ``since``; empty if nobody.

    The file is only read. One that a killed process left is signed and held by nobody.
    """
    path = folder / f"{file_name(cluster_id)}.lock"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _signature(os.pread(descriptor, 4096, 0))
    except OSError:
        return {}
    finally:
        os.close(descriptor)
    return {}


def _sign(descriptor: int) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    signature = {"who": operator(), "pid": os.getpid(), "since": now}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(signature).encode(), 0)


def _told_off(cluster_id: str, signature: bytes) -> str:
    holder = _signature(signature)
    who = holder.get("who", "another process")
    since = f" since {holder['since']}" if "since" in holder else ""
    pid = f" (process {holder['pid']})" if "pid" in holder else ""
    return (
        f"{who}{pid} has been changing cluster {cluster_id}{since}: wait until it ends, then look "
        "at the cluster again"
    )


def _signature(text: bytes) -> dict[str, Any]:
    """Who holds the lock; empty when that process has not written it yet."""
    try:
        holder = json.loads(text)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _unusable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"lock file {path} cannot be used ({error.strerror}): check its rights, or remove it"
    )
