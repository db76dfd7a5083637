"""Backups at a glance: what each kind of backup tells of itself. Nothing is shown for none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown


@dataclass(frozen=True, slots=True)
class BackupGlance:
    """One kind of backup in a line."""

    state: str
    """In a few words: ``running, 12 of 40 topics``."""
    newest_ms: int | None | Unknown
    """When the newest complete one was committed; None for none yet."""
    trouble: str = ""
    """What is wrong, and what to do; empty for nothing."""


class MonitoredBackup(Protocol):
    """A kind of backup that can tell how it stands; given to `Monitor` where it is in use."""

    @property
    def name(self) -> str:
        """``topics``, ``metastore``, ``checkpoints``."""

    def glance(self, deadline: Deadline) -> BackupGlance:
        """Look, without longer waits than *deadline*.

        Raises:
            BreakglassError: it cannot tell; the last glance stays, marked.
        """
