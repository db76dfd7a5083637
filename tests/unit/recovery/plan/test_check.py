"""Whether what was agreed to still holds."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from breakglass.services.model import (
    LogContents,
    PartitionEvidence,
    Reassignment,
    ReplicaLog,
    Role,
    Unknown,
)
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.check import Checked, CheckStatus, check
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.plan.make import Appraisal, appraise
from breakglass.services.recovery.triage import Selection
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot
from tests.unit.recovery.plans import CLUSTER, GONE, LOSS, MADE_AT_MS, SAFE, planned
from tests.unit.recovery.replicas import ANOTHER_TOPIC_ID, log, offline, silent

THEN = offline(
    log(1, (0, 90)), log(2, (0, 100)), silent(3, role=Role.LAST_KNOWN_ELR), leader_epoch=9
)


def checked(now: PartitionEvidence | None, then: PartitionEvidence = THEN) -> Checked:
    fresh = {} if now is None else {now.partition: now}
    (found,) = check(planned(then), fresh)
    return found


def with_state(**changes: Any) -> PartitionEvidence:
    return replace(THEN, state=replace(THEN.state, **changes))


def with_replicas(*replicas: ReplicaLog) -> PartitionEvidence:
    changed = {replica.broker: replica for replica in replicas}
    return replace(
        THEN, replicas=tuple(changed.get(replica.broker, replica) for replica in THEN.replicas)
    )  # fmt: skip


UNCHANGED, RERANKED, CHANGED = CheckStatus.UNCHANGED, CheckStatus.RERANKED, CheckStatus.CHANGED
BACK = silent(3, role=Role.LAST_KNOWN_ELR, fenced=False)
CHANGES = {
    "it was deleted": (None, CheckStatus.DELETED, "no such partition"),
    "its topic is another": (with_state(topic_id=ANOTHER_TOPIC_ID), CHANGED, "created again"),
    "it was elected": (with_state(leader=2), CheckStatus.ONLINE, "b2 leads it"),
    "the designee's log end": (with_replicas(log(2, (0, 101))), CHANGED, "b2 was 100 and is 101"),
    "another answers no more": (
        with_replicas(silent(1, fenced=False)),
        CHANGED,
        "90 and is unknown",
    ),
    "written epoch": (with_replicas(log(2, (0, 50), (4, 100))), CHANGED, "b2 was 0 and is 4"),
    "the designee is fenced": (with_replicas(log(2, (0, 100), fenced=True)), CHANGED, "is fenced"),
    "R01: the last leader is back": (with_replicas(BACK), CHANGED, "may elect b3 instead"),
    "a loser is fenced": (with_replicas(log(1, (0, 90), fenced=True)), UNCHANGED, ""),
    "R12": (with_state(reassignment=Reassignment((4,), ())), CHANGED, "a reassignment"),
    "R12 unregistered": (replace(THEN, unregistered=(3,)), CHANGED, "no longer registered"),
    "a replica is missing": (replace(THEN, replicas=THEN.replicas[:2]), CHANGED, "b3 was not read"),
    "another assignment": (with_state(assignment=(1, 2)), CHANGED, "b3 and is b1, b2"),
    "a leader epoch alone": (with_state(leader_epoch=10), RERANKED, "epoch 9 became 10"),
    "an order alone": (with_state(assignment=(2, 1, 3)), RERANKED, "the order of the assignment"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_decides_whether_the_election_goes_on(what: str) -> None:
    now, status, words = CHANGES[what]
    found = checked(now)
    assert found.status is status
    assert words in found.reason
    assert bool(found.reason) == bool(words)
    assert found.status.goes_on == (status in (UNCHANGED, RERANKED))


def test_an_order_that_costs_the_designee_its_rank_is_a_change() -> None:
    then = offline(log(1, (0, 90)), log(2, (0, 90)))
    now = replace(then, state=replace(then.state, assignment=(2, 1), leader_epoch=11))
    found = checked(now, then)
    assert (found.status, found.reason) == (CheckStatus.CHANGED, "b1 no longer has its rank")


def test_r16_a_leader_that_the_file_was_altered_to_is_refused_if_it_cannot_lead() -> None:
    plan = planned(THEN)
    entry = PlanEntry(topic="orders", number=3, leader=3)
    altered = Plan(entries=(entry,), breakglass=plan.breakglass)
    (found,) = check(altered, {THEN.partition: THEN})
    assert (found.status, found.reason) == (CheckStatus.REFUSED, "b3 is fenced")
    assert not found.status.fine


def test_a_loss_that_grew_though_the_ends_did_not_move_is_a_change() -> None:
    """The chosen log's start moved up, and with it what the others hold before it."""
    now = with_replicas(log(1, (0, 90), start=10), log(2, (0, 100), start=20))
    assert checked(now).reason == "electing b2 lost 0 and would lose 10"


def test_a_replica_that_is_no_longer_proved_to_hold_no_more_is_a_change() -> None:
    """Somebody led since: what it told before says nothing any more."""
    told = silent(3, last_heard=log(3, (0, 50)))
    then = replace(THEN, replicas=(*THEN.replicas[:2], told))
    led = replace(THEN, state=replace(THEN.state, leader_epoch=THEN.state.leader_epoch + 2))
    assert checked(led, then).reason == ("electing b2 would also abandon b3, which is unread now")
    assert checked(then, then).status is CheckStatus.UNCHANGED


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (100, 130, "unread logs had >= 0 records and have >= 30 now"),
        (130, 100, ""),
        (100, Unknown("no group tells"), "unread logs had >= 0 records and have an unknown number "
         "of records now"),
        (Unknown("no group tells"), 130, ""),
    ],
)  # fmt: skip
def test_more_that_is_known_to_be_unread_is_a_change(
    before: int | Unknown, now: int | Unknown, reason: str
) -> None:
    then = replace(THEN, unread_floor=before)
    assert checked(replace(THEN, unread_floor=now), then).reason == reason


def held_against(
    plan: Plan, *offline_now: PartitionEvidence, online: Iterable[PartitionEvidence] = ()
) -> Appraisal:
    """*plan* where only these partitions exist: without leader, or led by their first replica."""
    led = [replace(evidence.state, leader=evidence.state.assignment[0]) for evidence in online]
    named = [*(evidence.partition for evidence in offline_now), *(state.partition for state in led)]
    selection = Selection(
        ClusterSnapshot(
            ClusterDescription(CLUSTER, (), names_fenced=True), Unknown("not asked"), (), MADE_AT_MS
        ),
        tuple(evidence.state for evidence in offline_now),
        tuple(led),
        tuple(leader for leader in plan.leaders if leader not in named),
    )
    return appraise(plan, selection, [assess(evidence, GONE) for evidence in offline_now])


def bare(leader: int, *evidence: PartitionEvidence) -> Plan:
    entries = [
        PlanEntry(topic=one.partition.topic, number=one.partition.partition, leader=leader)
        for one in evidence
    ]
    return Plan(entries=tuple(entries))


def statuses(appraisal: Appraisal) -> list[CheckStatus]:
    return [checked.status for checked in appraisal.checked]


def test_targets_rest_on_the_evidence_of_now() -> None:
    same = held_against(planned(SAFE, LOSS), SAFE, LOSS)
    assert (statuses(same), same.fine) == ([CheckStatus.UNCHANGED] * 2, True)
    assert [target.designee for target in same.targets()] == [2, 1]
    led_since = replace(SAFE, state=replace(SAFE.state, leader_epoch=11))
    appraisal = held_against(planned(SAFE), led_since)
    assert statuses(appraisal) == [CheckStatus.RERANKED]
    assert appraisal.targets()[0].leader_epoch == 11


def test_what_changed_is_refused_with_the_reason_and_the_rest_goes_on() -> None:
    shorter = offline(log(1, (0, 90)), log(2, (0, 99)), SAFE.replicas[2], number=1)
    appraisal = held_against(planned(SAFE, LOSS), shorter, LOSS)
    assert not appraisal.fine
    assert [str(target.partition) for target in appraisal.targets()] == ["orders-3"]
    (skipped,) = appraisal.skipped
    assert skipped.result is RecoveryResult.REFUSED
    assert skipped.reason.startswith("the log end of b2 was 100 and is 99")
    assert skipped.reason.endswith(": make the plan again")


def test_elections_of_a_bare_plan_that_cannot_be_held_say_why() -> None:
    gone = offline(log(1), number=8)
    whole = held_against(bare(1, SAFE, LOSS), SAFE, LOSS)
    assert statuses(whole) == [CheckStatus.NEW, CheckStatus.NEW]
    assert [target.designee for target in whole.targets()] == [1, 1]
    appraisal = held_against(bare(3, SAFE, LOSS, gone), SAFE, online=[LOSS])
    assert [(skipped.result, skipped.reason) for skipped in appraisal.skipped] == [
        (RecoveryResult.REFUSED, "b3 is fenced: choose another leader"),
        (RecoveryResult.ALREADY_ONLINE, "led by b2"),
        (RecoveryResult.REFUSED, "there is no such partition: leave it out of the plan"),
    ]
    assert appraisal.targets() == ()


def with_contents(
    evidence: PartitionEvidence, broker: int, found: LogContents
) -> PartitionEvidence:
    replicas = [
        replace(replica, contents=found) if replica.broker == broker else replica
        for replica in evidence.replicas
    ]
    return replace(evidence, replicas=tuple(replicas))


CORRUPT = LogContents(0, 40, 40, "its CRC differs")


def test_damage_that_is_found_since_the_plan_was_made_stops_its_election() -> None:
    appraisal = held_against(planned(SAFE), with_contents(SAFE, 2, CORRUPT))
    (checked,) = appraisal.checked
    assert checked.status is CheckStatus.CHANGED
    assert checked.reason == "b2 no longer has its rank"
