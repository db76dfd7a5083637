"""R3: what is given up when the controller forgets, and which value makes it forget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.guard.consent import Price
from breakglass.services.kafka.cluster.settings import LayeredSetting
from breakglass.services.model import ReplicaLog, Role, Unknown
from breakglass.services.recovery.acts.forget_leaders import phrases
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.settings.forgetting import (
    Forgetting,
    forgetting_of,
    moment_value,
    remembered,
)
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent

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
