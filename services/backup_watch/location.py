"""A location of backups: its topics, the state of each in a word, and the jobs that run there.

A topic that cannot be read does not hide the others. The backup reader is imported only when
a location is read, so a user who watches no backups does not wait for the import. A backup's lag is
computed from the current last stable offsets of its topics.

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
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, StorageError
from breakglass.services.file_lock import is_locked, wait_for_lock
from breakglass.services.guard.lock import operator, private_folder
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import READ_COMMITTED, read_leader_ends
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind, CaughtUpAgain
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.regular_file import open_regular, replace_regular
from breakglass.services.state_folder import state_folder
from breakglass.services.topic_backup.catalog import PartitionStatus, TopicStatus, topic_status
from breakglass.services.topic_backup.layout import folder_name
from breakglass.services.words.inert import bounded

if TYPE_CHECKING:
    from breakglass.services.topic_backup.catalog import HeldTopic
    from breakglass.services.topic_backup.store.blobs import Key

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
    for one in fields(job):
        if type(getattr(job, one.name)) not in _TYPES[str(one.type)]:
            raise TypeError(one.name)
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


ABSENT = Unknown("the cluster has no such partition")
RECREATED = Unknown("the topic was created again since: this is a backup of the one before")
OTHER_CLUSTER = Unknown("it is a backup of another cluster")
NOT_ASKED = Unknown("the cluster was not asked yet")
NO_MANIFEST = Unknown("without a manifest nothing says how far the backup goes")


@dataclass(frozen=True, slots=True)
class LiveEnds:
    """The last stable offset of each partition, or why it is unknown."""

    cluster_id: str
    ends: Mapping[TopicPartition, int | Unknown] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)

    def lag(self, topic: TopicStatus, part: PartitionStatus) -> int | Unknown:
        """Offsets of a partition that are not in its backup yet."""
        if topic.cluster_id is not None and topic.cluster_id != self.cluster_id:
            return OTHER_CLUSTER
        now = self.topic_ids.get(topic.topic)
        if topic.topic_id is not None and now is not None and topic.topic_id != now:
            return RECREATED
        end = self.ends.get(TopicPartition(topic.topic, part.partition), ABSENT)
        return end if isinstance(end, Unknown) else max(0, end - (part.next_offset or 0))

    def total_lag(self, topic: TopicStatus) -> int | Unknown:
        """Offsets of all partitions of *topic* that are not in its backup yet.

        Unknown if the lag of any partition is unknown.
        """
        if topic.commit is None:
            return NO_MANIFEST
        lags = [self.lag(topic, partition) for partition in topic.partitions]
        unknown = next((lag for lag in lags if isinstance(lag, Unknown)), None)
        return unknown or sum(lag for lag in lags if isinstance(lag, int))


def read_ends(client: ReadClient, topics: Collection[str], deadline: Deadline) -> LiveEnds:
    """Ask all leaders at once for the last stable offsets of *topics*.

    Raises:
        Unreachable, NotAuthorized: no broker returns the metadata, or an ACL is missing.
    """
    cluster_id = client.describe(deadline).cluster_id
    wanted = set(topics)
    # Metadata for a topic that does not exist is an error, so one request asks for all topics.
    states = [
        partition
        for partition in client.partitions((), deadline)
        if partition.partition.topic in wanted
    ]
    return LiveEnds(
        cluster_id,
        read_leader_ends(client.sender, states, deadline, isolation_level=READ_COMMITTED),
        {state.partition.topic: state.topic_id for state in states},
    )


@dataclass(frozen=True)
class TopicHeld:
    """One generation of a topic, with its totals."""

    topic: str
    generation: int
    newest: bool
    """Whether this is the topic's latest generation."""
    status: TopicStatus | None
    unread: str = ""
    """Why *status* is None."""

    @property
    def name(self) -> str:
        """The folder's name: ``orders``, ``orders~2``."""
        return self.status.name if self.status else folder_name(self.topic, self.generation)

    @property
    def partitions(self) -> tuple[PartitionStatus, ...]:
        return self.status.partitions if self.status else ()

    @cached_property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @cached_property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    @cached_property
    def segments(self) -> int:
        return sum(partition.segments for partition in self.partitions)

    @cached_property
    def lost(self) -> int:
        return sum(partition.lost for partition in self.partitions)


@dataclass(frozen=True)
class LocationHeld:
    """All topics in one location of backups."""

    topics: tuple[TopicHeld, ...]

    @cached_property
    def newest_ms(self) -> int | None:
        """The time of the latest commit; None if nothing was committed."""
        moments = (topic.status.committed_at_ms for topic in self.topics if topic.status)
        return max((moment for moment in moments if moment is not None), default=None)


def full_address(url: str) -> str:
    """*url* in the same spelling in every process, whatever its working directory.

    Raises:
        UsageError: *url* is not a valid address of backups.
    """
    from breakglass.services.topic_backup.store.store import open_store

    return open_store(url).where()


def read_location(url: str, key: Key | None = None) -> LocationHeld:
    """Read the status of every topic at *url*; with the *key*, of encrypted ones too.

    Raises:
        UsageError: the location does not exist or has no backup.
        StorageError: the location cannot be listed.
    """
    from breakglass.services.topic_backup.catalog import held_topics
    from breakglass.services.topic_backup.store.store import open_store

    held = held_topics(open_store(url, key))
    last = {topic.topic: topic.generation for topic in sorted(held)}
    return LocationHeld(
        tuple(_topic(topic, last[topic.topic] == topic.generation) for topic in held)
    )


def _topic(held: HeldTopic, newest: bool) -> TopicHeld:
    try:
        status = topic_status(held)
    except BreakglassError as error:
        return TopicHeld(held.topic, held.generation, newest, None, str(error))
    return TopicHeld(held.topic, held.generation, newest, status)


class BackupState(StrEnum):
    """The state of a topic's backup, most urgent first."""

    UNREADABLE = "unreadable"
    """Its manifest cannot be read."""
    DAMAGED = "damaged"
    """Files are missing or too short, or the last verification found damage or differences."""
    LOST = "lost"
    """Offsets are missing for a reason other than compaction or transactions."""
    RUNNING = "running"
    """A job is copying it."""
    BARE = "no manifest"
    """Kafka Backup made it: without a manifest, only its files can be checked."""
    UNVERIFIED = "unverified"
    """The last commit has not been verified."""
    VERIFIED = "verified"


def state_of(held: TopicHeld, running: Collection[str] = ()) -> BackupState:
    """The state of *held*; *running* are the topics that jobs are copying."""
    status = held.status
    if status is None:
        return BackupState.UNREADABLE
    if status.damaged:
        return BackupState.DAMAGED
    if held.lost:
        return BackupState.LOST
    if held.newest and held.topic in running:
        return BackupState.RUNNING
    if status.commit is None:
        return BackupState.BARE
    return BackupState.VERIFIED if status.verified_now else BackupState.UNVERIFIED


def running_topics(jobs: Collection[SeenJob], url: str) -> frozenset[str]:
    """The topics that jobs on the backups at *url* are copying."""
    return frozenset(
        job.job.topic for job in jobs if job.life is Life.RUNNING and job.job.url == url
    )
