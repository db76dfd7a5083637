"""Failing a log directory under a running broker, as a disk that refuses writes.

A folder stands where the broker writes its checkpoints, and another where it takes the lock
of the directory when it starts: not even root writes a file there. The segments stay as they
are, so that what is lost with the disk is known.
"""

from __future__ import annotations

from pathlib import Path

CHECKPOINT = "replication-offset-checkpoint.tmp"
LOCK = ".lock"


def fail_log_dir(log_dir: Path) -> None:
    """Let the broker's next write into *log_dir* fail, and every start on it.

    The broker takes it offline at its next checkpoint
    (replica.high.watermark.checkpoint.interval.ms).
    """
    for name in (LOCK, CHECKPOINT):
        (log_dir / name).unlink(missing_ok=True)
        (log_dir / name).mkdir()


def repair_log_dir(log_dir: Path) -> None:
    """Undo `fail_log_dir`; the broker uses the directory again from its next start."""
    for name in (LOCK, CHECKPOINT):
        (log_dir / name).rmdir()
