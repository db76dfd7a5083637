"""The last look before a batch is sent: each guard by a table."""

from __future__ import annotations

import pytest

from breakglass.services.model import PartitionState, Reassignment, Unknown
from breakglass.services.recovery.execution.recheck import (
    TargetCheck,
    holders,
    recheck,
    recheck_log,
)
from breakglass.services.recovery.execution.target import ElectionTarget, RecoveryResult
from breakglass.services.snapshot import ClusterDescription
from tests.unit.recovery.execution.targets import (
    ANOTHER_TOPIC_ID,
    brokers,
    state,
    target,
)

WELL = brokers(1, 2, 3, fenced=(3,))
"""b3, which led last, is dead."""
NO_ELR = Unknown("before Kafka 4.0")


def refusal(
    state: PartitionState | None,
    described: ClusterDescription = WELL,
    wanted: ElectionTarget | None = None,
) -> str:
    """The reason of a refusal; empty where the target may be sent."""
    outcome = recheck(wanted or target(), state, described)
    if outcome is None:
        return ""
    assert outcome.result is RecoveryResult.REFUSED
    return outcome.reason


def test_a_partition_that_is_as_it_was_may_be_sent() -> None:
    assert refusal(state()) == ""


def test_one_that_has_our_order_already_may_be_sent() -> None:
    """A run that was cut off between reorder and election goes on."""
    assert refusal(state(assignment=(1, 2, 3))) == ""


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (None, "the topic is gone"),
        (state(topic_id=ANOTHER_TOPIC_ID), "the topic was recreated"),
        (state(leader_epoch=7), "led again since the evidence was read (leader epoch 5 became 7)"),
        (state(assignment=(3, 2)), "b1 is no longer in the assignment"),
        (state(assignment=(2, 3, 1)), "the assignment is now [2, 3, 1]"),
        (state(assignment=(3, 1, 2, 4)), "the assignment is now [3, 1, 2, 4]"),
    ],
)
def test_what_changed_since_the_evidence_was_read_is_refused(
    now: PartitionState | None, reason: str
) -> None:
    assert reason in refusal(now, brokers(1, 2, 3, 4, fenced=(3,)))


@pytest.mark.parametrize(("leader", "reason"), [(1, ""), (2, "led by b2")])
def test_a_partition_that_has_a_leader_is_online_which_is_a_success(
    leader: int, reason: str
) -> None:
    outcome = recheck(target(), state(leader=leader, leader_epoch=6, isr=(leader,)), WELL)
    assert outcome is not None
    assert (outcome.result, outcome.reason) == (RecoveryResult.ALREADY_ONLINE, reason)
    assert (outcome.leader, outcome.leader_epoch) == (leader, 6)
    assert outcome.succeeded


class TestWhoWouldBeElectedInstead:
    @pytest.mark.parametrize(
        ("now", "described", "held"),
        [
            (state(), WELL, ()),
            (state(isr=(3,)), WELL, ()),
            (state(isr=(3,)), brokers(1, 2, 3), (3,)),
            (state(elr=(3,)), brokers(1, 2, 3), (3,)),
            (state(last=(3,)), brokers(1, 2, 3), (3,)),
            (state(elr=(2, 3), last=(3,)), brokers(1, 2, 3), (2, 3)),
            (state(isr=(2,), elr=(3,)), brokers(1, 2, 3, fenced=(2,)), (3,)),
            (state(last=(1,)), WELL, ()),
            (state(isr=(1, 2)), WELL, (2,)),
            (state(isr=(3,), elr=NO_ELR, last=NO_ELR), brokers(1, 2, 3), (3,)),
            (state(isr=(3,), elr=NO_ELR, last=NO_ELR), brokers(1, 2, names_fenced=False), ()),
            (state(last=(3,)), brokers(1, 2), (3,)),
        ],
        ids=[
            "nobody",
            "ISR fenced",
            "ISR alive",
            "ELR alive",
            "last leader alive",
            "several, each once",
            "fenced ISR, live ELR",
            "the designee itself",
            "designee and another",
            "no ELR, ISR alive",
            "left out by an old cluster",
            "not registered: unknown",
        ],
    )
    def test_r01_unfenced_members_other_than_the_designee(
        self, now: PartitionState, described: ClusterDescription, held: tuple[int, ...]
    ) -> None:
        assert holders(TargetCheck(target(), now, described)) == held

    def test_r01_they_are_named_with_what_to_do(self) -> None:
        assert refusal(state(last=(3,)), brokers(1, 2, 3)) == (
            "b3 would be elected instead of b1: stop broker 3, wait until it is fenced, read again"
        )

    def test_r01_the_refusal_comes_even_when_our_order_is_written(self) -> None:
        assert "b3 would be elected" in refusal(
            state(assignment=(1, 2, 3), last=(3,)), brokers(1, 2, 3)
        )


class TestPartitionsThatMove:
    def test_r12_a_reassignment_is_not_meddled_with(self) -> None:
        moving = state(reassignment=Reassignment((4,), ()))
        assert refusal(moving) == ("a reassignment runs: cancel it or let it end, then plan again")

    def test_r12_not_knowing_whether_one_runs_is_no_leave_to_meddle(self) -> None:
        unknown = state(reassignment=Unknown("needs DESCRIBE on CLUSTER"))
        assert "needs DESCRIBE on CLUSTER" in refusal(unknown)

    def test_r12_an_unregistered_broker_in_the_assignment_is_named(self) -> None:
        assert "while b3 is not registered" in refusal(state(), brokers(1, 2))

    def test_r12_an_old_cluster_does_not_tell_unregistered_from_fenced(self) -> None:
        assert refusal(state(elr=NO_ELR, last=NO_ELR), brokers(1, 2, names_fenced=False)) == ""


class TestTheDesignee:
    @pytest.mark.parametrize(
        "described",
        [brokers(1, 2, 3, fenced=(1, 3)), brokers(2, 3, fenced=(3,))],
        ids=["fenced", "not registered"],
    )
    def test_r16_one_that_the_controller_does_not_take_for_alive_is_refused(
        self, described: ClusterDescription
    ) -> None:
        assert "b1 is fenced" in refusal(state(), described)

    def test_r16_an_unread_one_chosen_by_hand_is_taken_as_it_is(self) -> None:
        by_hand = target(log_end=None)
        assert refusal(state(), wanted=by_hand) == ""
        assert recheck_log(by_hand, Unknown("b1 does not answer")) is None
        assert recheck_log(by_hand, 17) is None

    def test_a_log_that_ends_where_it_did_may_be_elected(self) -> None:
        assert recheck_log(target(log_end=100), 100) is None

    @pytest.mark.parametrize("log_end", [0, 99, 101])
    def test_a_log_that_ends_elsewhere_is_not_the_one_agreed_to(self, log_end: int) -> None:
        """0: its disk was replaced since."""
        outcome = recheck_log(target(log_end=100), log_end)
        assert outcome is not None
        assert outcome.result is RecoveryResult.REFUSED
        assert outcome.reason == f"the log of b1 ended at 100 and now ends at {log_end}: plan again"

    def test_r06_a_log_that_is_no_longer_told_is_not_elected(self) -> None:
        outcome = recheck_log(target(log_end=100), Unknown("timed out"))
        assert outcome is not None
        assert outcome.reason == "b1 no longer reports its log (timed out): read again"
