"""Failing a log directory under a running broker, as a disk that is gone from one write on.

A folder stands where the broker writes its checkpoints, and another where it reads, when it
starts, whose directory it is: not even root gets past them. The segments stay as they are,
so that what is lost with the disk is known.
"""

from __future__ import annotations

from pathlib import Path

from breakglass.services.lab.storage import META_FILE

CHECKPOINT = "replication-offset-checkpoint.tmp"
KEPT_META_FILE = f"{META_FILE}.kept"


def fail_log_dir(log_dir: Path) -> None:
    """Let the broker's next checkpoint into *log_dir* fail, and every later start on it.

    A running broker takes it offline then (replica.high.watermark.checkpoint.interval.ms).
    """
    (log_dir / META_FILE).rename(log_dir / KEPT_META_FILE)
    (log_dir / META_FILE).mkdir()
    (log_dir / CHECKPOINT).unlink(missing_ok=True)
    (log_dir / CHECKPOINT).mkdir()


def repair_log_dir(log_dir: Path) -> None:
    """Undo `fail_log_dir`; the broker uses the directory again from its next start."""
    (log_dir / CHECKPOINT).rmdir()
    (log_dir / META_FILE).rmdir()
    (log_dir / KEPT_META_FILE).rename(log_dir / META_FILE)
