"""Limits that end nothing, and a wait whose moment comes when those who answer have answered."""

import queue
from collections import Counter
from typing import TypeVar

import pytest

from breakglass.services.kafka.wire.deadline import Deadline
from tests.kit.deadlines import HOUR, endless
from tests.kit.waiting import DEADLINE_SECONDS

T = TypeVar("T")


@pytest.fixture(autouse=True)
def endless_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    endless(monkeypatch)


def soon() -> Deadline:
    """A deadline that no test reaches."""
    return Deadline.after(HOUR)


class AfterAnswers:
    """A `Wait` for *count* reports of each kind: then the moment has come, whatever the clock."""

    def __init__(self, count: int) -> None:
        self.count, self.calls = count, 0
        self._taken: Counter[int] = Counter()

    def __call__(self, reports: queue.SimpleQueue[T], _: Deadline, /) -> T:
        self.calls += 1
        if self._taken[id(reports)] >= self.count:
            raise queue.Empty
        self._taken[id(reports)] += 1
        return reports.get(timeout=DEADLINE_SECONDS)
