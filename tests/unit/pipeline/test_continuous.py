"""A continuous backup whose run hangs, for example on a broker that does not answer."""

from __future__ import annotations

import threading

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.lag import Behind, CaughtUpAgain, LagAlarm
from breakglass.services.pipeline import continuous
from breakglass.services.pipeline.backup_context import BackupRun, Meter
from breakglass.services.pipeline.source import WantedTopics


def test_a_run_that_is_overdue_is_reported_while_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "OVERDUE_SECONDS", 0.0)
    monkeypatch.setattr(continuous, "SHAPE_SECONDS", 0.01)
    reported = threading.Event()
    reports: list[Behind | CaughtUpAgain] = []

    def report(change: Behind | CaughtUpAgain) -> None:
        reports.append(change)
        reported.set()

    def hang(_: Meter) -> BackupRun:
        assert reported.wait(30)
        raise UsageError("the broker answers at last")

    with pytest.raises(UsageError, match="at last"):
        continuous.follow(
            hang,
            WantedTopics(names=("orders",)),
            lambda _: None,
            lambda: False,
            every=0.0,
            lag=LagAlarm(report),
        )
    assert [str(change).partition(": ")[2] for change in reports] == ["a run is still not finished"]
