"""Deadlines of calls that must be answered: they only end a hang, however slow the machine is."""

from __future__ import annotations

import pytest

from breakglass.services import patience
from breakglass.services.kafka.wire.deadline import Deadline
from tests.kit.waiting import DEADLINE_SECONDS

HOUR = 3_600.0
"""Of a wait that something else has to end."""


def ample() -> Deadline:
    """A deadline that no healthy peer misses."""
    return Deadline.after(DEADLINE_SECONDS)


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no limit of the product end while a healthy fake peer answers; shorten what must pass."""
    for name, seconds in vars(patience).items():
        if isinstance(seconds, float):
            monkeypatch.setattr(patience, name, DEADLINE_SECONDS)
