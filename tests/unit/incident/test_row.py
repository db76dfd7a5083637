"""Evidence kept cold comes back as it was."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.incident.listing import RowOrder, ordered
from breakglass.services.incident.row import (
    TEXTS,
    EvidenceChunk,
    PartitionGroup,
    Sum,
    _sum_text,
    against,
    grouped,
    judged_again,
    judged_rows,
)
from breakglass.services.model import Denied, LogDir, PartitionEvidence, Silent, Unknown
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import Judged
from breakglass.services.recovery.judgement.verdict import assess
from tests.kit.incidents import (
    LEDGER,
    QUORUM,
    READ_AT_MS,
    every_verdict,
    unread,
)
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent, without_epochs


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


INCIDENT = every_verdict()


def written(groups: Iterable[PartitionGroup]) -> list[tuple[str, ...]]:
    return [tuple([text(group) for text in TEXTS]) for group in groups]


def test_time_bombs_stand_first_then_internal_topics_then_the_others_by_verdict() -> None:
    assert written(grouped(ordered(INCIDENT.rows))) == [
        ("BOMB", "stop b4 NOW", "carts-0..2 (3)", "b2", "", "", "0", "b3", "2 of 3"),
        ("LOSS", "elect b1", "__consumer_offsets-7 (1)", "b1", "", "", "~440", "b3", "2 of 3"),
        ("STUCK", "reassignment", "stock-2 (1)", "-", "", "", "-", "b3", "1 of 2"),
        ("WAIT", "start b3", "orders-0..3 (4)", "b1", "", "", "0", "b3 >= 100", "2 of 3"),
        ("FORK", "decide", "audit-5 (1)", "-", "", "", "-", "b3", "2 of 3"),
        ("LOSS", "elect b1", "ledger-3 (1)", "b1", "", "", "50", "b3", "2 of 3"),
        ("LOSS", "elect b1", "users-6 (1)", "b1", "", "", "?", "b3", "2 of 3"),
        ("SAFE", "elect b2", "payments-1 (1)", "b2", "", "", "0", "b3", "2 of 3"),
    ]


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (RowOrder.URGENCY, "carts-0"),
        (RowOrder.TOPIC, "__consumer_offsets-7"),
        (RowOrder.LOSS, "users-6"),
        (RowOrder.UNREAD, "carts-0"),
        (RowOrder.LEO, "__consumer_offsets-7"),
        (RowOrder.EPOCH, "users-6"),
        (RowOrder.HEARD, "stock-2"),
    ],
)
def test_a_list_is_sorted_by_what_is_asked_for_and_keeps_every_row(
    order: RowOrder, first: str
) -> None:
    rows = ordered(INCIDENT.rows, order)
    assert str(rows[0].partition) == first
    assert sorted(map(str, rows)) == sorted(map(str, INCIDENT.rows))
    assert len(ordered(unread(5).rows, order)) == 5


@pytest.mark.parametrize(
    ("sum_", "about", "text"),
    [
        (Sum(50, 0, 2), False, "50"),
        (Sum(1_234, 1, 2), False, ">= 1,234"),
        (Sum(50, 0, 2), True, "~50"),
        (Sum(0, 0, 2), True, "0"),
        (Sum(0, 2, 0), False, "?"),
        (Sum(), False, "-"),
    ],
)
def test_sums_tell_exact_about_at_least_unknown_and_none_apart(
    sum_: Sum, about: bool, text: str
) -> None:
    assert _sum_text(sum_, about=about) == text


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
