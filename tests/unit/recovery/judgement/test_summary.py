"""What to do first, over many partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.model import Denied, PartitionEvidence, Reassignment, Role, Silent, Unknown
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import Summary, summarize
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.snapshot import Quorum
from tests.unit.recovery.replicas import HEALTHY, PLAIN, log, offline, silent, without_epochs

LAST = Role.LAST_KNOWN_ELR


def summed(*evidence: PartitionEvidence, circumstances: Circumstances = HEALTHY) -> Summary:
    return summarize((assess(one, circumstances) for one in evidence), circumstances.quorum)


def waiting(number: int, *brokers: int) -> PartitionEvidence:
    members = [silent(broker, role=Role.ELR) for broker in brokers]
    evidence = offline(*members, log(9, (8, 5)), number=number)
    return replace(evidence, state=replace(evidence.state, last_known_elr=brokers[:1]))


SAFE = offline(log(1, (0, 9)), log(2, (0, 5)), number=50)
LOSS = offline(
    log(2, (0, 100), (1, 150), hw=100), log(1, (0, 100), (2, 125), hw=100), number=51
)  # fmt: skip
FORK = offline(log(1, (0, 900)), log(2, (0, 9), (5, 12)), number=52)
BOMB = offline(log(4, role=LAST), log(2, (0, 9)), number=53)
STUCK = offline(log(1, (0, 9)), number=54, reassignment=Reassignment((4,), ()))
UNKNOWN_LOSS = offline(log(1, (5, 100)), without_epochs(2, 90), number=55)
RETURNING = offline(log(1, (0, 9), role=LAST), number=56)


@pytest.mark.parametrize(
    ("evidence", "headline"),
    [
        pytest.param([], "No partition is offline.", id="nothing"),
        pytest.param(
            [waiting(0, 1, 2), waiting(1, 2), waiting(2, 3), SAFE],
            "Run breakglass rescue --before-return 2, then start b2: 2 of 4 come back whole.",
            id="the broker that brings back most",
        ),
        pytest.param(
            [offline(log(1, (0, 9), role=Role.ELR, fenced=True), log(2, (0, 5)))],
            "Reconnect b1: 1 of 1 comes back whole.",
            id="a broker that runs fenced",
        ),
        pytest.param(
            [RETURNING, SAFE],
            "Wait: the controller brings back 1 of 2 by itself.",
            id="a live successor",
        ),
        pytest.param(
            [SAFE, SAFE], "Elect: 2 of 2 lose nothing that is readable.", id="without loss"
        ),
        pytest.param([LOSS], "Elect: 1 loses 50 records.", id="at a loss"),
        pytest.param(
            [SAFE, LOSS, UNKNOWN_LOSS],
            "Elect: 1 of 3 loses nothing that is readable, 2 lose 50 records, 1 of them an unknown "
            "number.",
            id="mixed",
        ),
        pytest.param(
            [UNKNOWN_LOSS], "Elect: 1 loses an unknown number of records.", id="unknown loss"
        ),
        pytest.param([FORK, STUCK], "Decide 1 of 2: committed records on both sides.", id="a fork"),
        pytest.param([STUCK], "1 of 1 is stuck: reassignment.", id="stuck"),
        pytest.param([BOMB], "Then read again.", id="bomb"),
    ],
)
def test_one_sentence_says_what_helps_most(
    evidence: list[PartitionEvidence], headline: str
) -> None:
    assert summed(*evidence).headline == headline


def test_estimates_carry_a_tilde() -> None:
    compacted = replace(LOSS, settings=replace(PLAIN, compacted=True))
    assert summed(compacted).headline == "Elect: 1 loses ~50 records."


def test_r02_the_alarm_comes_first_and_names_broker_and_partitions() -> None:
    found = summed(BOMB, waiting(0, 3), SAFE, BOMB)
    assert (found.alarm, found.headline) == (
        "FIRST stop b4 NOW: BOMB on 2.",
        "Then start b3: 1 of 4 comes back whole.",
    )
    assert summed(SAFE).alarm == ""


def test_r02_a_bomb_that_is_still_fenced_is_as_urgent() -> None:
    fenced = offline(log(4, role=LAST, fenced=True), log(2, (0, 9)))
    assert summed(fenced).alarm == "FIRST stop b4 NOW: BOMB on 1."


def test_r20_a_lost_quorum_is_the_headline() -> None:
    lost = replace(HEALTHY, quorum=Quorum(None, 7, 9, ()))
    found = summed(waiting(0, 1), circumstances=lost)
    assert found.headline.startswith("No controller quorum")


@pytest.mark.parametrize(
    ("quorum", "doubt"),
    [
        pytest.param(
            Silent("the controller quorum does not answer"),
            "the controllers do not answer it",
            id="silent",
        ),
        pytest.param(
            Quorum(None, 7, 9, ()), "the controller quorum has no leader", id="without leader"
        ),
        pytest.param(Unknown("not asked"), "the quorum is unknown: not asked", id="unknown"),
    ],
)
def test_r20_brokers_cut_off_from_the_controllers_do_not_know_that_nothing_is_offline(
    quorum: Quorum | Unknown, doubt: str
) -> None:
    found = summed(circumstances=replace(HEALTHY, quorum=quorum))
    assert found.headline == f"No partition is offline as far as this broker knows; {doubt}."


def test_a_missing_acl_is_no_doubt_about_the_quorum() -> None:
    denied = replace(HEALTHY, quorum=Denied("not allowed", "DESCRIBE on CLUSTER"))
    assert summed(circumstances=denied).headline == "No partition is offline."


def test_one_record_is_no_plural() -> None:
    single = offline(log(1, (0, 9), (2, 10)), log(2, (0, 9), (1, 10), hw=9))
    assert summed(single).headline == "Elect: 1 loses 1 record."


def test_counts_are_by_verdict_and_leave_out_what_does_not_occur() -> None:
    found = summed(SAFE, LOSS, SAFE, BOMB)
    assert found.total == 4
    assert found.counts == {Verdict.BOMB: 1, Verdict.LOSS: 1, Verdict.SAFE: 2}


def test_a_lost_quorum_is_not_an_unread_one() -> None:
    unread = replace(HEALTHY, quorum=Unknown("not asked"))
    assert summed(SAFE, circumstances=unread).headline.startswith("Elect")
