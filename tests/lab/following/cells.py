"""The table of docs/long-running.md: each command under each fault, and how it is reported."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from tests.lab.following.faults import Fault

METASTORE = "metastore backup --follow"
BACKUP = "backup run --continuous"
SERVE = "checkpoint serve --every"
CONSOLE = "console"


class Report(StrEnum):
    """How a cell of the table begins."""

    BEHIND = "Behind"
    """It says since when it is behind, goes on, and says when it has caught up."""
    NOTHING = "Goes on"
    """Nothing that it needs is away for long: it may say nothing at all."""
    SHOWN = "Shown"
    """What is wrong is on the screen, with the age of what cannot be read."""


B, N, S = Report.BEHIND, Report.NOTHING, Report.SHOWN
ORDER = tuple(Fault)
TABLE = {
    METASTORE: dict(zip(ORDER, (B, B, N, B, B, B, B), strict=True)),
    BACKUP: dict(zip(ORDER, (N, N, N, N, N, B, B), strict=True)),
    SERVE: dict(zip(ORDER, (N, N, N, B, N, B, B), strict=True)),
    CONSOLE: dict(zip(ORDER, (S, S, S, S, N, S, N), strict=True)),
}
"""By command and fault."""
QUICK = {(METASTORE, Fault.KILL_LEADER), (METASTORE, Fault.MOVED_LEADER)}
"""What `make test` runs; the others are slow."""


def cells(command: str) -> list[Any]:
    """The faults that *command* is tested under, with how each is reported."""
    return [
        pytest.param(
            fault,
            report,
            id=fault.name.lower(),
            marks=() if (command, fault) in QUICK else pytest.mark.slow,
        )
        for fault, report in TABLE[command].items()
    ]
