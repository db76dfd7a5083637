"""A log dir that failed is made whole again."""

from pathlib import Path

from breakglass.services.lab.node import CHECKPOINT, KEPT_META_FILE, META_FILE


def repair_log_dir(log_dir: Path) -> None:
    """Undo `fail_log_dir`; the broker uses the directory again from its next start."""
    (log_dir / CHECKPOINT).rmdir()
    (log_dir / META_FILE).rmdir()
    (log_dir / KEPT_META_FILE).rename(log_dir / META_FILE)
