"""How the metastore backups in a folder stand, in a line for the overview; asks no cluster."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.clock import now_ms
from breakglass.services.health.backups import BackupGlance
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lag import Behind
from breakglass.services.metastore.evidence_log import alarm_file
from breakglass.services.metastore.names import newest, service_of
from breakglass.services.metastore.private_files import lock_file
from breakglass.services.metastore.status_file import read_status
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text

ALARM_MS = 24 * 3_600_000
"""So long an alarm is told after it was raised."""
TAIL_BYTES = 16 * 1024
SHOWN = 120
LOCKS = Path("/proc/locks")
_KLIP = re.compile(r"(.+)_\d+\.bak")
_SHIPPED = re.compile(r"backup_(.+)_\d+")


@dataclass(frozen=True, slots=True)
class _Service:
    """The newest backup of one."""

    service_id: str
    commands: int
    written_ms: int
    followed: bool
    alarm: str


class MetastoreGlance:
    """The backups of every service in a folder (a `MonitoredBackup`)."""

    name = "metastore"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted: dict[Path, tuple[tuple[int, int], int]] = {}
        """By file: its length and time of writing, and the commands it had then."""

    def glance(self, deadline: Deadline) -> BackupGlance:
        """Look at the folder. Raises: StorageError."""
        del deadline
        with storage_errors(str(self._folder)):
            names = [one.name for one in self._folder.iterdir()]
            services = [self._service(topic, names) for topic in _topics(names)]
        if not services:
            return BackupGlance(f"none in {self._folder}", None)
        commands = sum(one.commands for one in services)
        followed = sum(one.followed for one in services)
        if len(services) == 1:
            state = f"{bounded(services[0].service_id, 40)}, {commands:,} commands"
            state += ", followed" if followed else ", not followed now"
        else:
            state = f"{len(services):,} services, {followed:,} followed, {commands:,} commands"
        trouble = "; ".join(one.alarm for one in services if one.alarm)
        return BackupGlance(state, max(one.written_ms for one in services), trouble)

    def _service(self, topic: str, names: list[str]) -> _Service:
        name = newest(names, topic)
        assert name is not None
        file = self._folder / str(name)
        stat = file.stat()
        followed = _held(lock_file(self._folder, topic))
        return _Service(
            service_of(topic) or topic,
            self._commands(file, stat),
            stat.st_mtime_ns // 1_000_000,
            followed,
            _troubles(self._folder, topic, followed=followed),
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
    found = (_KLIP.fullmatch(one) or _SHIPPED.fullmatch(one) for one in names)
    topics = sorted({one[1] for one in found if one is not None})
    return (one for one in topics if service_of(one) is not None and newest(names, one))


def behind_now(folder: Path, topic: str) -> Behind | None:
    """Since when a backup that runs is behind; None where it is not, or none runs."""
    return read_status(folder, topic) if _held(lock_file(folder, topic)) else None


def _held(path: Path) -> bool:
    """Whether a process holds that lock file, as the kernel lists it: taking it would disturb."""
    try:
        stat = path.stat()
        told = LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    place = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    return any(place in line.split() and "FLOCK" in line for line in told.splitlines())


def _troubles(folder: Path, topic: str, *, followed: bool) -> str:
    """That a backup which runs is behind, and the last alarm; empty for neither."""
    behind = read_status(folder, topic) if followed else None
    alarm = _last_alarm(alarm_file(folder, topic))
    late = "" if behind is None else bounded(str(behind), SHOWN)
    return "; ".join(one for one in (late, alarm) if one)


def _last_alarm(path: Path) -> str:
    """The newest alarm, if it is not too old; empty for none."""
    try:
        with open_regular(path) as file:
            file.seek(max(file.seek(0, 2) - TAIL_BYTES, 0))
            last = file.read(TAIL_BYTES).splitlines()[-1]
        told = json.loads(last)
        at_ms, message = int(told["at_ms"]), str(told["message"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    recent = now_ms() - at_ms < ALARM_MS
    return f"alarm at {time_text(at_ms)}: {bounded(message, SHOWN)}" if recent else ""
