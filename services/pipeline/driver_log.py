"""Where Spark's driver logs: a file of each run's own, in the user's state folder."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from services.rights import make_folders, open_new
from services.state_folder import state_folder
from services.topic_backup.folder import storage_errors

KEPT_LOGS = 20
"""Runs whose logs stay."""
LOGGING = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.append = false
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""


def log_file() -> Path:
    """Where Spark's driver of this run logs, warnings and worse: no two runs share a file."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return state_folder() / "spark" / f"{stamp}-{os.getpid()}.log"


def logging_option(log: Path) -> str:
    """Prepare *log*; returns the option with which a JVM logs there, and not to stderr.

    Raises:
        StorageError: its folder cannot be written.
    """
    configuration = log.with_suffix(".properties")
    with storage_errors(str(log.parent)):
        make_folders(log.parent)
        _make_room(log.parent)
        for path, content in ((configuration, LOGGING.format(log=log)), (log, "")):
            with open(path, "w", encoding="utf-8", opener=open_new) as file:
                file.write(content)
    return f"-Dlog4j2.configurationFile=file:{configuration}"


def errors_file(log: Path) -> Path:
    """Beside *log*: stderr of the JVM and of Python workers, which write tracebacks there."""
    return log.with_suffix(".err")


def _make_room(folder: Path) -> None:
    """Remove the logs of old runs."""
    with suppress(OSError):
        old = sorted(folder.glob("*.log"))[: -KEPT_LOGS + 1]
        for log in old:
            for suffix in (".log", ".err", ".properties"):
                log.with_suffix(suffix).unlink(missing_ok=True)
