"""The lines of backups: what is judged, filtered, sorted and opened."""

from __future__ import annotations

import pytest

from breakglass.services.backup_watch.job import Life
from breakglass.services.backup_watch.lines import (
    BackupPartitionLine,
    BackupSurvey,
    BackupsView,
    Line,
    PlaceLine,
    TopicLine,
    TopicOrder,
    key_of,
    lines,
    survey,
)
from breakglass.services.backup_watch.live_ends import ABSENT, NO_MANIFEST, LiveEnds
from breakglass.services.backup_watch.watch import BackupStanding, WatchedLocation
from breakglass.services.health.figure import Figure
from breakglass.services.model import Unknown
from tests.screens.backups.held import ENDS, FAR, MAIN, NOW_MS, every_state, job, seen

STANDING = BackupStanding(
    (WatchedLocation(MAIN, Figure(every_state(), NOW_MS)), WatchedLocation(FAR)), ()
)


@pytest.fixture
def judged() -> BackupSurvey:
    """Every state, with the ends of some topics."""
    return survey(STANDING, ENDS)


def names(shown: list[Line]) -> list[str]:
    return [key[1] or key[0] for key in map(key_of, shown)]


def test_the_worst_comes_first(judged: BackupSurvey) -> None:
    assert names(lines(judged, BackupsView())) == [
        MAIN, "torn", "clicks", "orders", "audit", "refunds", "orders~2", "payments", FAR,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (TopicOrder.NAME, "audit"),
        (TopicOrder.LAG, "audit"),
        (TopicOrder.AGE, "audit"),
        (TopicOrder.SIZE, "payments"),
    ],
)
def test_topics_are_sorted_by_a_figure(judged: BackupSurvey, order: TopicOrder, first: str) -> None:
    assert names(lines(judged, BackupsView(order=order)))[1] == first


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("ORD", ["orders", "orders~2"]),
        ("ord verified", ["orders~2"]),
        ("-verified main", ["torn", "clicks", "orders", "audit"]),
        ("far", []),
    ],
)
def test_a_filter_keeps_topics_by_words(judged: BackupSurvey, words: str, kept: list[str]) -> None:
    shown = lines(judged, BackupsView(words))
    assert names(shown) == [MAIN, *kept, FAR]


def test_a_topic_opens_to_its_partitions_and_a_place_closes(judged: BackupSurvey) -> None:
    opened = lines(judged, BackupsView("payments", opened=frozenset({(MAIN, "payments")})))
    assert [key_of(line)[2] for line in opened] == [-1, -1, 0, 1, 2, -1]
    closed = lines(judged, BackupsView(closed=frozenset({MAIN})))
    assert names(closed) == [MAIN, FAR]


def test_lags_are_counted_or_have_a_reason(judged: BackupSurvey) -> None:
    shown = lines(judged, BackupsView(opened=frozenset({(MAIN, "payments"), (MAIN, "orders~2")})))
    lag = {line.held.name: line.lag for line in shown if isinstance(line, TopicLine)}
    assert (lag["clicks"], lag["refunds"], lag["orders~2"]) == (0, 500, 25)
    assert lag["orders"] is None
    assert lag["audit"] == NO_MANIFEST
    assert lag["payments"] == Unknown("it is offline: no leader serves it")
    assert isinstance(lag["torn"], Unknown)
    parts = [
        line.lag
        for line in shown
        if isinstance(line, BackupPartitionLine) and line.held.topic != "orders"
    ]
    assert parts == [0, 400, Unknown("it is offline: no leader serves it")]


def test_of_another_cluster_or_a_topic_created_anew_there_is_no_lag() -> None:
    (_, clicks, *_) = every_state().topics
    assert clicks.status is not None
    elsewhere = LiveEnds("another", ENDS.ends, ENDS.topic_ids)
    assert isinstance(elsewhere.total_lag(clicks.status), Unknown)
    anew = LiveEnds(ENDS.cluster_id, ENDS.ends, {})
    assert anew.total_lag(clicks.status) == 0
    nothing = LiveEnds(ENDS.cluster_id)
    assert nothing.total_lag(clicks.status) == ABSENT


def test_a_running_job_is_told_with_its_place_and_topic() -> None:
    standing = BackupStanding(STANDING.places, (seen(job()), seen(job(), Life.DEAD)))
    shown = lines(survey(standing, ENDS), BackupsView())
    assert isinstance(shown[0], PlaceLine)
    assert shown[0].jobs == 1
    states = {line.held.name: line.state for line in shown if isinstance(line, TopicLine)}
    assert states["payments"] == "running"
