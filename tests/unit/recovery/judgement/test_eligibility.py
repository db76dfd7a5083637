"""Who may be designated (R16)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.model import ReplicaLog, Unknown
from breakglass.services.recovery.judgement.eligibility import (
    ReplicaStanding,
    answered,
    eligibility,
    live,
)
from tests.unit.recovery.replicas import log, offline, silent

UNTOLD = Unknown("this cluster does not say which brokers are fenced")


@pytest.mark.parametrize(
    ("replica", "standing", "reason"),
    [
        pytest.param(log(1, (0, 9)), ReplicaStanding.ELIGIBLE, "", id="read and unfenced"),
        pytest.param(
            log(1, (0, 9), fenced=True), ReplicaStanding.BARRED, "b1 is fenced", id="fenced"
        ),
        pytest.param(
            log(1, (0, 9), log_dir_online=False),
            ReplicaStanding.BARRED,
            "the log directory of b1 is offline",
            id="offline directory",
        ),
        pytest.param(
            silent(1, fenced=False),
            ReplicaStanding.BY_HAND,
            "loss unknown: b1 does not answer (connection refused)",
            id="unfenced and silent",
        ),
        pytest.param(silent(1, fenced=True), ReplicaStanding.BARRED, "b1 is fenced", id="dead"),
        pytest.param(
            silent(1, fenced=UNTOLD),
            ReplicaStanding.BY_HAND,
            "loss unknown: b1 does not answer (connection refused)",
            id="silent, fencing unknown",
        ),
        pytest.param(
            log(1, (0, 9), fenced=UNTOLD),
            ReplicaStanding.DOUBTFUL,
            "it is unknown whether b1 is fenced: this cluster does not say which brokers are "
            "fenced",
            id="read, fencing unknown",
        ),
    ],
)
def test_r16_each_replica_has_a_standing_and_its_reason(
    replica: ReplicaLog, standing: ReplicaStanding, reason: str
) -> None:
    found = eligibility(offline(replica), 1)
    assert (found.standing, found.reason) == (standing, reason)


def test_r16_a_broker_outside_the_assignment_cannot_be_chosen() -> None:
    found = eligibility(offline(log(1, (0, 9)), log(2, (0, 9))), 7)
    assert found.standing is ReplicaStanding.BARRED
    assert found.reason == "b7 is not in the assignment 1, 2"


def test_r12_an_unregistered_broker_cannot_be_chosen() -> None:
    found = eligibility(offline(silent(1, fenced=UNTOLD), unregistered=(1,)), 1)
    assert found.standing is ReplicaStanding.BARRED
    assert found.reason == "b1 is not registered in the cluster"


def test_only_what_was_read_may_be_recommended() -> None:
    evidence = offline(log(1, (0, 9)), log(2, (0, 9), fenced=UNTOLD), silent(3, fenced=False))
    assert [eligibility(evidence, broker).recommendable for broker in (1, 2, 3, 7)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_replica_that_may_be_unfenced_counts_as_live() -> None:
    assert live(log(1, (0, 9)))
    assert live(silent(1, fenced=UNTOLD))
    assert not live(log(1, (0, 9), fenced=True))
    assert not live(log(1, (0, 9), log_dir_online=False))


def test_an_offline_directory_is_an_answer() -> None:
    assert answered(log(1, (0, 9)))
    assert answered(silent(1, log_dir_online=False))
    assert not answered(silent(1))
    assert not answered(replace(log(1), log_end=Unknown("asked too early")))
