"""A figure with the moment it was read: what cannot be read again is kept, and marked.

Backups at a glance: what each kind of backup reports. A kind that is not in use is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown, known

T = TypeVar("T")

STALE_INTERVALS = 3
"""Refreshes that a figure may miss before it is marked."""


@dataclass(frozen=True, slots=True)
class Figure(Generic[T]):
    """What was read last, when, and why it could not be read since."""

    value: T | Unknown
    read_at_ms: int
    """When *value* was read, or found not to be readable."""
    failed: Unknown | None = None
    """Why a later attempt failed; None while *value* is the newest answer."""

    def again(self, value: T | Unknown, now_ms: int) -> Figure[T]:
        """The figure after another attempt: a known value stays until it is read again."""
        if isinstance(value, Unknown) and known(self.value):
            return Figure(self.value, self.read_at_ms, value)
        return Figure(value, now_ms)

    def age_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self.read_at_ms)

    def stale(self, now_ms: int, interval_ms: int) -> bool:
        """Whether it has to be marked: reading it again failed, or is overdue."""
        return self.failed is not None or self.age_ms(now_ms) > STALE_INTERVALS * interval_ms


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
