"""Backups at a glance: what each kind of backup reports. A kind that is not in use is not shown."""

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
    """When the newest complete backup was committed; None: there is none yet."""
    trouble: str = ""
    """What is wrong, and what to do; empty if nothing is."""


class MonitoredBackup(Protocol):
    """A kind of backup that reports its state; given to `Monitor` where it is in use."""

    @property
    def name(self) -> str:
        """``topics``, ``metastore``, ``checkpoints``."""

    def glance(self, deadline: Deadline) -> BackupGlance:
        """Look, without longer waits than *deadline*.

        Raises:
            BreakglassError: it cannot be read; the last glance stays, marked.
        """
