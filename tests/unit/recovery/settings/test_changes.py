"""What a journal says is still to be put back, whatever was written after the change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.guard.act import HELD, SUCCEEDED, TargetResult
from breakglass.services.guard.journal import Journal, read
from breakglass.services.guard.steps import FORGET_LEADERS, HOLD_ELECTIONS, PUT_SETTING_BACK
from breakglass.services.kafka.cluster.settings import MIN_ISR, UNCLEAN_ELECTION
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.settings.changes import (
    SettingChange,
    journalled,
    owed,
    owing_journals,
)

CLUSTER = "a-cluster"
FEED, NEWS = (
    SettingChange("feed", "id-1", UNCLEAN_ELECTION, "true", "false"),
    SettingChange("news", "id-2", UNCLEAN_ELECTION, None, "false"),
)
CARTS = SettingChange("carts", "id-3", MIN_ISR, "1", None)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(CLUSTER, tmp_path) as opened:
        yield opened


def request(journal: Journal, step: str, *changes: SettingChange) -> int:
    items = {TopicPartition(change.topic, 0): {"value": change.written} for change in changes}
    return journal.request(step, items, settings=journalled(changes))


def outcome(journal: Journal, number: int, **results: str) -> None:
    items = {TopicPartition(topic, 0): {"result": result} for topic, result in results.items()}
    journal.outcome(number, items)


def left(journal: Journal) -> tuple[SettingChange, ...]:
    return owed(read(journal.path))


def test_what_was_announced_may_have_been_written(journal: Journal) -> None:
    request(journal, HOLD_ELECTIONS, FEED, NEWS)
    assert left(journal) == (FEED, NEWS)


@pytest.mark.parametrize("step", [HOLD_ELECTIONS, FORGET_LEADERS])
def test_what_failed_was_not_written_and_what_is_unknown_may_have_been(
    journal: Journal, step: str
) -> None:
    number = request(journal, step, FEED, NEWS, CARTS)
    outcome(journal, number, feed=TargetResult.FAILED, news=TargetResult.UNKNOWN, carts="done")
    assert left(journal) == (CARTS, NEWS)


def test_only_what_was_put_back_is_settled(journal: Journal) -> None:
    outcome(journal, request(journal, HOLD_ELECTIONS, FEED, NEWS), feed="done", news="done")
    journal.finish(HELD)
    assert left(journal) == (FEED, NEWS)
    back = request(journal, PUT_SETTING_BACK, FEED, NEWS)
    assert left(journal) == (FEED, NEWS)
    outcome(journal, back, feed=TargetResult.DONE, news=TargetResult.UNKNOWN)
    assert left(journal) == (NEWS,)


def test_a_journal_that_succeeded_has_nothing_left_of_its_own(journal: Journal) -> None:
    outcome(journal, request(journal, HOLD_ELECTIONS, FEED), feed="done")
    journal.finish(SUCCEEDED)
    assert left(journal) == ()
    assert owing_journals(CLUSTER, journal.path.parents[2]) == []


@pytest.mark.parametrize(
    "entry",
    [
        "feed",
        {"topic": "feed"},
        {"topic": 1, "topic_id": "id-1", "name": UNCLEAN_ELECTION, "before": None, "written": None},
        {"topic": "feed", "topic_id": "id", "name": "retention.ms", "before": "1", "written": "2"},
        {"topic": "feed", "topic_id": "id", "name": MIN_ISR, "before": 1, "written": "2"},
    ],
)
def test_what_a_foreign_hand_wrote_is_not_put_back(journal: Journal, entry: Any) -> None:
    journal.request(HOLD_ELECTIONS, {TopicPartition("feed", 0): {}}, settings=[entry])
    assert left(journal) == ()
