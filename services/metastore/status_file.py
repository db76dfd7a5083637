"""Files next to a backup that other processes read: its current status, and its alarms.

``<topic>.status.json`` keeps its length, so that it can be updated on a full disk.
``<topic>.alarms.jsonl`` has one JSON object for each line: a ksqlDB server corrects the topic's
settings on start, so without the file the evidence of an alarm would be lost.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError
from breakglass.services.lag import Behind
from breakglass.services.metastore.private_files import FILE_MODE
from breakglass.services.metastore.topic_state import Alarm
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.words.inert import bounded

SCHEMA = 1
BYTES = 2048
SHOWN = 300
"""Maximum characters of a reason."""


def status_file(location: Path, topic: str) -> Path:
    """The path of a topic's backup status."""
    return location / f"{topic}.status.json"


def write_status(location: Path, topic: str, behind: Behind | None) -> None:
    """Write since when the backup is *behind*; None: it is not behind. Raises: StorageError."""
    path = status_file(location, topic)
    document: dict[str, object] = {"schema": SCHEMA, "state": "behind" if behind else "following"}
    if behind is not None:
        document |= {"since_ms": behind.since_ms, "reason": bounded(behind.reason, SHOWN)}
    content = json.dumps(document).encode().ljust(BYTES - 1) + b"\n"
    with storage_errors(str(path)):
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, FILE_MODE)
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
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(path, flags, FILE_MODE)
        try:
            os.write(descriptor, json.dumps(document).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
