"""A plan against the cluster of now, and renewed by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.errors import WrongCluster
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.recovery.plan.document import ChosenBy, Plan
from breakglass.services.recovery.plan.draft import (
    PresentEvidence,
    check_present,
    present_of,
    renew,
    tally,
)
from breakglass.services.recovery.plan.edit import exclude, set_leader
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot
from tests.unit.recovery.plans import CLUSTER, FORK, GONE, LOSS, SAFE, planned
from tests.unit.recovery.replicas import log, offline, silent

NOW_MS = 1_700_000_900_000


def present(
    plan: Plan,
    *evidence: PartitionEvidence,
    unheard: tuple[PartitionEvidence, ...] = (),
    cluster: str = CLUSTER,
) -> PresentEvidence:
    """What the cluster says now: *evidence* of offline and online ones, nothing of others."""
    snapshot = ClusterSnapshot(
        ClusterDescription(cluster, (), names_fenced=True),
        Unknown("not asked"),
        tuple(one.state for one in (*evidence, *unheard)),
        NOW_MS,
    )
    judged = [assess(one, GONE) for one in evidence if one.state.offline]
    return present_of(plan, snapshot, judged, NOW_MS)


def online(evidence: PartitionEvidence, leader: int) -> PartitionEvidence:
    return replace(evidence, state=replace(evidence.state, leader=leader))


LONGER = offline(log(1, (0, 130)), log(2, (0, 100)), silent(3), number=1, floor=100)
"""SAFE, where b1 was written to since."""
SHORTER_EPOCH = offline(
    log(2, (0, 100), (1, 150), hw=100), log(1, (0, 100), (2, 125), hw=100), silent(3),
    number=3, leader_epoch=12, floor=100,
)  # fmt: skip
"""LOSS, of another leader epoch."""


def test_each_election_stands_as_the_cluster_says_now() -> None:
    plan = planned(SAFE, LOSS)
    found = check_present(plan, present(plan, LONGER, SHORTER_EPOCH))
    assert {str(one): it.status for one, it in found.items()} == {
        "orders-1": CheckStatus.CHANGED,
        "orders-3": CheckStatus.RERANKED,
    }


def test_what_is_online_gone_or_the_same_is_told_apart() -> None:
    plan = planned(SAFE, LOSS)
    found = check_present(plan, present(plan, online(SAFE, 2)))
    assert [checked.status for checked in found.values()] == [CheckStatus.ONLINE, CheckStatus.GONE]
    assert check_present(plan, present(plan, SAFE, LOSS))[LOSS.partition].status is (
        CheckStatus.UNCHANGED
    )


def test_what_was_not_read_yet_is_neither_gone_nor_changed() -> None:
    plan = planned(SAFE, LOSS)
    now = present(plan, SAFE, unheard=(LOSS,))
    assert now.unheard == {LOSS.partition}
    assert list(check_present(plan, now)) == [SAFE.partition]


def test_a_plan_for_another_cluster_is_not_held_against_this_one() -> None:
    with pytest.raises(WrongCluster, match="made for cluster prod-eu-1"):
        present(planned(SAFE), cluster="staging")


def test_partitions_that_the_plan_does_not_know_play_no_part() -> None:
    now = present(planned(SAFE), SAFE, LOSS, online(FORK, 1))
    assert list(now.assessments) == [SAFE.partition]
    assert dict(now.online) == {}


def test_a_renewed_plan_rests_on_the_evidence_of_now() -> None:
    plan = planned(SAFE, LOSS)
    now = present(plan, LONGER, SHORTER_EPOCH)
    after = renew(plan, now)
    assert after.leaders == {SAFE.partition: 1, LOSS.partition: 1}
    assert after.records[SAFE.partition].evidence == LONGER
    assert after.breakglass is not None
    assert after.breakglass.made_at_ms == NOW_MS
    assert {checked.status for checked in check_present(after, now).values()} == {
        CheckStatus.UNCHANGED
    }


def test_renewing_keeps_a_choice_by_hand_where_it_can_still_be_held() -> None:
    plan = set_leader(planned(SAFE, LOSS), LOSS.partition, 2)
    after = renew(plan, present(plan, LONGER, SHORTER_EPOCH))
    assert after.leaders[LOSS.partition] == 2
    assert after.records[LOSS.partition].chosen_by is ChosenBy.HAND


def test_renewing_leaves_out_a_choice_that_can_no_longer_be_held() -> None:
    plan = set_leader(planned(LOSS), LOSS.partition, 2)
    fenced = replace(LOSS, replicas=(replace(LOSS.replicas[0], fenced=True), *LOSS.replicas[1:]))
    after = renew(plan, present(plan, fenced))
    assert (dict(after.leaders), after.left_out[0].left_out) == ({}, "b2 is fenced")


def test_renewing_leaves_out_what_is_online_gone_or_no_longer_recommended() -> None:
    plan = planned(SAFE, LOSS, offline(log(1, (0, 9)), number=9))
    forked = replace(FORK, state=replace(FORK.state, partition=LOSS.partition))
    after = renew(plan, present(plan, online(SAFE, 2), forked))
    assert dict(after.leaders) == {}
    assert [record.left_out.split(":")[0] for record in after.left_out] == [
        "b2 leads it by now",
        "history fork",
        "there is no such partition any more",
    ]


def test_what_was_left_out_stays_out_when_a_plan_is_renewed() -> None:
    plan = exclude(planned(SAFE, LOSS), SAFE.partition, "its owner decides")
    after = renew(plan, present(plan, LONGER, LOSS))
    assert list(after.leaders) == [LOSS.partition]
    assert after.records[SAFE.partition].left_out == "its owner decides"
    assert after.records[SAFE.partition].evidence == LONGER


def test_what_was_not_heard_is_not_renewed() -> None:
    plan = planned(SAFE, LOSS)
    after = renew(plan, present(plan, LONGER, unheard=(LOSS,)))
    assert after.records[LOSS.partition] is plan.records[LOSS.partition]
    assert after.leaders[LOSS.partition] == 1


def test_a_plan_renewed_by_the_same_evidence_has_the_same_digest() -> None:
    plan = planned(SAFE, LOSS, FORK)
    assert renew(plan, present(plan, SAFE, LOSS, FORK)).digest == plan.digest


def test_a_bare_plan_cannot_be_renewed() -> None:
    plan = planned(SAFE)
    bare = Plan(entries=plan.entries)
    with pytest.raises(ValueError, match="adopted"):
        renew(bare, present(bare, SAFE))


def test_elections_are_counted_by_how_they_stand() -> None:
    plan = planned(SAFE, LOSS)
    counts = tally(check_present(plan, present(plan, LONGER, LOSS)).values())
    assert counts == {CheckStatus.UNCHANGED: 1, CheckStatus.CHANGED: 1}


def test_what_is_not_known_of_a_partition_is_none() -> None:
    assert present(planned(SAFE), SAFE).evidence(TopicPartition("carts", 0)) is None
