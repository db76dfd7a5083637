"""Where a backup that follows a topic stands, in a small file beside it that others read.

``<topic>.status.json`` keeps its length, so what it says can change on a disk that is full.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.lag import Behind
from breakglass.services.metastore.private_files import FILE_MODE
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.words.inert import bounded

SCHEMA = 1
BYTES = 2048
SHOWN = 300
"""Characters of a reason."""


def status_file(location: Path, topic: str) -> Path:
    """Where the status of a topic's backup is kept."""
    return location / f"{topic}.status.json"


def write_status(location: Path, topic: str, behind: Behind | None) -> None:
    """Say since when the backup is *behind*; None: it is not. Raises: StorageError."""
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
    """Since when the backup is behind; None where it is not, or nobody wrote what it is."""
    try:
        with open_regular(status_file(location, topic)) as file:
            told = json.loads(file.read(BYTES))
        if told["schema"] != SCHEMA or told["state"] != "behind":
            return None
        return Behind(int(told["since_ms"]), str(told["reason"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
