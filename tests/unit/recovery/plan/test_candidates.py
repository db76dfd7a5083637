"""Who could lead a partition, and why the others cannot."""

from __future__ import annotations

from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.recovery.plan.candidates import ReplicaCandidate, candidates
from tests.unit.recovery.plans import HALF_READ, LOSS, planned


def of(evidence: PartitionEvidence) -> list[ReplicaCandidate]:
    return list(candidates(planned(evidence).records[evidence.partition]))


def test_every_replica_is_listed_best_first_with_its_loss_or_why_it_cannot_lead() -> None:
    assert [
        (candidate.broker, str(candidate.loses), candidate.refusal) for candidate in of(LOSS)
    ] == [(1, "50", ""), (2, "25", ""), (3, "unknown", "b3 is fenced")]


def test_one_that_could_not_be_read_can_be_chosen_and_says_that_its_loss_is_unknown() -> None:
    silent = of(HALF_READ)[1]
    assert silent.eligible
    assert isinstance(silent.loses.records, Unknown)
    assert silent.own_consent == "loss unknown: b2 does not answer (connection refused)"
