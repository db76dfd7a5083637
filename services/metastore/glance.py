"""What the console shows of ksqlDB services: metastore, history, and the state of their backups.

A backup that runs writes since when it is behind to a status file; the overview's line asks no
cluster.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, ClusterError, StorageError
from breakglass.services.health.figure import BackupGlance
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind
from breakglass.services.metastore.lines import (
    BackupLine,
    CommandPair,
    CommandRecord,
    ComparisonCounts,
    counted,
    lines_in,
    pairs,
    read_lines,
)
from breakglass.services.metastore.log.reader import AppliedCommand, Degraded, Replay
from breakglass.services.metastore.log.validator import inconsistencies
from breakglass.services.metastore.log.writer import TopicsNow
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.metastore.settings import is_locked, lock_file, newest, service_of
from breakglass.services.metastore.topic import (
    Alarm,
    LogCut,
    TopicReader,
    dangers,
    read_topic_state,
)
from breakglass.services.model import Unknown
from breakglass.services.regular_file import open_regular
from breakglass.services.rights import open_new
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text

SCHEMA = 1
BYTES = 2048
MOST_REASON = 300
"""Maximum characters of a reason."""


def status_file(location: Path, topic: str) -> Path:
    """The path of a topic's backup status."""
    return location / f"{topic}.status.json"


def write_status(location: Path, topic: str, behind: Behind | None) -> None:
    """Write since when the backup is *behind*; None: it is not behind. Raises: StorageError."""
    path = status_file(location, topic)
    document: dict[str, object] = {"schema": SCHEMA, "state": "behind" if behind else "following"}
    if behind is not None:
        document |= {"since_ms": behind.since_ms, "reason": bounded(behind.reason, MOST_REASON)}
    content = json.dumps(document).encode().ljust(BYTES - 1) + b"\n"
    with storage_errors(str(path)):
        descriptor = open_new(path, os.O_WRONLY | os.O_CREAT)
        try:
            if os.pwrite(descriptor, content, 0) != len(content):
                raise StorageError(f"{path}: written in part; free space on that file system.")
        finally:
            os.close(descriptor)


def read_status(location: Path, topic: str) -> Behind | None:
    """Since when the backup is behind; None if it is not behind, or if the status is unknown."""
    try:
        with open_regular(status_file(location, topic)) as file:
            told = json.loads(file.read(BYTES))
        if told["schema"] != SCHEMA or told["state"] != "behind":
            return None
        return Behind(int(told["since_ms"]), str(told["reason"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def alarm_file(location: Path, topic: str) -> Path:
    """The path of a topic's alarms."""
    return location / f"{topic}.alarms.jsonl"


def note_alarm(location: Path, topic: str, alarm: Alarm) -> None:
    """Append *alarm*, and wait until it is on disk. Raises: StorageError."""
    path = alarm_file(location, topic)
    document = {
        "at_ms": now_ms(),
        "danger": alarm.danger.value,
        "message": alarm.message,
        **alarm.evidence,
    }
    with storage_errors(str(path)):
        descriptor = open_new(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, json.dumps(document).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


ALARM_MS = 24 * 3_600_000
"""How long the overview shows an alarm."""
TAIL_BYTES = 16 * 1024
SHOWN = 120
_KLIP = re.compile(r"(.+)_\d+\.bak")
_SHIPPED = re.compile(r"backup_(.+)_\d+")


@dataclass(frozen=True, slots=True)
class SeenMetastore:
    """The newest backup of one service."""

    service_id: str
    commands: int
    written_ms: int
    followed: bool
    """Whether a process writes it now."""
    behind: Behind | None
    """Since when that process is behind; None: it is not, or there is none."""
    alarm_ms: int | None
    """When the last alarm was raised; None: no alarm is recent."""
    alarm: str

    @property
    def trouble(self) -> str:
        """That a running backup is behind, and the last alarm; empty if neither."""
        late = "" if self.behind is None else bounded(str(self.behind), SHOWN)
        return "; ".join(text for text in (late, self.alarm) if text)


class MetastoreGlance:
    """The backups of every service in a folder (a `MonitoredBackup`)."""

    name = "metastore"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted: dict[Path, tuple[tuple[int, int], int]] = {}
        """By file: length and modification time, and the number of commands at that time."""

    def glance(self, deadline: Deadline) -> BackupGlance:
        """Examine the folder. Raises: StorageError."""
        del deadline
        services = self.look()
        if not services:
            return BackupGlance(f"none in {self._folder}", None)
        commands = sum(service.commands for service in services)
        followed = sum(service.followed for service in services)
        if len(services) == 1:
            state = f"{bounded(services[0].service_id, 40)}, {commands:,} commands"
            state += ", followed" if followed else ", not followed now"
        else:
            state = f"{len(services):,} services, {followed:,} followed, {commands:,} commands"
        trouble = "; ".join(service.trouble for service in services if service.trouble)
        return BackupGlance(state, max(service.written_ms for service in services), trouble)

    def look(self) -> tuple[SeenMetastore, ...]:
        """The newest backup of every service in the folder. Raises: StorageError."""
        with storage_errors(str(self._folder)):
            names = [path.name for path in self._folder.iterdir()]
            return tuple([self._service(topic, names) for topic in _topics(names)])

    def _service(self, topic: str, names: list[str]) -> SeenMetastore:
        name = newest(names, topic)
        assert name is not None
        file = self._folder / str(name)
        stat = file.stat()
        followed = is_locked(lock_file(self._folder, topic))
        alarm_ms, alarm = _last_alarm(alarm_file(self._folder, topic))
        return SeenMetastore(
            service_of(topic) or topic,
            self._commands(file, stat),
            stat.st_mtime_ns // 1_000_000,
            followed,
            read_status(self._folder, topic) if followed else None,
            alarm_ms,
            alarm,
        )

    def _commands(self, file: Path, stat: os.stat_result) -> int:
        mark = stat.st_size, stat.st_mtime_ns
        before = self._counted.get(file)
        if before is not None and before[0] == mark:
            return before[1]
        with open_regular(file) as lines:
            count = sum(1 for line in lines_in(lines) if line.strip())
        self._counted[file] = mark, count
        return count


def _topics(names: list[str]) -> Iterator[str]:
    found = (_KLIP.fullmatch(name) or _SHIPPED.fullmatch(name) for name in names)
    topics = sorted({match[1] for match in found if match is not None})
    return (topic for topic in topics if service_of(topic) is not None and newest(names, topic))


def behind_now(folder: Path, topic: str) -> Behind | None:
    """Since when a running backup is behind; None if it is not behind, or no backup runs."""
    return read_status(folder, topic) if is_locked(lock_file(folder, topic)) else None


def _last_alarm(path: Path) -> tuple[int | None, str]:
    """When the newest alarm was raised and what it says, if it is recent; None and empty if not."""
    try:
        with open_regular(path) as file:
            file.seek(max(file.seek(0, 2) - TAIL_BYTES, 0))
            last = file.read(TAIL_BYTES).splitlines()[-1]
        told = json.loads(last)
        at_ms, message = int(told["at_ms"]), str(told["message"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None, ""
    if now_ms() - at_ms >= ALARM_MS:
        return None, ""
    return at_ms, f"alarm at {time_text(at_ms)}: {bounded(message, SHOWN)}"


POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class NewestBackup:
    """The newest backup of the service in a folder."""

    file: Path
    lines: tuple[BackupLine, ...]
    counts: ComparisonCounts


@dataclass(frozen=True, slots=True)
class ServiceLook:
    """The result of one look at a service."""

    topic: str
    metastore: Metastore
    entries: tuple[AppliedCommand, ...]
    degraded: Degraded | None
    wrong: Mapping[str, str]
    """By object: what differs from when it was created."""
    alarms: tuple[str, ...]
    backup: NewestBackup | Unknown
    pairs: tuple[CommandPair, ...]


def command_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """The command topics among *topics*."""
    return tuple(sorted({topic for topic in topics if service_of(topic) is not None}))


class ServiceWatch:
    """Looks at one service repeatedly; each record of its topic is read only once."""

    def __init__(self, topic: str, folder: Path) -> None:
        """*folder* contains its backups."""
        self.topic = topic
        self._folder = folder
        self._topic_id = ""
        self._begin()

    def look(self, client: ReadClient) -> ServiceLook:
        """The service's current state. Raises: Unreachable, NotAuthorized, ClusterError."""
        deadline = Deadline.after(patience.COMMAND)
        client.describe(deadline)
        state = read_topic_state(client.sender, self.topic, deadline)
        # The topic was in the list of topics: without it, it is gone.
        expected = self._topic_id if state is None else None
        alarms = tuple([str(danger) for danger in dangers(state, self.topic, expected)])
        if (behind := behind_now(self._folder, self.topic)) is not None:
            alarms = (f"the backup is {behind}", *alarms)
        if state is not None:
            if state.topic_id != self._topic_id:
                self._begin()
                self._topic_id = state.topic_id
            self._read(client, deadline)
        metastore = self._replay.metastore.snapshot()
        wrong = inconsistencies(metastore, TopicsNow(client))
        backup, found = self._compared()
        return ServiceLook(
            self.topic,
            metastore,
            tuple(self._entries),
            self._replay.degraded,
            wrong,
            alarms,
            backup,
            found,
        )

    def _begin(self) -> None:
        self._reader: TopicReader | None = None
        self._seen: tuple[tuple[Path, int, int] | None, int] | None = None
        self._side_by_side: tuple[NewestBackup | Unknown, tuple[CommandPair, ...]] = (
            Unknown("not read yet"),
            (),
        )
        self._records: list[CommandRecord] = []
        self._entries: list[AppliedCommand] = []
        self._replay = Replay(self._entries.append)

    def _read(self, client: ReadClient, deadline: Deadline) -> None:
        if self._reader is None:
            self._reader = TopicReader(client, self.topic)
            self._ended = False
        self._reader.through(client)
        while True:
            try:
                batch = self._reader.poll(POLL_SECONDS)
            except LogCut:
                self._begin()
                self._topic_id = ""
                return
            for record in batch.records:
                self._records.append(record)
                self._replay.take(record)
            self._ended = self._ended or batch.at_end
            if self._ended and not batch.records:
                return
            if deadline.passed:
                raise ClusterError(f"topic {self.topic} does not come to an end: try again")

    def _compared(self) -> tuple[NewestBackup | Unknown, tuple[CommandPair, ...]]:
        """The comparison of topic and backup; the earlier result if neither has changed."""
        try:
            with storage_errors(str(self._folder)):
                seen = self._newest(), len(self._records)
                if seen != self._seen:
                    self._side_by_side, self._seen = self._compare(seen[0]), seen
        except BreakglassError as error:
            return Unknown(str(error)), ()
        return self._side_by_side

    def _newest(self) -> tuple[Path, int, int] | None:
        """The newest backup, its size, and its modification time."""
        names = [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []
        name = newest(names, self.topic)
        if name is None:
            return None
        file = self._folder / str(name)
        stat = file.stat()
        return file, stat.st_size, stat.st_mtime_ns

    def _compare(
        self, found: tuple[Path, int, int] | None
    ) -> tuple[NewestBackup | Unknown, tuple[CommandPair, ...]]:
        if found is None:
            none = f"there is none in {self._folder}: `breakglass ksql backup`"
            return Unknown(none), tuple(pairs(self._records, ()))
        file = found[0]
        with open_regular(file) as data:
            lines = tuple(read_lines(data))
        both = tuple(pairs(self._records, lines))
        return NewestBackup(file, lines, counted(both)), both
