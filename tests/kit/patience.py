"""Limits that only end a hang, for tests whose brokers are healthy or silent for good."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event

import pytest

from breakglass.services import patience
from breakglass.services.kafka.wire.deadline import Deadline

HOURS = 10_000.0
MOMENT = 0.05
"""For a limit that only a broker which stays silent meets."""


def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the product wait for answers without end, but try bootstrap servers as soon as ever."""
    for name in vars(patience):
        if name.isupper() and name != "HEAD_START":
            monkeypatch.setattr(patience, name, HOURS)


@dataclass(frozen=True)
class DeadlineByHand(Deadline):
    """A deadline that passes when the test says so."""

    up: Event = field(default_factory=Event)

    def remaining(self) -> float:
        return 0.0 if self.up.is_set() else HOURS
