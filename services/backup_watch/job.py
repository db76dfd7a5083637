"""Reports the progress of running jobs to other processes of the same account.

Each job writes a small file and replaces it as a whole. A lock file beside it is locked while the
job's process lives; the kernel unlocks it however the process ends. A job continues even if its
progress file cannot be written.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError
from breakglass.services.file_lock import is_locked, wait_for_lock
from breakglass.services.guard.lock import operator, private_folder
from breakglass.services.lag import Behind, CaughtUpAgain
from breakglass.services.regular_file import open_regular, replace_regular
from breakglass.services.state_folder import state_folder
from breakglass.services.words.inert import bounded

FOLDER = "backup-jobs"
SCHEMA = 1
KINDS = ("backup", "restore")
BEAT_SECONDS = 1.0
SILENT_MS = 15_000
"""A job that has not reported for this long is stopped, or its machine is gone."""
FORGET_MS = 24 * 3_600_000
"""Age after which the next job removes the files of a dead job."""
MAX_BYTES = 64 * 1024
SHOWN = 300
"""Maximum length of a reason, in characters."""
_FILE, _LOCK = ".json", ".lock"


class JobProgress(Protocol):
    """The progress of a copy, as services/pipeline/backup_context.py reports it."""

    @property
    def topic(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Job:
    """The state that a job reports."""

    kind: str
    """One of `KINDS`."""
    url: str
    """The backup's URL, as `services.backup_watch.location.full_address` writes it."""
    who: str
    host: str
    pid: int
    began_at_ms: int
    told_at_ms: int
    topic: str = ""
    """The topic that is being copied; empty before the first copy."""
    done: int = 0
    """Offsets that were copied or accounted for, over all topics."""
    total: int = 0
    bytes: int = 0
    seconds: float = 0.0
    behind_since_ms: int = 0
    """Since when a continuous backup is behind; 0: it is caught up."""
    behind: str = ""

    @property
    def bytes_a_second(self) -> float:
        return self.bytes / self.seconds if self.seconds > 0 else 0.0

    def with_progress(self, now: JobProgress) -> Job:
        return replace(
            self,
            topic=now.topic,
            done=now.done,
            total=now.total,
            bytes=now.bytes,
            seconds=now.seconds,
        )


class Life(StrEnum):
    """Whether a job that reported is still running."""

    RUNNING = "running"
    SILENT = "silent"
    """Its process may be running, but has not reported lately."""
    DEAD = "dead"
    """Its process ended before the job did."""


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job as seen by another process."""

    job: Job
    life: Life
    path: Path


class Announcement:
    """Reports a job from its own thread until it is ended."""

    def __init__(self, job: Job, path: Path) -> None:
        self._job, self._path = job, path
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name="job", daemon=True)
        self._write()
        self._thread.start()

    def __call__(self, now: JobProgress) -> None:
        """Store the job's progress; the next beat writes it."""
        self._job = self._job.with_progress(now)

    def lag(self, change: Behind | CaughtUpAgain) -> None:
        """Store that the job fell behind or caught up, and write it at once."""
        since, reason = 0, ""
        if isinstance(change, Behind):
            since, reason = change.since_ms, bounded(change.reason, SHOWN)
        self._job = replace(self._job, behind_since_ms=since, behind=reason)
        if not self._ended.is_set():
            self._write()

    def end(self) -> None:
        """Stop reporting and remove the file: the job has ended."""
        self._ended.set()
        self._thread.join()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self._write()

    def _write(self) -> None:
        with self._writing, suppress(OSError):
            job = replace(self._job, told_at_ms=now_ms())
            content = json.dumps({"schema": SCHEMA, **asdict(job)}).encode()
            replace_regular(self._path, content, 0o600)


@contextmanager
def announced(kind: str, url: str, folder: Path | None = None) -> Iterator[Announcement | None]:
    """Report a job during the ``with`` block; yields None if nothing can be written.

    *folder* is the state folder; by default, the user's own.
    """
    now = now_ms()
    job = Job(kind, url, operator(), socket.gethostname(), os.getpid(), now, now)
    try:
        home = private_folder((folder or state_folder()) / FOLDER)
        # Remove files of dead jobs that are old or have the kind and URL of job.
        for path in home.glob(f"*{_FILE}"):
            seen = _seen(path, job.began_at_ms)
            again = seen is not None and (seen.job.kind, seen.job.url) == (job.kind, job.url)
            old = seen is None or job.began_at_ms - seen.job.told_at_ms > FORGET_MS
            if (again or old) and not _locked(path.with_suffix(_LOCK)):
                path.unlink(missing_ok=True)
                path.with_suffix(_LOCK).unlink(missing_ok=True)
        name = f"{job.pid}-{secrets.token_hex(4)}"
        lock = os.open(home / f"{name}{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except (OSError, StorageError):
        yield None
        return
    try:
        wait_for_lock(lock)
        announcement = Announcement(job, home / f"{name}{_FILE}")
        try:
            yield announcement
        finally:
            announcement.end()
    finally:
        with suppress(OSError):
            (home / f"{name}{_LOCK}").unlink(missing_ok=True)
        os.close(lock)


def read_jobs(now_ms: int, folder: Path | None = None) -> list[SeenJob]:
    """The jobs that have reported and have not ended, newest first.

    Files that cannot be read are skipped.
    """
    home = (folder or state_folder()) / FOLDER
    try:
        paths = list(home.glob(f"*{_FILE}"))
    except OSError:
        return []
    found = [seen for path in paths if (seen := _seen(path, now_ms)) is not None]
    return sorted(found, key=lambda job: -job.job.began_at_ms)


def _seen(path: Path, now_ms: int) -> SeenJob | None:
    try:
        with open_regular(path) as file:
            said = json.loads(file.read(MAX_BYTES))
        if said.pop("schema") != SCHEMA:
            return None
        job = _checked(Job(**said))
        return SeenJob(job, _life(job, path, now_ms), path)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _checked(job: Job) -> Job:
    """Return *job* if its kind and field types are valid. Raises TypeError, ValueError."""
    if job.kind not in KINDS:
        raise ValueError(job.kind)
    for field in fields(job):
        if type(getattr(job, field.name)) not in _TYPES[str(field.type)]:
            raise TypeError(field.name)
    return job


_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}


def _life(job: Job, path: Path, now_ms: int) -> Life:
    if job.host == socket.gethostname() and not _locked(path.with_suffix(_LOCK)):
        return Life.DEAD
    return Life.SILENT if now_ms - job.told_at_ms > SILENT_MS else Life.RUNNING


def _locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return is_locked(descriptor)
    finally:
        os.close(descriptor)
