"""A replica with a corrupt batch: ranked, priced and judged as if its log ended there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.model import (
    Denied,
    LogContents,
    PartitionEvidence,
    ReplicaLog,
    Role,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import Verdict, own_consent
from breakglass.services.recovery.judgement.inputs import abandoned
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.ranking import election_order, rank
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.rescue.spans import AtRisk, Span, shares_of
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent

SENTENCE = "b2 holds a corrupt batch at offset 40: consumers stop there"


def corrupt(replica: ReplicaLog, at: int) -> ReplicaLog:
    return replace(replica, contents=LogContents(min(at, 0), at, at, "its CRC differs"))


def whole(replica: ReplicaLog, start: int = 0, stopped: str = "") -> ReplicaLog:
    assert isinstance(replica.log_end, int)
    return replace(replica, contents=LogContents(start, replica.log_end, stopped=stopped))


def example(*more: ReplicaLog) -> PartitionEvidence:
    """b2 holds 120 and is corrupt at 40, b3 has 100 whole."""
    return offline(corrupt(log(2, (0, 120)), 40), whole(log(3, (0, 100))), *more)


def test_r08_a_corrupt_log_ranks_as_if_it_ended_at_the_corrupt_batch() -> None:
    assert rank(example()).brokers == (3, 2)
    assert rank(offline(corrupt(log(2, (0, 120)), 110), log(3, (0, 100)))).brokers == (2, 3)


def test_r08_an_epoch_that_begins_past_the_corrupt_batch_does_not_rank() -> None:
    later = corrupt(log(2, (0, 50), (7, 120)), 40)
    assert rank(offline(later, log(3, (0, 45)))).brokers == (3, 2)
    assert rank(offline(corrupt(log(2, (0, 50), (7, 120)), 60), log(3, (0, 99)))).brokers == (2, 3)


def test_r08_of_logs_corrupt_at_the_same_offset_the_longer_one_ranks_first() -> None:
    both = offline(corrupt(log(3, (0, 100)), 40), corrupt(log(2, (0, 120)), 40))
    assert rank(both).brokers == (2, 3)


def test_r08_a_log_that_is_corrupt_from_its_start_ranks_with_those_without_records() -> None:
    nothing = corrupt(log(2, (0, 120), start=30), 30)
    assert rank(offline(nothing, log(3, (0, 31), start=30))).brokers == (3, 2)


def test_r04_the_order_that_is_written_has_the_corrupt_one_behind_the_whole_one() -> None:
    evidence = example(log(1, (0, 90)))
    assert election_order(evidence, rank(evidence), 3) == (3, 1, 2)


def test_what_the_corrupt_one_cannot_serve_is_its_price_its_own_records_included() -> None:
    assert loss_of(example(), 2).total == 80
    assert loss_of(offline(corrupt(log(2, (0, 120)), 40)), 2).total == 80


def test_as_a_loser_its_log_counts_in_full() -> None:
    assert loss_of(example(), 3).total == 20


def test_r09_what_others_hold_past_the_corrupt_batch_is_counted_once() -> None:
    forked = offline(corrupt(log(2, (0, 60), (1, 120)), 40), log(3, (0, 60), (2, 70)))
    assert loss_of(forked, 2).total == 80 + 10


def test_r09_committed_records_past_the_corrupt_batch_are_lost_committed_records() -> None:
    evidence = offline(corrupt(log(2, (0, 120), hw=100), 40), log(3, (0, 100), hw=90))
    records = loss_of(evidence, 2).records
    assert (records.total, records.committed, records.uncommitted) == (80, 60, 20)
    assert loss_of(evidence, 2).committed_elsewhere is True


def test_r10_a_head_that_only_others_have_is_lost_beside_the_corrupt_tail() -> None:
    evidence = offline(corrupt(log(2, (0, 120), start=20), 40), log(3, (0, 100)))
    loss = loss_of(evidence, 2)
    assert (loss.head.total, loss.tail.total) == (20, 80)


def test_a_corrupt_offset_at_or_past_the_log_end_changes_nothing() -> None:
    evidence = offline(corrupt(log(2, (0, 120)), 120), log(3, (0, 100)))
    assert rank(evidence).brokers == (2, 3)
    assert loss_of(evidence, 2).total == 0


def test_the_whole_one_is_proposed_at_the_price_of_the_rest() -> None:
    found = assess(example(), HEALTHY)
    assert (found.verdict, found.designee) == (Verdict.LOSS, 3)
    assert found.loss is not None
    assert found.loss.total == 20
    assert SENTENCE in found.reasons
    assert found.ranking.candidates[1].remark == "corrupt at 40"


def test_a_whole_one_that_holds_everything_is_safe_though_another_is_corrupt() -> None:
    evidence = offline(corrupt(log(2, (0, 120)), 40), whole(log(3, (0, 120))))
    found = assess(evidence, HEALTHY)
    assert (found.verdict, found.designee) == (Verdict.SAFE, 3)
    assert found.automatable


def test_a_corrupt_winner_is_a_loss_that_needs_a_consent_of_its_own() -> None:
    evidence = offline(corrupt(log(2, (0, 120)), 40), log(3, (0, 30)))
    found = assess(evidence, HEALTHY)
    assert (found.verdict, found.designee) == (Verdict.LOSS, 2)
    assert found.loss is not None
    assert found.loss.total == 80
    assert SENTENCE in found.barriers
    assert own_consent(evidence, 2, ()) == SENTENCE


def test_a_live_successor_that_is_corrupt_is_awaited_and_said_to_be_corrupt() -> None:
    heir = corrupt(log(2, (0, 120), role=Role.ISR), 40)
    found = assess(offline(heir, log(3, (0, 100))), HEALTHY)
    assert found.verdict is Verdict.WAIT
    assert SENTENCE in found.reasons[0]


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (LogContents(0, 120), "its contents were read whole"),
        (LogContents(80, 120, stopped="the budget"), "its contents were read back to offset 80"),
        (
            LogContents(80, 90, stopped="b2 throttles this user"),
            "of its contents only 80..90 was read: b2 throttles this user",
        ),
        (Unknown("its contents were not read (--verify-contents off)"),) * 2,
        (Denied("not allowed: needs READ on topic orders", "READ on topic orders"),) * 2,
    ],
)
def test_a_safe_election_says_how_far_its_designee_was_read(
    contents: LogContents | Unknown, said: str | Unknown
) -> None:
    found = assess(offline(replace(log(2, (0, 120)), contents=contents)), HEALTHY)
    sentence = said.reason if isinstance(said, Unknown) else said
    assert found.verdict is Verdict.SAFE
    assert found.reasons[0] == f"b2 holds everything that can be read; {sentence}"


def test_a_rescue_saves_what_consumers_of_the_corrupt_one_will_not_read() -> None:
    found = shares_of(AtRisk(example(), 2))
    assert not isinstance(found, Unknown)
    (share,) = found
    assert (share.replica.broker, share.spans) == (3, (Span(40, 100),))


def test_a_silent_log_that_reached_past_the_corrupt_batch_is_not_proved_to_hold_no_more() -> None:
    told = replace(log(1, (0, 50)), leader_epoch=9)
    before = replace(silent(1), last_heard=told)
    assert abandoned(offline(before, whole(log(2, (0, 120)))), 2) == ()
    assert abandoned(offline(before, corrupt(log(2, (0, 120)), 40)), 2) == (1,)
