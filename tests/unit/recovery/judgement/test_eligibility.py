"""Who may be designated (R16); the sentences are in the golden file of the package."""

from __future__ import annotations

import pytest

from breakglass.services.recovery.judgement.eligibility import ReplicaStanding, eligibility
from tests.unit.recovery.notation import incident

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
