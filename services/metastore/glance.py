"""The state of the metastore backups in a folder, as a line for the overview; asks no cluster.

A backup that runs writes since when it is behind to a status file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError
from breakglass.services.health.backups import BackupGlance
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind
from breakglass.services.metastore.private_files import is_locked, lock_file
from breakglass.services.metastore.settings import newest, service_of
from breakglass.services.metastore.topic import Alarm
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
            count = sum(1 for line in lines if line.strip())
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
