"""Who should lead (R8): last written epoch, then log end, then the order of the assignment."""

from dataclasses import replace

import pytest
from hypothesis import given

from breakglass.services.model import LogContents, PartitionEvidence, Unknown
from breakglass.services.recovery.judgement.ranking import (
    ReplicaStanding,
    election_order,
    eligibility,
    how_far_read,
    log_rank,
    rank,
    readable,
)
from breakglass.services.words.figures import contents_text
from tests.unit.recovery.notation import incident
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import log, offline


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("b1 0:100 1:150, b2 0:100 2:125", (2, 1), id="epoch over length"),
        pytest.param("b1 3:70, b2 3:103", (2, 1), id="length within an epoch"),
        pytest.param("b3 1:9, b1 1:9, b2 1:9", (3, 1, 2), id="assignment"),
        pytest.param("b1 empty, b2 0:1", (2, 1), id="without records last"),
        pytest.param("b1 empty from900, b2 0:1", (2, 1), id="emptied by retention last"),
        pytest.param("b2 0:120 corrupt40, b3 0:100", (3, 2), id="it ends at a corrupt batch"),
        pytest.param("b2 0:120 corrupt110, b3 0:100", (2, 3), id="even so it is longer"),
        pytest.param(
            "b2 0:50 7:120 corrupt40, b3 0:45", (3, 2), id="an epoch past a corrupt batch"
        ),
        pytest.param(
            "b2 0:50 7:120 corrupt60, b3 0:99", (2, 3), id="an epoch before a corrupt batch"
        ),
        pytest.param(
            "b3 0:100 corrupt40, b2 0:120 corrupt40", (2, 3), id="corrupt alike: the longer one"
        ),
        pytest.param(
            "b2 0:120 from30 corrupt30, b3 0:31 from30", (3, 2), id="corrupt from its start"
        ),
        pytest.param("b2 0:120 corrupt120, b3 0:100", (2, 3), id="corrupt at its end is whole"),
        pytest.param("b1 empty, b2 end100", (2, 1), id="without records no epoch is needed"),
        pytest.param("b3 end120, b2 3:150, b1 5:100", (1, 2, 3), id="a proven order is kept"),
        pytest.param(
            "b1 9:999 fenced, b2 hung, b3 0:1", (3, 2, 1), id="R16: what cannot be recommended last"
        ),
    ],
)
def test_r08_replicas_rank_by_written_epoch_then_end_then_assignment(
    given: str, expected: tuple[int, ...]
) -> None:
    assert rank(incident(given).evidence).brokers == expected


def test_r08_the_current_leader_epoch_does_not_rank() -> None:
    longer = replace(log(1, (1, 150)), leader_epoch=3)
    later = replace(log(2, (2, 125)), leader_epoch=3)
    assert rank(offline(longer, later)).brokers == (2, 1)


@pytest.mark.parametrize(
    ("given", "unproven"),
    [
        pytest.param("b1 5:100, b2 end150", True, id="ends differ"),
        pytest.param("b1 end100, b2 end100", False, id="ends are equal"),
        pytest.param("b1 empty, b2 end100", False, id="the other has no records"),
        pytest.param("b3 end120, b2 3:150, b1 5:100", True, id="a third replica is known"),
    ],
)
def test_r08_an_unknown_epoch_where_ends_differ_leaves_the_order_unproven(
    given: str, unproven: bool
) -> None:
    assert bool(rank(incident(given).evidence).unproven) is unproven


@pytest.mark.parametrize(
    ("given", "remarked"),
    [
        pytest.param("b1 empty, b2 0:9", [1], id="others hold records"),
        pytest.param("b1 empty, b2 empty", [], id="no replica holds records"),
        pytest.param("b1 0:9, b2 0:12 corrupt4", [2], id="a log is corrupt"),
    ],
)
def test_r21_a_log_end_of_zero_where_others_hold_records_is_remarked(
    given: str, remarked: list[int]
) -> None:
    candidates = rank(incident(given).evidence).candidates
    assert [candidate.broker for candidate in candidates if candidate.remark] == remarked


@pytest.mark.parametrize(
    ("given", "designee", "order"),
    [
        ("b5 empty, b4 down, b1 2:90 fenced, b2 1:80, b3 2:70", 3, (3, 1, 2, 4, 5)),
        ("b5 empty, b4 down, b1 2:90 fenced, b2 1:80, b3 2:70", 5, (5, 1, 3, 2, 4)),
        ("b2 0:120 corrupt40, b3 0:100, b1 0:90", 3, (3, 1, 2)),
    ],
)
def test_r04_the_order_to_write_is_the_designee_and_then_best_to_worst(
    given: str, designee: int, order: tuple[int, ...]
) -> None:
    evidence = incident(given).evidence
    assert election_order(evidence, rank(evidence), designee) == order


@given(partitions())
def test_r08_the_winner_is_never_below_another_eligible_replica(
    evidence: PartitionEvidence,
) -> None:
    winner = rank(evidence).winner
    if winner is None:
        return
    best = readable(winner.replica)
    mine = best.last_written_epoch
    for other in map(readable, evidence.replicas):
        theirs = other.last_written_epoch
        if eligibility(evidence, other.broker).recommendable:
            assert log_rank(other) <= log_rank(best)
            if isinstance(mine, int) and isinstance(theirs, int):
                assert theirs <= mine


@given(partitions())
def test_every_replica_has_its_place_in_ranking_and_order(evidence: PartitionEvidence) -> None:
    ranking = rank(evidence)
    assert sorted(ranking.brokers) == sorted(evidence.state.assignment)
    for broker in ranking.brokers:
        order = election_order(evidence, ranking, broker)
        assert order[0] == broker
        assert sorted(order) == sorted(evidence.state.assignment)


@pytest.mark.parametrize(
    ("contents", "whole"),
    [
        (LogContents(0, 100), True),
        (LogContents(0, 80), False),
        (LogContents(40, 100, stopped="the time is up"), False),
        (LogContents(0, 40, corrupt_at=40, damage="its CRC is another"), False),
        (Unknown("they were not read"), False),
    ],
)
def test_contents_are_called_whole_only_where_all_of_the_log_was_read(
    contents: LogContents | Unknown, whole: bool
) -> None:
    replica = replace(log(1, (0, 100)), contents=contents)
    limited = any(word in contents_text(replica) for word in ("not read", "corrupt"))
    assert ("all its" in how_far_read(replica), limited) == (whole, not whole)


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
