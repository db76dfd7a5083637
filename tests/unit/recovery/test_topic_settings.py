"""What a journal says is still to be put back, whatever was written after the change."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.guard.act import HELD, SUCCEEDED, TargetResult
from breakglass.services.guard.consent import Price
from breakglass.services.guard.journal import Journal, read
from breakglass.services.guard.steps import FORGET_LEADERS, FREEZE_ELECTIONS, PUT_SETTING_BACK
from breakglass.services.kafka.cluster.settings import MIN_ISR, UNCLEAN_ELECTION, LayeredSetting
from breakglass.services.model import ReplicaLog, Role, TopicPartition, Unknown
from breakglass.services.recovery.acts.topic_settings import phrases
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.topic_settings import (
    Forgetting,
    SettingChange,
    forgetting_of,
    journalled,
    moment_value,
    owed,
    owing_journals,
    remembered,
)
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent

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


@pytest.mark.parametrize("step", [FREEZE_ELECTIONS, FORGET_LEADERS])
def test_what_failed_was_not_written_and_what_is_unknown_may_have_been(
    journal: Journal, step: str
) -> None:
    number = request(journal, step, FEED, NEWS, CARTS)
    outcome(journal, number, feed=TargetResult.FAILED, news=TargetResult.UNKNOWN, carts="done")
    assert left(journal) == (CARTS, NEWS)


def test_only_what_was_put_back_is_settled(journal: Journal) -> None:
    outcome(journal, request(journal, FREEZE_ELECTIONS, FEED, NEWS), feed="done", news="done")
    journal.finish(HELD)
    assert left(journal) == (FEED, NEWS)
    back = request(journal, PUT_SETTING_BACK, FEED, NEWS)
    assert left(journal) == (FEED, NEWS)
    outcome(journal, back, feed=TargetResult.DONE, news=TargetResult.UNKNOWN)
    assert left(journal) == (NEWS,)


def test_a_journal_that_succeeded_has_nothing_left_of_its_own(journal: Journal) -> None:
    outcome(journal, request(journal, FREEZE_ELECTIONS, FEED), feed="done")
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
    journal.request(FREEZE_ELECTIONS, {TopicPartition("feed", 0): {}}, settings=[entry])
    assert left(journal) == ()


LAST = Role.LAST_KNOWN_ELR


def forgotten(*replicas: ReplicaLog, gone: tuple[int, ...] = ()) -> Forgetting | None:
    circumstances = replace(HEALTHY, ruled_out=dict.fromkeys(gone, "declared gone"))
    return forgetting_of(assess(offline(*replicas), circumstances), gone)


def test_r03_an_empty_last_leader_is_a_bomb_and_nothing_intact_is_given_up() -> None:
    found = forgotten(log(4, role=LAST), log(1, (0, 100)), log(2, (0, 90)))
    assert found is not None
    assert (found.bomb, found.intact, found.best, found.price) == (4, (), 1, Price(0))
    assert str(found) == "forgets b4, which would be elected over better logs"


@pytest.mark.parametrize("role", [Role.ELR, LAST])
def test_r03_an_absent_inheritor_is_intact_and_its_partition_is_priced(role: Role) -> None:
    found = forgotten(silent(3, role=role), log(1, (0, 100), hw=90), log(2, (0, 90), hw=90))
    assert found is not None
    assert (found.bomb, found.intact, found.best) == (None, (3,), 1)
    assert "may bring it back whole" in str(found)
    (phrase,) = phrases([found])
    assert phrase.phrase == "orders-3 lose 0 and abandon b3"
    assert phrase.why == "b3 may bring it back whole, and is not elected by itself any more"


def test_r03_a_live_inheritor_that_is_sound_is_intact() -> None:
    found = forgotten(log(3, (0, 100), role=Role.ELR), log(1, (0, 90)), log(2, (0, 80)))
    assert found is not None
    assert (found.bomb, found.intact) == (None, (3,))


def test_r03_a_broker_that_is_gone_is_forgotten_and_missed_by_nobody() -> None:
    found = forgotten(silent(3, role=LAST), log(1, (0, 90)), gone=(3,))
    assert found is not None
    assert (found.forgotten, found.intact) == ((3,), ())


def test_r03_of_two_eligible_replicas_the_empty_one_is_the_bomb_and_the_other_is_named() -> None:
    found = forgotten(log(4, role=Role.ELR), silent(5, role=Role.ELR), log(1, (0, 90)))
    assert found is not None
    assert (found.bomb, found.intact) == (4, (5,))
    assert [phrase.phrase for phrase in phrases([found])] == [
        "orders forgets b4",
        "orders-3 lose 0 and abandon b5",
    ]


def test_r03_where_nothing_is_remembered_nothing_is_forgotten() -> None:
    assert forgotten(log(1, (0, 90)), log(2, (0, 80))) is None


def test_r03_an_old_cluster_remembers_in_the_isr_alone() -> None:
    state = offline(log(4, role=Role.ISR), log(1, (0, 90))).state
    untold = Unknown("before Kafka 4.0")
    assert remembered(replace(state, elr=untold, last_known_elr=untold)) == ()


@pytest.mark.parametrize(
    ("told", "written"),
    [
        (LayeredSetting(None, "1"), "1"),
        (LayeredSetting("1", "1"), None),
        (LayeredSetting("2", "1"), "3"),
        (LayeredSetting("1", "2"), "2"),
    ],
)
def test_r03_the_value_for_the_moment_is_another_one_and_never_a_lower_one(
    told: LayeredSetting, written: str | None
) -> None:
    assert moment_value(told) == written
    assert written != told.own
    effective = int(told.beneath if written is None else written)
    assert effective >= int(told.effective)
