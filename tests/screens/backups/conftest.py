"""Backups on screen."""

from collections.abc import Callable
from typing import Any

import pytest

from breakglass.services.backup_watch.location import LiveEnds
from breakglass.services.errors import BreakglassError
from tests.screens.backups.held import ENDS

SetEnds = Callable[[LiveEnds | BreakglassError], None]


@pytest.fixture
def live_ends(monkeypatch: pytest.MonkeyPatch) -> SetEnds:
    """Sets what the cluster tells of its ends; what stands in `ENDS` to begin with."""
    told: list[LiveEnds | BreakglassError] = [ENDS]

    def read(*_: Any) -> LiveEnds:
        if isinstance(told[-1], BreakglassError):
            raise told[-1]
        return told[-1]

    monkeypatch.setattr("breakglass.screens.backups.read_ends", read)
    return told.append
