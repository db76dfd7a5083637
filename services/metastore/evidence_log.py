"""Alarms on disk: a ksqlDB server that starts puts the settings right, and the proof would be gone.

One JSON object a line, in ``<topic>.alarms.jsonl`` beside the backups.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from breakglass.services.clock import now_ms
from breakglass.services.metastore.alarms import Alarm
from breakglass.services.metastore.private_files import FILE_MODE
from breakglass.services.topic_backup.folder import storage_errors


def alarm_file(location: Path, topic: str) -> Path:
    """Where the alarms of a topic are kept."""
    return location / f"{topic}.alarms.jsonl"


def note_alarm(location: Path, topic: str, alarm: Alarm) -> None:
    """Add *alarm*, and wait until it is on disk. Raises: StorageError."""
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
