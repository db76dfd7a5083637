"""Evidence kept cold comes back as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.incident.row import (
    CHUNK,
    EvidenceChunk,
    chunks_of,
    judged_again,
    judged_rows,
)
from breakglass.services.model import Denied, LogDir, PartitionEvidence, Silent
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import Judged
from breakglass.services.recovery.judgement.verdict import assess
from tests.kit.incidents import LEDGER, QUORUM, READ_AT_MS, waiting
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import HEALTHY

BYTES_EACH = 120
"""What a partition may take when it is frozen beside its like."""


def test_every_kind_of_unknown_and_of_value_survives() -> None:
    first, second, third = LEDGER.replicas
    odd = replace(
        LEDGER,
        replicas=(
            replace(first, log_dir=LogDir("/var/kafka", True, Silent("busy"))),
            replace(second, epochs=Denied("not allowed", "READ on topic ledger")),
            third,
        ),
        group_offsets={"billing": 7},
    )
    (thawed,) = EvidenceChunk([odd], READ_AT_MS).thaw()
    assert thawed == odd
    assert isinstance(thawed.replicas[1].epochs, Denied)


def test_neighbours_that_are_alike_take_little_room() -> None:
    evidence = [waiting(number) for number in range(10 * CHUNK)]
    frozen = sum(len(chunk) for chunk, _ in chunks_of(evidence, READ_AT_MS))
    assert frozen < BYTES_EACH * len(evidence)


@given(st.lists(partitions(), max_size=4))
def test_a_row_says_what_the_judgement_of_its_evidence_says_first_and_again(
    evidence: Sequence[PartitionEvidence],
) -> None:
    waiting_still = Circumstances(QUORUM, deadline_passed=False)
    before = judged_rows(evidence, waiting_still, READ_AT_MS)
    rows = judged_rows(evidence, HEALTHY, READ_AT_MS)
    for early, row, one in zip(before, rows, evidence, strict=True):
        assert row.judged == Judged.of(assess(one, HEALTHY))
        assert row.evidence == one
        again = judged_again(early, HEALTHY)
        assert (again.judged, again.log_end) == (row.judged, row.log_end)
