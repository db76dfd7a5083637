"""What stands beside a replica is what it adds to the best one, never a loss of its own."""

from __future__ import annotations

import pytest

from breakglass.services.incident.loss_text import against
from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.recovery.judgement.verdict import assess
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent, without_epochs


def beside(evidence: PartitionEvidence, broker: int) -> str:
    """The words beside the replica on *broker*, against the one that ranks first."""
    assessment = assess(evidence, HEALTHY)
    replica = evidence.replica(broker)
    assert assessment.best is not None
    assert replica is not None
    return against(assessment, assessment.loss_of(assessment.best), replica)


LONG = log(1, (0, 100), (2, 125), hw=100)
CUT = log(1, (2, 125), start=90)
"""Retention has deleted what it held before."""


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (offline(LONG, log(2, (0, 70))), "adds nothing to b1"),
        (
            offline(LONG, log(2, (0, 100), (1, 150), hw=130)),
            "adds 50 past 100, committed up to 130",
        ),
        (offline(CUT, log(2, (0, 70))), "ends before b1 starts: adds all it holds"),
        (offline(CUT, log(2, (2, 100), start=40)), "adds 50 before b1 starts"),
        (
            offline(LONG, without_epochs(2, 110)),
            "may add records to b1: b2: READ on the topic is missing",
        ),
    ],
)  # fmt: skip
def test_a_replica_adds_so_much_to_the_best_one(evidence: PartitionEvidence, words: str) -> None:
    assert beside(evidence, 2) == words


@pytest.mark.parametrize("mark", [0, 100, Unknown("lost")])
def test_r29_above_every_mark_that_was_heard_it_is_not_known_if_committed(
    mark: int | Unknown,
) -> None:
    evidence = offline(LONG, log(2, (0, 100), (1, 150), hw=mark))
    assert beside(evidence, 2) == "adds 50 past 100, not known if committed"


def test_the_best_one_would_be_elected_and_a_silent_one_has_its_reason() -> None:
    evidence = offline(LONG, log(2, (0, 70)), silent(3))
    assert beside(evidence, 1) == "would be elected"
    assert "b3" in beside(evidence, 3)
    assert "adds" not in beside(evidence, 3)
