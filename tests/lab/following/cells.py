"""Which command goes through which fault, and which of those cells `make test` runs."""

from __future__ import annotations

import pytest

from tests.lab.following.faults import Fault

QUICK = {
    ("metastore backup --follow", Fault.KILL_LEADER),
    ("metastore backup --follow", Fault.MOVED_LEADER),
}
"""The others are slow."""


def cells(command: str) -> list[object]:
    """The faults that *command* is tested under."""
    return [
        pytest.param(
            fault,
            id=fault.name.lower(),
            marks=() if (command, fault) in QUICK else pytest.mark.slow,
        )
        for fault in Fault
    ]
