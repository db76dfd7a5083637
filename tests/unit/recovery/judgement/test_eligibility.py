"""Who may be designated (R16); the sentences are in the golden file of the package."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.model import Unknown
from breakglass.services.recovery.judgement.eligibility import (
    ReplicaStanding,
    answered,
    eligibility,
    live,
)
from tests.unit.recovery.notation import incident, replica
from tests.unit.recovery.replicas import log

ELIGIBLE, BARRED = ReplicaStanding.ELIGIBLE, ReplicaStanding.BARRED
DOUBTFUL, BY_HAND = ReplicaStanding.DOUBTFUL, ReplicaStanding.BY_HAND


@pytest.mark.parametrize(
    ("given", "standing"),
    [
        pytest.param("b1 0:9", ELIGIBLE, id="read and unfenced"),
        pytest.param("b1 0:9 fenced", BARRED, id="fenced"),
        pytest.param("b1 0:9 no-dir", BARRED, id="on an offline directory"),
        pytest.param("b1 hung", BY_HAND, id="unfenced and silent"),
        pytest.param("b1 down", BARRED, id="dead"),
        pytest.param("b1 down fenced?", BY_HAND, id="silent, fencing unknown"),
        pytest.param("b1 0:9 fenced?", DOUBTFUL, id="read, fencing unknown"),
        pytest.param("b2 0:9", BARRED, id="not in the assignment"),
        pytest.param("b1 down fenced? | unregistered 1", BARRED, id="not registered (R12)"),
    ],
)
def test_r16_each_replica_has_a_standing_and_a_reason(
    given: str, standing: ReplicaStanding
) -> None:
    found = eligibility(incident(given).evidence, 1)
    assert found.standing is standing
    assert bool(found.reason) is (standing is not ELIGIBLE)
    assert found.recommendable is (standing in (ELIGIBLE, DOUBTFUL))


@pytest.mark.parametrize(
    ("given", "expected"),
    [("b1 0:9", True), ("b1 down fenced?", True), ("b1 fenced", False), ("b1 no-dir", False)],
)
def test_a_replica_that_may_be_unfenced_counts_as_live(given: str, expected: bool) -> None:
    assert live(replica(given)) is expected


def test_an_offline_directory_is_an_answer() -> None:
    assert answered(replica("b1 0:9"))
    assert answered(replica("b1 down no-dir"))
    assert not answered(replica("b1 down"))
    assert not answered(replace(log(1), log_end=Unknown("asked too early")))
