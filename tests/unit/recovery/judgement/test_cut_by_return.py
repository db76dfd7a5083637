"""What a returning leader cuts from others: proved to be nothing, counted, or unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.model import PartitionEvidence, ReplicaLog, Role, TopicSettings, Unknown
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.judgement.cut_by_return import CutByReturn, cut_by_return
from breakglass.services.recovery.judgement.summary import summarize
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.rescue.spans import Span, at_risk_of_return, shares_of
from tests.unit.recovery.replicas import HEALTHY, PLAIN, log, offline, silent

LAST = Role.LAST_KNOWN_ELR
OLD_TAIL = log(2, (0, 100), (1, 150), hw=100)
"""b2 led epoch 1 alone; its records from 100 on may be nobody else's."""


def left(*replicas: ReplicaLog, settings: TopicSettings = PLAIN) -> PartitionEvidence:
    """Offline since the leader of epoch 4 was lost."""
    return offline(*replicas, leader_epoch=5, settings=settings)


def noting(leader: int, evidence: PartitionEvidence) -> PartitionEvidence:
    """*evidence* with the last known leader beside ISR and ELR."""
    return replace(evidence, state=replace(evidence.state, last_known_elr=(leader,)))


def cut(evidence: PartitionEvidence, broker: int = 1) -> CutByReturn:
    found = cut_by_return(evidence, broker)
    assert found is not None
    return found


def test_a_replica_that_followed_the_returning_leader_loses_nothing() -> None:
    follower = log(2, (3, 100), (4, 120))
    assert cut_by_return(left(silent(1, role=LAST), follower), 1) is None
    assert cut_by_return(left(silent(1, role=Role.ISR), follower), 1) is None


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(left(silent(1, role=LAST), OLD_TAIL), id="of an earlier epoch"),
        pytest.param(
            left(silent(1, role=Role.ELR), silent(3, role=Role.ELR), log(2, (4, 150))),
            id="one of two that may have led last",
        ),
        pytest.param(left(silent(1, role=Role.ELR), log(2, (4, 150))), id="no leader was noted"),
        pytest.param(
            noting(3, left(silent(1, role=Role.ELR), log(2, (4, 150)))), id="another led last"
        ),
    ],
)
def test_what_is_not_proved_is_unknown_and_never_0(evidence: PartitionEvidence) -> None:
    found = cut(evidence)
    assert (found.holders, found.at_least) == ((2,), 0)
    assert isinstance(found.records, Unknown)
    assert "b2 may hold records that b1 lacks" in found.sentence
    assert "breakglass rescue --before-return 1" in found.sentence


def test_the_controller_notes_who_led_last_beside_an_elr() -> None:
    both = left(silent(1, role=Role.ELR), silent(3, role=Role.ELR), log(2, (4, 150)))
    assert cut_by_return(noting(1, both), 1) is None
    assert cut_by_return(noting(1, both), 3) is not None


def test_logs_that_diverge_give_a_lower_bound() -> None:
    """b2 and b3 part at 100: whatever b1 has, 25 or 50 records are in one of them alone."""
    shorter = log(3, (0, 100), (2, 125), hw=100)
    found = cut(left(silent(1, role=LAST), OLD_TAIL, shorter))
    assert (found.holders, found.at_least) == ((2, 3), 25)
    assert isinstance(found.records, Unknown)
    assert "at least 25" in found.sentence


def test_a_follower_of_the_returning_leader_tells_which_side_is_cut() -> None:
    """b3 followed b1 from 100 on, so all of b2's records from there on are cut."""
    follower = log(3, (0, 100), (4, 103))
    found = cut(left(silent(1, role=LAST), OLD_TAIL, follower))
    assert (found.holders, found.at_least) == ((2,), 50)


def test_a_log_that_was_reported_since_gives_the_figure() -> None:
    heard = replace(log(1, (0, 100), (4, 130)), leader_epoch=5)
    evidence = left(silent(1, role=LAST, last_heard=heard), OLD_TAIL)
    found = cut(evidence)
    assert (found.records, found.at_least, found.holders) == (50, 50, (2,))
    earlier = silent(1, role=LAST, last_heard=replace(heard, leader_epoch=4))
    assert isinstance(cut(left(earlier, OLD_TAIL)).records, Unknown)


def test_a_live_leader_to_be_is_compared() -> None:
    """The clean election of an ISR member cuts the longer, uncommitted tail of another."""
    heir = log(1, (0, 100), role=Role.ISR)
    tail = log(2, (0, 100), (1, 110), hw=100)
    found = assess(left(heir, tail), HEALTHY)
    assert (found.verdict, str(found.action)) == (Verdict.WAIT, "await b1")
    assert found.cut_by_return is not None
    assert found.cut_by_return.records == 10
    assert found.reasons[1].startswith("b2 has 10 records that are not in the log of b1")
    assert cut_by_return(left(heir, log(2, (0, 90))), 1) is None


def test_the_verdict_says_it_and_how_to_save_it_before() -> None:
    found = assess(left(silent(1, role=LAST), OLD_TAIL), HEALTHY)
    assert (found.verdict, str(found.action)) == (Verdict.WAIT, "start b1")
    assert found.cut_by_return is not None
    assert found.reasons[1] == found.cut_by_return.sentence
    assert summarize([found]).headline == (
        "Run breakglass rescue --before-return 1, then start b1: 1 of 1 comes back whole."
    )
    followed = assess(left(silent(1, role=LAST), log(2, (4, 150))), HEALTHY)
    assert followed.cut_by_return is None
    assert summarize([followed]).headline == "Start b1: 1 of 1 comes back whole."


def test_a_replica_to_be_started_that_would_not_lead_cuts_nothing() -> None:
    found = assess(left(silent(1), OLD_TAIL), HEALTHY)
    assert (str(found.action), found.cut_by_return) == ("start b1", None)


def test_the_rescue_takes_what_is_not_proved_to_be_there_and_no_more() -> None:
    follower = log(3, (0, 100), (4, 130))
    evidence = left(silent(1, role=LAST), OLD_TAIL, follower)
    risk = at_risk_of_return(evidence, 1)
    assert risk is not None
    shares = shares_of(risk)
    assert not isinstance(shares, Unknown)
    assert [(share.replica.broker, share.spans) for share in shares] == [(2, (Span(0, 150),))]
    heard = replace(log(1, (0, 100), (4, 130)), leader_epoch=5)
    known = at_risk_of_return(left(silent(1, role=LAST, last_heard=heard), OLD_TAIL), 1)
    assert known is not None
    shares = shares_of(known)
    assert not isinstance(shares, Unknown)
    assert [(share.replica.broker, share.spans) for share in shares] == [(2, (Span(100, 150),))]


def test_nothing_is_saved_for_a_broker_that_does_not_lead_on_its_return() -> None:
    assert at_risk_of_return(left(silent(1), silent(3, role=LAST), OLD_TAIL), 1) is None
