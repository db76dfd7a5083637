"""Deadlines of calls that must be answered: they only end a hang, however slow the machine is."""

from dataclasses import dataclass, field
from threading import Event

import pytest

from breakglass.services import patience
from breakglass.services.kafka.wire.deadline import Deadline
from tests.kit.waiting import DEADLINE_SECONDS

HOUR = 3_600.0
"""Of a wait that something else has to end."""
MOMENT = 0.05
"""For a limit that only a broker which stays silent meets."""


def ample() -> Deadline:
    """A deadline that no healthy peer misses."""
    return Deadline.after(DEADLINE_SECONDS)


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no limit of the product end while a healthy fake peer answers; shorten what must pass."""
    for name, seconds in vars(patience).items():
        if isinstance(seconds, float):
            monkeypatch.setattr(patience, name, DEADLINE_SECONDS)


def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the product wait for answers without end, but try bootstrap servers as soon as ever."""
    for name in vars(patience):
        if name.isupper() and name != "HEAD_START":
            monkeypatch.setattr(patience, name, HOUR)


@dataclass(frozen=True)
class DeadlineByHand(Deadline):
    """A deadline that passes when the test says so."""

    up: Event = field(default_factory=Event)

    def remaining(self) -> float:
        return 0.0 if self.up.is_set() else HOUR
